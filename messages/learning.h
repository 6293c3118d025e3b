#pragma once
/// What the learner says: updates, parameters, checkpoints.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// learner -> recorder.
struct UpdateApplied {
  static constexpr std::uint16_t kType = number(Type::kUpdateApplied);
  std::uint64_t update = 0;             ///< From 1.
  std::uint64_t policy_version = 0;     ///< After it.
  std::vector<std::uint64_t> episodes;  ///< Consumed, in order.
  std::vector<float> advantages;        ///< As they were used, one episode after the other.
  double staleness_mean = 0;            ///< [versions]
  std::uint64_t staleness_max = 0;      ///< [versions]
  double gradient_norm = 0;             ///< Before clipping.
  double loss = 0;
  double entropy = 0;             ///< [nat] mean per choice.
  std::string parameters_sha256;  ///< After it.
  double learning_rate = 0;
  double wall_s = 0;           ///< What the update took.
  std::uint64_t epoch = 0;     ///< Of this life of the learner: only the newest one's updates count.
  double log_probability = 0;  ///< [nat] of a whole placement, mean.
  double divergence = 0;       ///< [nat] KL of the drawing policy from this one, mean per choice.
  EMPLACE_FIELDS(update, policy_version, episodes, staleness_mean, staleness_max, gradient_norm, loss,
                 entropy, parameters_sha256, learning_rate, wall_s, advantages, epoch, log_probability,
                 divergence)
};

/// learner -> samplers: newer parameters exist. They are fetched, never pushed.
struct ParametersPublished {
  static constexpr std::uint16_t kType = number(Type::kParametersPublished);
  std::uint64_t version = 0;
  std::string sha256;
  std::uint64_t size = 0;  ///< [bytes]
  EMPLACE_FIELDS(version, sha256, size)
};

inline constexpr std::uint64_t kParametersChunkBytes = 1u << 20;

/// sampler -> learner.
struct ParametersRequested {
  static constexpr std::uint16_t kType = number(Type::kParametersRequested);
  std::uint64_t version = 0;  ///< 0: the newest, unless `exact`.
  std::uint64_t offset = 0;   ///< [bytes]
  bool exact = false;         ///< This version, be it 0.
  EMPLACE_FIELDS(version, offset, exact)
};

/// learner -> sampler. One chunk of at most kParametersChunkBytes; `version` may be newer than asked for:
/// start again.
struct ParametersDelivered {
  static constexpr std::uint16_t kType = number(Type::kParametersDelivered);
  std::uint64_t version = 0;
  std::uint64_t offset = 0;    ///< [bytes]
  std::uint64_t total = 0;     ///< [bytes]
  std::string sha256;          ///< Of the whole.
  Section floats;              ///< float32, in the parameter store's order.
  std::uint64_t checksum = 0;  ///< XXH3-64 of the whole, checked before use.
  EMPLACE_FIELDS(version, offset, total, sha256, floats, checksum)
};

/// The most of a checkpoint that travels in one message.
inline constexpr std::uint64_t kCheckpointPieceBytes = 16u << 20;

/// learner -> recorder. All of it, or the next piece of `total` bytes, parameters before optimizer.
struct CheckpointTaken {
  static constexpr std::uint16_t kType = number(Type::kCheckpointTaken);
  std::uint64_t version = 0;
  std::uint64_t update = 0;
  std::string sha256;
  Section parameters;                   ///< As the policy serialises them.
  Section optimizer;                    ///< As the optimiser serialises itself; may be empty.
  std::uint64_t epoch = 0;              ///< As UpdateApplied has it.
  std::uint64_t offset = 0, total = 0;  ///< [bytes] total 0: this is all.
  EMPLACE_FIELDS(version, update, sha256, parameters, optimizer, epoch, offset, total)
};

}  // namespace emplace::messages
