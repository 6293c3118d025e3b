// Resizes the last two dimensions, nearest and linear, as defined by ONNX.
#include <cmath>

#include "executor/cuda/kernels/passes.cuh"

namespace emplace::cuda {
namespace {

enum class Coordinates : std::uint8_t { kHalfPixel, kAsymmetric, kAlignCorners };

struct Resize {
  static constexpr const char* kName = "resize";
  int in_size[2]{}, out_size[2]{};
  Coordinates coordinates = Coordinates::kHalfPixel;
  bool linear = false;
  const float* in = nullptr;
  float* out = nullptr;

  void bind(const Pointers& pointers) { in = pointers.input<float>(0), out = pointers.output<float>(0); }
  /// Input coordinate of output element `o` of dimension d.
  EMPLACE_HD float source(int d, int o) const {
    const float i = static_cast<float>(in_size[d]), n = static_cast<float>(out_size[d]);
    switch (coordinates) {
      case Coordinates::kHalfPixel:
        return (static_cast<float>(o) + 0.5f) * i / n - 0.5f;
      case Coordinates::kAsymmetric:
        return static_cast<float>(o) * i / n;
      case Coordinates::kAlignCorners:
        return n > 1.0f ? static_cast<float>(o) * (i - 1.0f) / (n - 1.0f) : 0.0f;
    }
    return 0.0f;
  }
  EMPLACE_HD void operator()(std::int64_t at) const {
    const int o[2] = {static_cast<int>(at / out_size[1] % out_size[0]), static_cast<int>(at % out_size[1])};
    const float* const plane = in + at / (std::int64_t{out_size[0]} * out_size[1]) * in_size[0] * in_size[1];
    int low[2], high[2];
    float share[2];
    for (int d = 0; d < 2; ++d) {
      const float last = static_cast<float>(in_size[d] - 1),
                  place = fminf(fmaxf(source(d, o[d]), 0.0f), last);
      low[d] = static_cast<int>(floorf(place));
      high[d] = low[d] + 1 < in_size[d] ? low[d] + 1 : low[d];
      share[d] = linear ? place - static_cast<float>(low[d]) : 0.0f;
    }
    const float* const first = plane + low[0] * in_size[1];
    const float* const second = plane + high[0] * in_size[1];
    const float above = first[low[1]] + share[1] * (first[high[1]] - first[low[1]]);
    const float below = second[low[1]] + share[1] * (second[high[1]] - second[low[1]]);
    out[at] = above + share[0] * (below - above);
  }
};

Made resize(const Signature& signature) {
  Attributes attributes{signature};
  const std::string mode = attributes.word("mode", "nearest"),
                    nearest = attributes.word("nearest_mode", "round_prefer_floor");
  const std::string coordinates = attributes.word("coordinate_transformation_mode", "half_pixel");
  if (attributes.fault()) return *attributes.fault();
  const Operand &in = signature.inputs.at(0), &out = signature.outputs.at(0);
  if (in.dtype != DType::kF32 || out.dtype != DType::kF32 || signature.outputs.size() != 1 || !in.is_packed())
    return unsupported(signature, "expected one packed f32 tensor");
  const std::size_t rank = in.shape.size();
  if (rank < 2 || out.shape.size() != rank) return unsupported(signature, "expected at least two dimensions");
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (in.shape[d] != out.shape[d]) return unsupported(signature, "only the last two dimensions may change");
  if (mode != "linear" && !(mode == "nearest" && nearest == "floor"))
    return unsupported(signature, "mode " + mode + " " + nearest);
  Resize pass{.linear = mode == "linear"};
  if (coordinates == "asymmetric") {
    pass.coordinates = Coordinates::kAsymmetric;
  } else if (coordinates == "align_corners") {
    pass.coordinates = Coordinates::kAlignCorners;
  } else if (coordinates != "half_pixel" && coordinates != "pytorch_half_pixel") {
    return unsupported(signature, "unsupported coordinates " + coordinates);
  }
  for (std::size_t d = 0; d < 2; ++d) {
    pass.in_size[d] = static_cast<int>(in.shape[rank - 2 + d]),
    pass.out_size[d] = static_cast<int>(out.shape[rank - 2 + d]);
    if (pass.in_size[d] == 0) return unsupported(signature, "empty inputs are not supported");
  }
  return each(pass, out.elements());
}

}  // namespace

std::span<const KernelEntry> resize_kernels() {
  static constexpr KernelEntry entries[] = {{"Resize", resize}};
  return entries;
}

}  // namespace emplace::cuda
