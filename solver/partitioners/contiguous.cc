#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "base/rng.h"
#include "base/statistics.h"
#include "graph/grouping.h"
#include "placement/split_costs.h"
#include "solver/exact/block_graph.h"
#include "solver/exact/chain_split.h"
#include "solver/exact/ideal_split.h"
#include "solver/heuristics.h"
#include "solver/partitioners/groups.h"
#include "solver/partitioners/partition_graph.h"

namespace emplace {
namespace {

/// Random stream, distinct from those of other methods.
constexpr std::uint64_t kChainStream = std::uint64_t{1} << 40;
constexpr std::size_t kMaxChainBlocks = 1500, kMaxIdealBlocks = 4000;
constexpr std::uint32_t kLinearOrders = 24;
constexpr int kMemoryRounds = 4;
// Prime, so that no offset except the first coincides with a cut of 2, 4 or 8 equal pieces.
constexpr int kOffsets = 19;

std::vector<std::uint32_t> issue_order(const OpGraph& graph) {
  std::vector<std::uint32_t> order;
  for (const OpId op : graph.topological_order()) order.push_back(static_cast<std::uint32_t>(index(op)));
  return order;
}

/// Orders by scope. Backward ops have the scope of their forward op, so both passes of a layer stay together.
std::vector<std::uint32_t> scope_order(const OpGraph& graph, std::vector<std::uint32_t> order) {
  const Grouping scopes = scope_groups(graph);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scopes.group_of_op[a] < scopes.group_of_op[b];
  });
  return order;
}

/// Cuts `order`, rotated by `offset` (a fraction of the whole), into one piece per device with the device's
/// share of the cost.
Placement cut(const std::vector<std::uint32_t>& order, const std::vector<double>& cost,
              const std::vector<DeviceId>& devices, const std::vector<double>& share, double offset) {
  const double total = std::max(1.0, std::accumulate(cost.begin(), cost.end(), 0.0));
  Placement placement(order.size());
  double before = 0;
  for (const std::uint32_t op : order) {
    double at = std::fmod(before / total + offset, 1.0);
    std::size_t piece = 0;
    while (piece + 1 < devices.size() && at >= share[piece]) at -= share[piece++];
    placement[op] = devices[piece];
    before += cost[op];
  }
  return placement;
}

/// Shares of the devices: by their speed on this graph, and by their memory.
std::vector<std::vector<double>> shares(const Problem& problem, const std::vector<DeviceId>& devices) {
  std::vector<std::vector<double>> all{shares_by_speed(problem, devices), shares_by_memory(problem, devices)};
  const bool alike = std::equal(all[0].begin(), all[0].end(), all[1].begin(),
                                [](double a, double b) { return std::abs(a - b) < 0.01; });
  if (alike) all.pop_back();
  return all;
}

/// Weighs time and bytes (state and results) equally, so that a piece is bounded in both.
std::vector<double> with_bytes(const OpGraph& graph, const std::vector<double>& time) {
  std::vector<double> bytes(graph.num_ops(), 0.0);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.is_view(op)) continue;
    bytes[i] = static_cast<double>(graph.param_bytes(op));
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
      bytes[i] += static_cast<double>(graph.bytes(graph.output(op, k)));
  }
  bytes = normalised(std::move(bytes));
  const double total = std::accumulate(time.begin(), time.end(), 0.0);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = bytes[i] * total + time[i];
  return bytes;
}

/// Chains of pieces from many orders of the blocks; if none fits as a step, again with less memory for what
/// devices keep.
Result<Answer> low_latency(const Problem& problem, Executor& executor) {
  constexpr double kBudget = 4e8;  // Table cells in total: about a second.
  const SplitCosts costs{problem.graph, problem.devices};
  EMPLACE_TRY_ASSIGN(auto machine, split_machine(problem, costs));
  const auto classes = problem.constraints.classes();
  BlockGraph graph = make_blocks(problem, costs, machine, {classes.begin(), classes.end()}, BlockEdges::kAll);
  if (graph.size() > kMaxChainBlocks) {
    const Grouping groups = placement_groups(problem, kMaxChainBlocks);
    graph = make_blocks(problem, costs, machine, groups.group_of_op, BlockEdges::kAll);
  }
  const double blocks = static_cast<double>(graph.size());
  const double cells = blocks * blocks * static_cast<double>(machine.accelerators.size() + 10);
  Rng rng{problem.seed, Purpose::kHeuristic, kChainStream};
  Best best{problem, executor};
  const auto orders = static_cast<std::size_t>(std::clamp(kBudget / cells, 3.0, 60.0));
  bool fits = false;
  for (int round = 0; round < kMemoryRounds && !fits; ++round, machine.memory_bytes /= 2) {
    if (round > 0 && (costs.published() || (problem.context.stopped && problem.context.stopped()))) break;
    for (Placement& placement : chain_splits(graph, machine, problem, rng, orders)) {
      EMPLACE_TRY(best.offer(std::move(placement)));
      fits |= best.last_fits();
    }
  }
  return std::move(best).take();
}

/// Reduces the memory of both sides by the most that one of their devices exceeds its own.
void leave_room(const SplitCosts& costs, std::span<const std::int64_t> peak_bytes, SplitMachine& machine) {
  std::int64_t over = 0, cpu_over = 0;
  for (std::size_t d = 0; d < peak_bytes.size(); ++d) {
    std::int64_t& most = costs.is_accelerator(d) ? over : cpu_over;
    most = std::max(most, peak_bytes[d] - costs.cap_bytes(d));
  }
  machine.memory_bytes -= over;
  machine.cpu_memory_bytes -= cpu_over;
}

/// The exact optimum over co-location classes; if these have too many ideals, over increasingly large groups.
/// It counts what devices keep; if one step needs more, it is found again with as much less memory.
Result<Answer> least_load(const Problem& problem, Executor& executor) {
  const SplitCosts costs{problem.graph, problem.devices};
  EMPLACE_TRY_ASSIGN(auto machine, split_machine(problem, costs));
  const auto classes = problem.constraints.classes();
  std::vector<std::uint32_t> group_of_op{classes.begin(), classes.end()};
  Best best{problem, executor};
  IdealLimits limits;
  limits.stopped = problem.context.stopped;
  std::string note = "exact, over co-location classes", why;
  for (std::size_t wanted : {std::size_t{0}, std::size_t{256}, std::size_t{128}, std::size_t{64},
                             std::size_t{32}, std::size_t{16}}) {
    if (wanted > 0) {
      if (wanted >= problem.constraints.num_classes()) continue;
      const Grouping groups = placement_groups(problem, wanted);
      group_of_op = groups.group_of_op;
      note = fmt::format("exact over {} groups of ops; finer ones have {}", groups.num_groups, why);
    }
    const BlockGraph graph = make_blocks(problem, costs, machine, group_of_op, BlockEdges::kForward);
    if (graph.size() > kMaxIdealBlocks) {
      why = fmt::format("too many order ideals ({} blocks)", graph.size());
      continue;
    }
    Result<IdealSplit> split = Error{Errc::kUnsupported, ""};
    for (int round = 0; round < kMemoryRounds; ++round) {
      Rng rng{problem.seed, Purpose::kHeuristic, kChainStream};
      std::int64_t upper = std::numeric_limits<std::int64_t>::max();
      for (std::uint32_t k = 0; k < kLinearOrders; ++k)
        upper = std::min(upper, best_linear_load_ps(graph, random_order(graph, rng, 8 - k % 3), machine));
      split = best_ideal_split(graph, machine, upper, limits);
      if (!split) break;
      Placement placement(problem.graph.num_ops());
      for (std::size_t b = 0; b < graph.size(); ++b) {
        const std::size_t device = split->device_of_block[b];
        const bool accelerator = device < machine.accelerators.size();
        for (const std::uint32_t op : graph.ops[b])
          placement[op] =
              accelerator ? machine.accelerators[device] : machine.cpus[device - machine.accelerators.size()];
      }
      EMPLACE_TRY(best.offer(std::move(placement)));
      if (best.last_fits()) break;
      note = "not exact: devices keep less, so that one step fits";
      leave_room(costs, best.last().peak_bytes, machine);
    }
    if (!split && !best.found_any()) {
      if (split.error().code != Errc::kUnsupported) return split.error();
      if (limits.stopped && limits.stopped()) return Error{Errc::kNoPlacement, split.error().context};
      why = split.error().context;
      continue;
    }
    auto found = std::move(best).take();
    if (found) found->notes.push_back(note);
    return found;
  }
  return Error{Errc::kNoPlacement, "no exact contiguous split: " + why + "; use local-search or anneal"};
}

}  // namespace

Result<Answer> contiguous(const Problem& problem, Executor& executor) {
  if (problem.objective == Objective::kLatency) return low_latency(problem, executor);
  if (problem.objective != Objective::kStepTime) return least_load(problem, executor);
  const std::vector<std::uint32_t> issue = issue_order(problem.graph);
  const std::array orders{issue, scope_order(problem.graph, issue)};
  const std::vector<double> time = op_weights(problem);
  const std::array costs{time, with_bytes(problem.graph, time)};
  Best best{problem, executor};
  const auto offer = [&](const std::vector<DeviceId>& devices,
                         const std::vector<double>& share) -> Result<Unit> {
    for (const auto& order : orders) {
      for (const auto& cost : costs) {
        for (int i = 0; i < kOffsets; ++i) {
          const double offset = static_cast<double>(i) / kOffsets;
          EMPLACE_TRY(best.offer(cut(order, cost, devices, share, offset)));
        }
      }
    }
    return Unit{};
  };
  for (const auto& devices : tried_machines(problem.devices)) {
    for (const auto& share : shares(problem, devices)) {
      EMPLACE_TRY(offer(devices, share));
    }
  }
  return std::move(best).take();
}

}  // namespace emplace
