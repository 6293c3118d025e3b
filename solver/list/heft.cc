#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "placement/idle_gaps.h"
#include "solver/heuristics.h"
#include "solver/list/list_schedule.h"

namespace emplace {
namespace {

/// [ops] Mean time to the end of the step, including the op's own time [ns]; 0 for ops without a kernel.
std::vector<double> upward_ranks(const ListTask& task) {
  const Problem& problem = task.problem;
  const LoweredGraph& lowered = task.lowered;
  const std::vector<DeviceId> devices = fast_devices(problem.devices);
  double latency = 0, per_byte = 0;
  for (const DeviceId s : devices) {
    for (const DeviceId t : devices) {
      if (s == t) continue;
      latency += task.transfers.line(s, t).latency_ns + kRoundingNs;
      per_byte += task.transfers.line(s, t).ns_per_byte;
    }
  }
  // With n devices both ends of an edge share a device with probability 1/n; then nothing is sent.
  const double n = static_cast<double>(devices.size());
  latency /= n * n;
  per_byte /= n * n;
  std::vector<double> rank(lowered.num_ops(), 0);
  const auto order = problem.graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const OpId op = *it;
    if (!lowered.takes_time(op)) continue;
    double after = 0;
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b) {
      const double send = latency + per_byte * static_cast<double>(lowered.bytes(BufferId{b}));
      for (const OpId reader : lowered.readers(BufferId{b}))
        after = std::max(after, send + rank[index(reader)]);
    }
    double mean = 0;
    for (const DeviceId device : devices) mean += static_cast<double>(problem.costs.ns(device, op));
    rank[index(op)] = mean / n + after;
  }
  return rank;
}

/// Kernels by decreasing rank; ties in graph order.
std::vector<OpId> by_rank(const ListTask& task) {
  const std::vector<double> rank = upward_ranks(task);
  std::vector<OpId> order;
  for (const OpId op : task.problem.graph.topological_order())
    if (task.lowered.takes_time(op)) order.push_back(op);
  std::stable_sort(order.begin(), order.end(),
                   [&](OpId a, OpId b) { return rank[index(a)] > rank[index(b)]; });
  return order;
}

void list_by_rank(PartialSchedule& schedule, const std::vector<OpId>& order) {
  const ListTask& task = schedule.task();
  const CostTable& costs = task.problem.costs;
  std::vector<IdleGaps> gaps;
  for (std::size_t d = 0; d < task.problem.devices.size(); ++d) {
    std::int64_t shortest = INT64_MAX;
    for (const OpId op : order) {
      const std::int64_t ns = costs.ns(static_cast<DeviceId>(d), op);
      if (ns > 0) shortest = std::min(shortest, ns);
    }
    gaps.emplace_back(shortest);
  }
  std::vector<std::uint32_t> open;
  for (const OpId op : order) {
    schedule.candidates(op, open);
    std::size_t best = gaps.size();
    std::int64_t best_end = 0;
    const auto weigh = [&](std::size_t d, bool ignore_memory) {
      const std::int64_t cost = costs.ns(static_cast<DeviceId>(d), op);
      const std::int64_t start = gaps[d].start(schedule.data_ready_ns(op, d), cost);
      if (!ignore_memory && schedule.bytes_over(op, d, start) > 0) {
        schedule.note_refusal();
        return;
      }
      if (best < gaps.size() && start + cost >= best_end) return;
      best = d;
      best_end = start + cost;
    };
    for (const std::uint32_t d : open) weigh(d, false);
    if (best == gaps.size()) weigh(schedule.refuge_for(op, open), true);
    // Several copies together may arrive later than each one alone.
    const std::int64_t cost = costs.ns(static_cast<DeviceId>(best), op);
    const std::int64_t start = gaps[best].start(schedule.order_copies(op, best), cost);
    gaps[best].fill(start, start + cost);
    schedule.place(op, best, start);
  }
}

}  // namespace

Result<Answer> heft(const Problem& problem, Executor& executor) {
  const ListTask task{problem};
  const std::vector<OpId> order = by_rank(task);
  return best_over_reserves(task, executor,
                            [&](PartialSchedule& schedule) { list_by_rank(schedule, order); });
}

}  // namespace emplace
