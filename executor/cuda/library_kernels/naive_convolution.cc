#include "executor/cuda/library_kernels/naive_convolution.h"

namespace emplace::cuda {
namespace {

float& at(float* data, const std::array<std::int64_t, 4>& strides, std::int64_t a, std::int64_t b,
          std::int64_t c, std::int64_t d) {
  return data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
}

void clear(float* data, const std::array<std::int64_t, 4>& sizes,
           const std::array<std::int64_t, 4>& strides) {
  for (std::int64_t a = 0; a < sizes[0]; ++a)
    for (std::int64_t b = 0; b < sizes[1]; ++b)
      for (std::int64_t c = 0; c < sizes[2]; ++c)
        for (std::int64_t d = 0; d < sizes[3]; ++d) at(data, strides, a, b, c, d) = 0;
}

}  // namespace

void naive_convolution(const ConvolutionShape& s, float* x, float* w, float* y) {
  switch (s.kind) {
    case ConvolutionKind::kForward:
      clear(y, s.y, s.y_strides);
      break;
    case ConvolutionKind::kInputGradient:
      clear(x, s.x, s.x_strides);
      break;
    case ConvolutionKind::kFilterGradient:
      clear(w, s.w, s.w_strides);
      break;
  }
  const std::int64_t per_group_in = s.w[1], per_group_out = s.y[1] / s.groups;
  for (std::int64_t n = 0; n < s.y[0]; ++n)
    for (std::int64_t k = 0; k < s.y[1]; ++k)
      for (std::int64_t p = 0; p < s.y[2]; ++p)
        for (std::int64_t q = 0; q < s.y[3]; ++q) {
          float& out = at(y, s.y_strides, n, k, p, q);
          for (std::int64_t c = 0; c < per_group_in; ++c)
            for (std::int64_t r = 0; r < s.w[2]; ++r) {
              const std::int64_t h = p * s.stride[0] - s.pad[0] + r * s.dilation[0];
              if (h < 0 || h >= s.x[2]) continue;
              for (std::int64_t t = 0; t < s.w[3]; ++t) {
                const std::int64_t v = q * s.stride[1] - s.pad[1] + t * s.dilation[1];
                if (v < 0 || v >= s.x[3]) continue;
                float& in = at(x, s.x_strides, n, k / per_group_out * per_group_in + c, h, v);
                float& weight = at(w, s.w_strides, k, c, r, t);
                switch (s.kind) {
                  case ConvolutionKind::kForward:
                    out += in * weight;
                    break;
                  case ConvolutionKind::kInputGradient:
                    in += out * weight;
                    break;
                  case ConvolutionKind::kFilterGradient:
                    weight += in * out;
                    break;
                }
              }
            }
        }
}

}  // namespace emplace::cuda
