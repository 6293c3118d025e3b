#include "policy/optim/adam.h"

#include <algorithm>
#include <cmath>

#include "base/denormals.h"
#include "policy/bytes.h"

namespace emplace::policy {
namespace {

struct GradientNorm {
  float norm = 0;   // The value before the cut.
  float scale = 1;  // Factor that cuts the gradient to the norm `clip_norm`, if that is above 0.
};
GradientNorm gradient_norm(const ParameterStore& store, float clip_norm) {
  double sum = 0;
  for (const float g : store.gradients()) sum += static_cast<double>(g) * g;
  const auto norm = static_cast<float>(std::sqrt(sum));
  return {norm, clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1.0f};
}

}  // namespace

float LearningRate::at(std::uint64_t update) const {
  if (linear_over > 0) {
    const std::uint64_t done = std::min(update, linear_over);
    return std::lerp(start, end, static_cast<float>(done) / static_cast<float>(linear_over));
  }
  if (update < decay_from || decay == 1.0f) return start;
  const std::uint64_t decays = (update - decay_from) / decay_every + 1;
  return start * std::pow(decay, static_cast<float>(decays));
}

float sgd_step(ParameterStore& store, float learning_rate, float clip_norm) {
  const auto gradient = store.gradients();
  const auto value = store.values();
  const auto [norm, scale] = gradient_norm(store, clip_norm);
  if (!std::isfinite(norm)) return norm;
  std::size_t i = 0;
  for (const auto& [end, learning_scale] : store.learning_scales()) {
    const float rate = learning_rate * learning_scale * scale;
    for (; i < end; ++i) value[i] -= rate * gradient[i];
  }
  return norm;
}

float Adam::step(ParameterStore& store, float learning_rate) {
  const auto gradient = store.gradients();
  const auto value = store.values();
  mean_.resize(value.size(), 0.0f);
  square_.resize(value.size(), 0.0f);
  const auto [norm, scale] = gradient_norm(store, options_.clip_norm);
  if (!std::isfinite(norm)) return norm;
  ++updates_;
  const auto t = static_cast<float>(updates_);
  // The mean of a gradient that stays 0 would end as a denormal number, with which a step takes many times as
  // long. Moments as small as that move no parameter above 1e-22.
  const FlushDenormals flush;
  const float correct1 = 1 - std::pow(options_.beta1, t), correct2 = 1 - std::pow(options_.beta2, t);
  std::size_t i = 0;
  for (const auto& [end, learning_scale] : store.learning_scales()) {
    const float rate = learning_rate * learning_scale * std::sqrt(correct2) / correct1;
    const float epsilon = options_.epsilon * std::sqrt(correct2);
    for (; i < end; ++i) {
      const float g = gradient[i] * scale;
      mean_[i] += (1 - options_.beta1) * (g - mean_[i]);
      square_[i] += (1 - options_.beta2) * (g * g - square_[i]);
      value[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + epsilon);
    }
  }
  return norm;
}

Bytes Adam::save() const {
  Bytes bytes;
  append_values(std::span{&updates_, 1}, bytes);
  append_values(mean_, bytes);
  append_values(square_, bytes);
  return bytes;
}

Result<Unit> Adam::load(std::span<const std::byte> bytes, std::size_t parameters) {
  const std::size_t count = bytes.size() == sizeof updates_ ? 0 : parameters;
  if (bytes.size() != sizeof updates_ + 2 * count * sizeof(float))
    return invalid("optimizer state", "wrong size for this policy");
  mean_.resize(count);
  square_.resize(count);
  EMPLACE_TRY(take_values(bytes, std::span{&updates_, 1}));
  EMPLACE_TRY(take_values(bytes, mean_));
  return take_values(bytes, square_);
}

}  // namespace emplace::policy
