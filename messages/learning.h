#pragma once
/// Messages of the learner: updates, parameters, checkpoints.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// learner -> recorder: an update of the policy.
struct UpdateApplied {
  static constexpr std::uint16_t kType = number(Type::kUpdateApplied);
  std::uint64_t update = 0;             ///< Update number, from 1.
  std::uint64_t policy_version = 0;     ///< Policy version after the update.
  std::vector<std::uint64_t> episodes;  ///< Consumed episodes, in order.
  std::vector<float> advantages;        ///< Advantages as used, episode after episode.
  double staleness_mean = 0;            ///< [versions]
  std::uint64_t staleness_max = 0;      ///< [versions]
  double gradient_norm = 0;             ///< Gradient norm before clipping.
  double loss = 0;
  double entropy = 0;             ///< Entropy [nat], mean per choice.
  std::string parameters_sha256;  ///< Hash of the parameters after the update.
  double learning_rate = 0;
  double wall_s = 0;           ///< Duration of the update [s].
  std::uint64_t epoch = 0;     ///< Incarnation of the learner; only updates of the newest one count.
  double log_probability = 0;  ///< Log-probability of a whole placement [nat], mean.
  double divergence = 0;  ///< KL divergence of the behaviour policy from this policy [nat], mean per choice.
  EMPLACE_FIELDS(update, policy_version, episodes, staleness_mean, staleness_max, gradient_norm, loss,
                 entropy, parameters_sha256, learning_rate, wall_s, advantages, epoch, log_probability,
                 divergence)
};

/// learner -> samplers: newer parameters exist. Samplers fetch them; the learner never pushes.
struct ParametersPublished {
  static constexpr std::uint16_t kType = number(Type::kParametersPublished);
  std::uint64_t version = 0;
  std::string sha256;
  std::uint64_t size = 0;  ///< [bytes]
  EMPLACE_FIELDS(version, sha256, size)
};

inline constexpr std::uint64_t kParametersChunkBytes = 1u << 20;

/// sampler -> learner: requests a chunk of the parameters.
struct ParametersRequested {
  static constexpr std::uint16_t kType = number(Type::kParametersRequested);
  std::uint64_t version = 0;  ///< Wanted version; 0: the newest, unless `exact`.
  std::uint64_t offset = 0;   ///< [bytes]
  bool exact = false;         ///< True: exactly this version, even 0.
  EMPLACE_FIELDS(version, offset, exact)
};

/// learner -> sampler. One chunk of at most kParametersChunkBytes. If `version` is newer than requested,
/// the sampler restarts the transfer.
struct ParametersDelivered {
  static constexpr std::uint16_t kType = number(Type::kParametersDelivered);
  std::uint64_t version = 0;
  std::uint64_t offset = 0;    ///< [bytes]
  std::uint64_t total = 0;     ///< [bytes]
  std::string sha256;          ///< Hash of all parameters.
  Section floats;              ///< float32, in the parameter store's order.
  std::uint64_t checksum = 0;  ///< XXH3-64 of all parameters, checked before use.
  EMPLACE_FIELDS(version, offset, total, sha256, floats, checksum)
};

/// Largest part of a checkpoint in one message [bytes].
inline constexpr std::uint64_t kCheckpointChunkBytes = 16u << 20;

/// learner -> recorder. A whole checkpoint, or its next chunk; the parameters come before the optimizer.
struct CheckpointTaken {
  static constexpr std::uint16_t kType = number(Type::kCheckpointTaken);
  std::uint64_t version = 0;
  std::uint64_t update = 0;
  std::string sha256;
  Section parameters;       ///< Serialised by the policy.
  Section optimizer;        ///< Serialised by the optimiser; may be empty.
  std::uint64_t epoch = 0;  ///< Incarnation of the learner, as in UpdateApplied.
  std::uint64_t offset = 0,
                total = 0;  ///< Position and size of a chunk [bytes]; total 0: the message holds all.
  EMPLACE_FIELDS(version, update, sha256, parameters, optimizer, epoch, offset, total)
};

}  // namespace emplace::messages
