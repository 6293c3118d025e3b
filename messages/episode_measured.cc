#include "messages/episode_measured.h"

#include <algorithm>

#include "base/check.h"

namespace emplace::messages {

bool EpisodeMeasured::consistent() const {
  return MeasurementColumns::consistent() && executor_of.size() == count && attempt.size() == count &&
         executors.size() == executor_kinds.size() && executors.size() == hosts.size() &&
         std::all_of(executor_of.begin(), executor_of.end(),
                     [&](std::uint16_t e) { return e < executors.size(); });
}

EpisodeMeasured EpisodeMeasured::started(const PlacementProposed& proposal) {
  EpisodeMeasured m;
  m.graph_sha256 = proposal.graph_sha256;
  m.controller = proposal.controller;
  m.episode = proposal.episode;
  m.placement_id = proposal.placement_id;
  m.policy_version = proposal.policy_version;
  m.num_ops = proposal.num_ops;
  m.resize(proposal.count, proposal.num_devices);
  return m;
}

void EpisodeMeasured::resize(std::uint32_t rows, std::uint32_t devices) {
  MeasurementColumns::resize(rows, devices);
  executor_of.assign(rows, 0);
  attempt.assign(rows, 0);
}

std::uint16_t EpisodeMeasured::add_executor(const std::string& name, const std::string& kind,
                                            const std::string& host) {
  const auto found = std::find(executors.begin(), executors.end(), name);
  const auto index = static_cast<std::uint16_t>(found - executors.begin());
  if (found == executors.end()) {
    executors.push_back(name);
    executor_kinds.push_back(kind);
    hosts.push_back(host);
  }
  return index;
}

void EpisodeMeasured::merge(const PlacementMeasured& lease, std::uint32_t number) {
  EMPLACE_CHECK(lease.consistent() && lease.num_devices == num_devices &&
                    lease.placement_id >= placement_id &&
                    lease.placement_id - placement_id + lease.count <= count,
                "lease outside its episode");
  const auto first = static_cast<std::uint32_t>(lease.placement_id - placement_id);
  copy_rows(lease, first);
  std::fill_n(executor_of.begin() + first, lease.count,
              add_executor(lease.executor, lease.executor_kind, lease.host));
  std::fill_n(attempt.begin() + first, lease.count, number);
  wall_s += lease.wall_s;
}

}  // namespace emplace::messages
