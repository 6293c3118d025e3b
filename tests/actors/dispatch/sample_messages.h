#pragma once
/// Messages for tests of the dispatcher's parts: episodes on four ops and two devices.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "messages/codec.h"
#include "messages/executor_control.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/shared_bytes.h"

namespace emplace::actors {

inline constexpr std::uint32_t kSampleOps = 4, kSampleDevices = 2;

struct SampleProposal {
  messages::PlacementProposed proposal;
  messages::SharedBytes bulk;
};

/// An episode of the graph "hash" whose placements start at id 100 · episode. Every byte of placement i is i.
inline SampleProposal sample_proposal(std::uint64_t episode, std::uint32_t count) {
  SampleProposal sample;
  messages::PlacementProposed& p = sample.proposal;
  p.graph_sha256 = "hash";
  p.episode = episode;
  p.placement_id = 100 * episode;
  p.count = count;
  p.num_ops = kSampleOps;
  p.num_devices = kSampleDevices;
  messages::BulkBuilder bulk;
  p.actions = bulk.add(messages::Bytes{std::byte{7}});  // The placements do not start at offset 0.
  messages::Bytes placements;
  for (std::uint32_t i = 0; i < count; ++i) placements.insert(placements.end(), kSampleOps, std::byte(i));
  p.placements = bulk.add(placements);
  sample.bulk = bulk.finish();
  return sample;
}

/// A valid result for `count` placements from `placement_id` on, all with this step time.
inline messages::PlacementMeasured sample_result(const std::string& executor, std::uint64_t lease_epoch,
                                                 std::uint64_t placement_id, std::uint32_t count,
                                                 double step_time_s = 1) {
  messages::PlacementMeasured m;
  m.executor = executor;
  m.executor_kind = "sim";
  m.host = "here";
  m.lease_epoch = lease_epoch;
  m.placement_id = placement_id;
  m.resize(count, kSampleDevices);
  m.valid.assign(count, 1);
  m.step_time_s.assign(count, step_time_s);
  return m;
}

/// A join with credit for `placements` placements and any number of bytes.
inline messages::ExecutorJoined sample_join(const std::string& name, std::uint32_t placements,
                                            std::uint64_t epoch = 1) {
  messages::ExecutorJoined joined{name, "here", "sim", "hash", kSampleDevices, epoch};
  joined.placements = placements;
  joined.bytes = 1 << 20;
  return joined;
}

}  // namespace emplace::actors
