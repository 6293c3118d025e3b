#pragma once
#include <cstdint>
#include <string>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// sampler -> dispatcher: the `count` placements of one episode, to be measured. Their ids are consecutive
/// from `placement_id`.
struct PlacementProposed {
  static constexpr std::uint16_t kType = number(Type::kPlacementProposed);
  std::string graph_sha256;          ///< 64 hex digits.
  std::uint32_t controller = 0;      ///< The sampler's index; baselines are per controller.
  std::uint64_t episode = 0;         ///< Episode number, unique in the run.
  std::uint64_t placement_id = 0;    ///< Id of the first placement.
  std::uint32_t count = 0;           ///< >= 1.
  std::uint64_t policy_version = 0;  ///< Version of the parameters that sampled it.
  std::uint32_t num_ops = 0;
  std::uint32_t num_devices = 0;  ///< 1..256.
  Section placements;             ///< [count, num_ops] Device of each op, one byte each.
  Section actions;                ///< Choices in the sampler's own encoding; opaque to other actors.
  EMPLACE_FIELDS(graph_sha256, controller, episode, placement_id, count, policy_version, num_ops, num_devices,
                 placements, actions)
};

/// dispatcher -> executor: a range of an episode's placements, to be measured under a lease. The executor
/// answers with PlacementMeasured. Its heartbeats list the lease until then.
struct LeaseGranted {
  static constexpr std::uint16_t kType = number(Type::kLeaseGranted);
  std::string graph_sha256;        ///< 64 hex digits.
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::uint32_t count = 0;         ///< >= 1.
  std::uint32_t num_ops = 0;
  std::uint32_t num_devices = 0;     ///< 1..256.
  std::uint64_t lease_epoch = 0;     ///< Identifies the lease; results of an ended lease are refused.
  std::uint32_t attempt = 0;         ///< Attempt number, from 1.
  std::uint32_t deadline_ms = 0;     ///< Time left for the measurement [ms]; 0: no limit.
  std::uint64_t executor_epoch = 0;  ///< Incarnation of the executor that the lease is for; 0: any.
  Section placements;                ///< [count, num_ops] Device of each op, one byte each.
  EMPLACE_FIELDS(graph_sha256, placement_id, count, num_ops, num_devices, lease_epoch, attempt, deadline_ms,
                 executor_epoch, placements)
};

}  // namespace emplace::messages
