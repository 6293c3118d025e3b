#pragma once
/// How the decoder's devices are drawn from its logits.

#include <Eigen/Core>
#include <cstdint>

#include "policy/nn/attention_decoder.h"

namespace emplace::policy {

/// Random numbers of a pass, drawn before its blocks run, so that the order of the blocks does not matter.
/// Empty where the likeliest devices are taken, or devices are given without relative noise. Thread: a plain
/// value.
struct DecoderDraws {
  /// `steps` choices per sample among `devices`; uses the input's generator.
  DecoderDraws(const DecodeInput& input, Eigen::Index steps, Eigen::Index devices);
  Matrix uniform, noise;  ///< [1, T · k]; [D, T · k] or empty; column step · k + sample.
};

/// Root mean square of the finite logits [D], those of the allowed devices. Pure; any thread.
float logit_size(const Eigen::Ref<const Eigen::VectorXf>& logits);
/// The device at which a uniform number in [0, 1) ends in the softmax of the logits [D]. Never one with the
/// weight 0. Pure; any thread.
std::uint8_t drawn_device(const Eigen::Ref<const Eigen::VectorXf>& logits, float uniform);
/// The device with the largest logit, the first of several.
std::uint8_t likeliest_device(const Eigen::Ref<const Eigen::VectorXf>& logits);

}  // namespace emplace::policy
