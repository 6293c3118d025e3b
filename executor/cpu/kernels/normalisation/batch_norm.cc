#include "executor/cpu/kernels/normalisation/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace emplace::cpu {
namespace {

using Shape = BatchNorm::Shape;

/// Σ term(i) over [0, count).
template <class Term>
double sum_of(std::int64_t count, Term term) {
  constexpr std::int64_t kParts = 16;
  float parts[kParts] = {};
  std::int64_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (std::int64_t k = 0; k < kParts; ++k) parts[k] += term(i + k);
  }
  double sum = 0;
  for (const float part : parts) sum += part;
  for (; i < count; ++i) sum += term(i);
  return sum;
}

/// Mean and 1 / √(variance + ε) of each channel.
void statistics(const Shape& shape, const float* source, float epsilon, float* mean, float* inverse) {
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      const float* x = source + (n * shape.channels + c) * shape.plane;
      sum += sum_of(shape.plane, [x](std::int64_t i) { return x[i]; });
    }
    const auto middle = static_cast<float>(sum / shape.count());
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      const float* x = source + (n * shape.channels + c) * shape.plane;
      squares += sum_of(shape.plane, [=](std::int64_t i) { return (x[i] - middle) * (x[i] - middle); });
    }
    mean[c] = middle;
    inverse[c] = static_cast<float>(1 / std::sqrt(squares / shape.count() + epsilon));
  }
}

/// One channel of target = (source - mean) inverse scale + shift.
void apply(const Shape& shape, std::int64_t c, const float* source, float mean, float factor, float shift,
           float* target) {
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    const float* x = source + (n * shape.channels + c) * shape.plane;
    float* y = target + (n * shape.channels + c) * shape.plane;
    for (std::int64_t i = 0; i < shape.plane; ++i) y[i] = (x[i] - mean) * factor + shift;
  }
}

/// Σ gradient and Σ gradient (source - mean) inverse of one channel: the gradients of shift and scale.
struct Sums {
  double gradient = 0, product = 0;
};
Sums sums_of(const Shape& shape, std::int64_t c, const float* gradient, const float* source, float mean,
             float inverse) {
  Sums sums;
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    const float* g = gradient + (n * shape.channels + c) * shape.plane;
    const float* x = source + (n * shape.channels + c) * shape.plane;
    sums.gradient += sum_of(shape.plane, [g](std::int64_t i) { return g[i]; });
    sums.product += sum_of(shape.plane, [=](std::int64_t i) { return g[i] * (x[i] - mean); });
  }
  sums.product *= inverse;
  return sums;
}

/// One channel of the source's gradient: factor (gradient - level - (source - mean) slope).
void apply_backward(const Shape& shape, std::int64_t c, const float* gradient, const float* source,
                    float mean, float factor, float level, float slope, float* target) {
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    const std::int64_t at = (n * shape.channels + c) * shape.plane;
    const float *g = gradient + at, *x = source + at;
    float* out = target + at;
    for (std::int64_t i = 0; i < shape.plane; ++i) {
      out[i] = factor * (g[i] - level - (x[i] - mean) * slope);
    }
  }
}

const float* list(const Pointers& memory, std::size_t place) {
  return place == NormalisationPlaces::kNone ? nullptr : memory.input<float>(place);
}
std::size_t list_bytes(const BatchNorm& norm) {
  return (static_cast<std::size_t>(norm.shape.channels) * sizeof(float) + 63) / 64 * 64;
}
void invert(const BatchNorm& norm, const float* variance, float* inverse) {
  for (std::int64_t c = 0; c < norm.shape.channels; ++c)
    inverse[c] = 1 / std::sqrt(variance[c] + norm.epsilon);
}

void forward(const BatchNorm& norm, const Pointers& memory) {
  // The scratch has space for statistics that are not outputs of the op.
  const bool outputs_statistics = memory.outputs.size() == 3;
  auto* mean = outputs_statistics ? memory.output<float>(1) : memory.scratch_at<float>(0);
  auto* inverse = outputs_statistics ? memory.output<float>(2) : memory.scratch_at<float>(list_bytes(norm));
  const auto* source = memory.input<float>(0);
  if (norm.fixed_statistics) {
    std::copy_n(list(memory, norm.places.mean), norm.shape.channels, mean);
    invert(norm, list(memory, norm.places.variance), inverse);
  } else {
    statistics(norm.shape, source, norm.epsilon, mean, inverse);
  }
  const float *scale = list(memory, norm.places.scale), *shift = list(memory, norm.places.shift);
  for (std::int64_t c = 0; c < norm.shape.channels; ++c) {
    apply(norm.shape, c, source, mean[c], scale != nullptr ? inverse[c] * scale[c] : inverse[c],
          shift != nullptr ? shift[c] : 0, memory.output<float>(0));
  }
}

void backward(const BatchNorm& norm, std::array<bool, 3> asked, const Pointers& memory) {
  const auto *gradient = memory.input<float>(0), *source = memory.input<float>(1);
  const float *scale = list(memory, norm.places.scale), *mean = list(memory, norm.places.mean);
  const float* inverse = list(memory, norm.places.variance);
  if (norm.fixed_statistics) {
    auto* made = memory.scratch_at<float>(0);
    invert(norm, inverse, made);
    inverse = made;
  }
  std::size_t next = 0;
  const auto output = [&](bool wanted) { return wanted ? memory.output<float>(next++) : nullptr; };
  float *to_source = output(asked[0]), *to_scale = output(asked[1]), *to_shift = output(asked[2]);
  for (std::int64_t c = 0; c < norm.shape.channels; ++c) {
    const Sums sums = sums_of(norm.shape, c, gradient, source, mean[c], inverse[c]);
    if (to_scale != nullptr) to_scale[c] = static_cast<float>(sums.product);
    if (to_shift != nullptr) to_shift[c] = static_cast<float>(sums.gradient);
    if (to_source == nullptr) continue;
    // Fixed statistics do not depend on the source.
    const double share = norm.fixed_statistics ? 0 : 1 / norm.shape.count();
    apply_backward(norm.shape, c, gradient, source, mean[c],
                   scale != nullptr ? inverse[c] * scale[c] : inverse[c],
                   static_cast<float>(sums.gradient * share),
                   static_cast<float>(sums.product * share * inverse[c]), to_source);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_plane_batch_norm(const BatchNorm& norm) {
  return kernel_of([norm](const Pointers& memory) { forward(norm, memory); }, 2 * list_bytes(norm));
}
std::unique_ptr<Kernel> make_plane_batch_norm_backward(const BatchNorm& norm, std::array<bool, 3> asked) {
  return kernel_of([norm, asked](const Pointers& memory) { backward(norm, asked, memory); },
                   norm.fixed_statistics ? list_bytes(norm) : 0);
}

}  // namespace emplace::cpu
