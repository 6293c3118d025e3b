#include <numeric>

#include "base/rng.h"
#include "solver/heuristics.h"
#include "solver/partitioners/groups.h"

namespace emplace {
namespace {

constexpr std::uint64_t kDraws = 100;

/// [groups] State of each group, resident for the whole step [B].
std::vector<std::int64_t> state_bytes(const OpGraph& graph, const Grouping& groups) {
  std::vector<std::int64_t> bytes(groups.num_groups, 0);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    bytes[groups.group_of_op[i]] += graph.param_bytes(OpId{i});
  return bytes;
}

/// Assigns groups in random order, each to a uniformly drawn device with room for its state; to any device if
/// none has room.
Placement draw(const Problem& problem, const Grouping& groups, const std::vector<std::int64_t>& state,
               const std::vector<DeviceId>& candidates, Rng& rng) {
  std::vector<std::uint32_t> order(groups.num_groups);
  std::iota(order.begin(), order.end(), 0u);
  rng.shuffle(order);
  std::vector<std::int64_t> free;
  free.reserve(candidates.size());
  for (const DeviceId device : candidates) free.push_back(problem.devices[device].memory_bytes);
  std::vector<DeviceId> device_of(groups.num_groups);
  std::vector<std::uint32_t> fitting;
  for (const std::uint32_t group : order) {
    fitting.clear();
    for (std::uint32_t c = 0; c < candidates.size(); ++c) {
      if (free[c] >= state[group]) fitting.push_back(c);
    }
    const auto drawn = static_cast<std::uint32_t>(
        fitting.empty() ? rng.below(static_cast<std::uint32_t>(candidates.size()))
                        : fitting[rng.below(static_cast<std::uint32_t>(fitting.size()))]);
    free[drawn] -= state[group];
    device_of[group] = candidates[drawn];
  }
  Placement placement;
  placement.reserve(problem.graph.num_ops());
  for (const std::uint32_t group : groups.group_of_op) placement.push_back(device_of[group]);
  return placement;
}

}  // namespace

Result<Answer> single_device(const Problem& problem, Executor& executor, std::string_view kind) {
  Best best{problem, executor};
  for (const DeviceId device : devices_of_kind(problem.devices, kind)) {
    EMPLACE_TRY(best.offer(Placement(problem.graph.num_ops(), device)));
  }
  return std::move(best).take();
}

Result<Answer> round_robin(const Problem& problem, Executor& executor) {
  const Grouping groups = placement_groups(problem);
  const std::vector<DeviceId> all = all_devices(problem.devices);
  Best best{problem, executor};
  for (const std::vector<DeviceId>& turn : {fast_devices(problem.devices), all}) {
    Placement placement;
    for (const std::uint32_t group : groups.group_of_op) placement.push_back(turn[group % turn.size()]);
    EMPLACE_TRY(best.offer(std::move(placement)));
  }
  return std::move(best).take();
}

Result<Answer> random_placements(const Problem& problem, Executor& executor) {
  const Grouping groups = placement_groups(problem);
  const std::vector<std::int64_t> state = state_bytes(problem.graph, groups);
  const std::vector<DeviceId> fast = fast_devices(problem.devices);
  const std::vector<DeviceId> all = all_devices(problem.devices);
  Best best{problem, executor};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    Rng rng{problem.seed, Purpose::kHeuristic, i};
    EMPLACE_TRY(best.offer(draw(problem, groups, state, i % 2 == 0 ? fast : all, rng)));
  }
  return std::move(best).take();
}

}  // namespace emplace
