#include "policy/nn/decoder_draws.h"

#include <cmath>

namespace emplace::policy {

DecoderDraws::DecoderDraws(const DecodeInput& input, Eigen::Index steps, Eigen::Index devices) {
  const bool noisy_log_p = input.relative_noise && input.noise > 0;
  if (input.greedy || (input.chosen != nullptr && !noisy_log_p)) return;
  const Eigen::Index choices = steps * input.samples;
  uniform.resize(1, choices);
  if (input.noise > 0) noise.resize(devices, choices);
  for (Eigen::Index n = 0; n < choices; ++n) {
    for (Eigen::Index i = 0; i < noise.rows(); ++i) noise(i, n) = input.noise * input.rng->normal();
    uniform(n) = input.rng->uniform();
  }
  if (input.noise_limit > 0) noise = noise.cwiseMax(-input.noise_limit).cwiseMin(input.noise_limit);
}

float logit_size(const Eigen::Ref<const Eigen::VectorXf>& logits) {
  float squares = 0, allowed = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) continue;
    squares += logit * logit;
    allowed += 1;
  }
  return allowed == 0 ? 0 : std::sqrt(squares / allowed);
}

std::uint8_t drawn_device(const Eigen::Ref<const Eigen::VectorXf>& logits, float uniform) {
  const Eigen::VectorXf weight = (logits.array() - logits.maxCoeff()).exp();
  float at = uniform * weight.sum();
  Eigen::Index device = 0, last = 0;
  for (; device < weight.size(); ++device) {
    if (weight(device) > 0) last = device;
    at -= weight(device);
    if (at < 0 && weight(device) > 0) break;
  }
  return static_cast<std::uint8_t>(device < weight.size() ? device : last);
}

std::uint8_t likeliest_device(const Eigen::Ref<const Eigen::VectorXf>& logits) {
  Eigen::Index device = 0;
  logits.maxCoeff(&device);
  return static_cast<std::uint8_t>(device);
}

}  // namespace emplace::policy
