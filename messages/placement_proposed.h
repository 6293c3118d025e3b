#pragma once
#include <cstdint>
#include <string>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// sampler -> dispatcher -> executor. Placements to measure: `count` of them, numbered on from
/// `placement_id`. The dispatcher may cut it into ranges, one lease each; it then drops `actions`.
struct PlacementProposed {
  static constexpr std::uint16_t kType = number(Type::kPlacementProposed);
  std::string graph_sha256;          ///< 64 hex digits.
  std::uint32_t controller = 0;      ///< The sampler's index; baselines are per controller.
  std::uint64_t episode = 0;         ///< Counted over the whole run.
  std::uint64_t placement_id = 0;    ///< Of the first one.
  std::uint32_t count = 0;           ///< >= 1.
  std::uint64_t policy_version = 0;  ///< Parameters that sampled it.
  std::uint32_t num_ops = 0;
  std::uint32_t num_devices = 0;     ///< 1..256.
  std::uint32_t attempt = 0;         ///< Set by the dispatcher, from 1.
  std::uint64_t lease_epoch = 0;     ///< Set by the dispatcher; the result echoes it, an old one is fenced.
  std::uint32_t deadline_ms = 0;     ///< Time left for the evaluation; 0: none.
  std::string host;                  ///< Where it is to run, once leased.
  std::string executor;              ///< Actor name, once leased.
  double synthetic_share = 0;        ///< Share of the work that is stood in for; 0 where nothing is.
  std::uint64_t executor_epoch = 0;  ///< Once leased: for this life of the executor; 0: for any.
  Section placements;                ///< [count, num_ops] one byte per op: its device.
  Section actions;                   ///< The sampler's own form of its choices; opaque to everyone else.
  EMPLACE_FIELDS(graph_sha256, controller, episode, placement_id, count, policy_version, num_ops, num_devices,
                 attempt, lease_epoch, deadline_ms, host, executor, synthetic_share, placements, actions,
                 executor_epoch)
};

}  // namespace emplace::messages
