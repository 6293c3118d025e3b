#include "executor/cpu/kernels/normalisation/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace emplace::cpu {
namespace {

using Inputs = std::span<const std::byte* const>;
using Outputs = std::span<std::byte* const>;

const float* list(Inputs inputs, std::size_t place) {
  return place == NormalisationPlaces::kNone ? nullptr : reinterpret_cast<const float*>(inputs[place]);
}
std::size_t list_bytes(const BatchNorm& norm) {
  return (static_cast<std::size_t>(norm.shape.channels) * sizeof(float) + 63) / 64 * 64;
}
void invert(const BatchNorm& norm, const float* variance, float* inverse) {
  for (std::int64_t c = 0; c < norm.shape.channels; ++c)
    inverse[c] = 1 / std::sqrt(variance[c] + norm.epsilon);
}

class BatchNormForward final : public Kernel {
 public:
  explicit BatchNormForward(const BatchNorm& norm) : norm_{norm} {}
  /// Space for statistics that are not outputs of the op.
  std::size_t scratch_bytes() const override { return 2 * list_bytes(norm_); }
  void run(Inputs inputs, Outputs outputs, std::byte* scratch) const override {
    const bool outputs_statistics = outputs.size() == 3;
    auto* mean = reinterpret_cast<float*>(outputs_statistics ? outputs[1] : scratch);
    auto* inverse = reinterpret_cast<float*>(outputs_statistics ? outputs[2] : scratch + list_bytes(norm_));
    const auto* source = reinterpret_cast<const float*>(inputs[0]);
    if (norm_.fixed_statistics) {
      std::copy_n(list(inputs, norm_.places.mean), norm_.shape.channels, mean);
      invert(norm_, list(inputs, norm_.places.variance), inverse);
    } else {
      batch_norm::statistics(norm_.shape, source, norm_.epsilon, mean, inverse);
    }
    const float *scale = list(inputs, norm_.places.scale), *shift = list(inputs, norm_.places.shift);
    for (std::int64_t c = 0; c < norm_.shape.channels; ++c) {
      batch_norm::apply(norm_.shape, c, source, mean[c],
                        scale != nullptr ? inverse[c] * scale[c] : inverse[c],
                        shift != nullptr ? shift[c] : 0, reinterpret_cast<float*>(outputs[0]));
    }
  }

 private:
  const BatchNorm norm_;
};

class BatchNormBackward final : public Kernel {
 public:
  BatchNormBackward(const BatchNorm& norm, std::array<bool, 3> asked) : norm_{norm}, asked_{asked} {}
  std::size_t scratch_bytes() const override { return norm_.fixed_statistics ? list_bytes(norm_) : 0; }
  void run(Inputs inputs, Outputs outputs, std::byte* scratch) const override {
    const auto* gradient = reinterpret_cast<const float*>(inputs[0]);
    const auto* source = reinterpret_cast<const float*>(inputs[1]);
    const float *scale = list(inputs, norm_.places.scale), *mean = list(inputs, norm_.places.mean);
    const float* inverse = list(inputs, norm_.places.variance);
    if (norm_.fixed_statistics) {
      auto* made = reinterpret_cast<float*>(scratch);
      invert(norm_, inverse, made);
      inverse = made;
    }
    std::size_t next = 0;
    const auto output = [&](bool asked) {
      return asked ? reinterpret_cast<float*>(outputs[next++]) : nullptr;
    };
    float *to_source = output(asked_[0]), *to_scale = output(asked_[1]), *to_shift = output(asked_[2]);
    for (std::int64_t c = 0; c < norm_.shape.channels; ++c) {
      const auto sums = batch_norm::sums(norm_.shape, c, gradient, source, mean[c], inverse[c]);
      if (to_scale != nullptr) to_scale[c] = static_cast<float>(sums.product);
      if (to_shift != nullptr) to_shift[c] = static_cast<float>(sums.gradient);
      if (to_source == nullptr) continue;
      // Fixed statistics do not depend on the source.
      const double share = norm_.fixed_statistics ? 0 : 1 / norm_.shape.count();
      batch_norm::apply_backward(norm_.shape, c, gradient, source, mean[c],
                                 scale != nullptr ? inverse[c] * scale[c] : inverse[c],
                                 static_cast<float>(sums.gradient * share),
                                 static_cast<float>(sums.product * share * inverse[c]), to_source);
    }
  }

 private:
  const BatchNorm norm_;
  const std::array<bool, 3> asked_;
};

}  // namespace

std::unique_ptr<Kernel> make_plane_batch_norm(const BatchNorm& norm) {
  return std::make_unique<BatchNormForward>(norm);
}
std::unique_ptr<Kernel> make_plane_batch_norm_backward(const BatchNorm& norm, std::array<bool, 3> asked) {
  return std::make_unique<BatchNormBackward>(norm, asked);
}

}  // namespace emplace::cpu
