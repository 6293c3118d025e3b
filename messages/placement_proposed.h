#pragma once
#include <cstdint>
#include <string>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// sampler -> dispatcher. The placements of one episode, to be measured: `count` of them, whose ids go on
/// from `placement_id`.
struct PlacementProposed {
  static constexpr std::uint16_t kType = number(Type::kPlacementProposed);
  std::string graph_sha256;          ///< 64 hex digits.
  std::uint32_t controller = 0;      ///< The sampler's index; baselines are per controller.
  std::uint64_t episode = 0;         ///< Counted over the whole run.
  std::uint64_t placement_id = 0;    ///< Id of the first placement.
  std::uint32_t count = 0;           ///< >= 1.
  std::uint64_t policy_version = 0;  ///< Parameters that sampled it.
  std::uint32_t num_ops = 0;
  std::uint32_t num_devices = 0;  ///< 1..256.
  Section placements;             ///< [count, num_ops] one byte per op: its device.
  Section actions;                ///< The sampler's own form of its choices; opaque to every other actor.
  EMPLACE_FIELDS(graph_sha256, controller, episode, placement_id, count, policy_version, num_ops, num_devices,
                 placements, actions)
};

/// dispatcher -> executor. A range of an episode's placements, to be measured under a lease. The executor
/// answers with PlacementMeasured; its heartbeats name the lease until then.
struct LeaseGranted {
  static constexpr std::uint16_t kType = number(Type::kLeaseGranted);
  std::string graph_sha256;        ///< 64 hex digits.
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::uint32_t count = 0;         ///< >= 1.
  std::uint32_t num_ops = 0;
  std::uint32_t num_devices = 0;     ///< 1..256.
  std::uint64_t lease_epoch = 0;     ///< Identifies the lease; a result of a lease that has ended is refused.
  std::uint32_t attempt = 0;         ///< From 1.
  std::uint32_t deadline_ms = 0;     ///< Time left for the evaluation; 0: no limit.
  std::uint64_t executor_epoch = 0;  ///< The incarnation of the executor that it is for; 0: any.
  Section placements;                ///< [count, num_ops] one byte per op: its device.
  EMPLACE_FIELDS(graph_sha256, placement_id, count, num_ops, num_devices, lease_epoch, attempt, deadline_ms,
                 executor_epoch, placements)
};

}  // namespace emplace::messages
