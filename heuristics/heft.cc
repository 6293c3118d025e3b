#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "heuristics/list_methods.h"

namespace emplace {
namespace {

/// Mean time to the end of the step, own time included [ns]: [ops], 0 for what is no kernel.
std::vector<double> upward_ranks(const ListTask& task) {
  const Problem& problem = task.problem;
  const LoweredGraph& lowered = task.lowered;
  const std::vector<DeviceId> devices = fast_devices(problem.devices);
  const std::size_t all = problem.devices.size();
  double latency = 0, per_byte = 0;
  for (const DeviceId s : devices) {
    for (const DeviceId t : devices) {
      if (s == t) continue;
      latency += task.latency_ns[index(s) * all + index(t)];
      per_byte += task.ns_per_byte[index(s) * all + index(t)];
    }
  }
  // Two ends of an edge meet on one device once in so many times; then nothing is sent.
  const double n = static_cast<double>(devices.size());
  latency /= n * n;
  per_byte /= n * n;
  std::vector<double> rank(lowered.num_ops(), 0);
  const auto order = problem.graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const OpId op = *it;
    if (!lowered.is_kernel(op)) continue;
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

/// Kernels by decreasing rank; of equal ones the one that comes first in the graph.
std::vector<OpId> by_rank(const ListTask& task) {
  const std::vector<double> rank = upward_ranks(task);
  std::vector<OpId> order;
  for (const OpId op : task.problem.graph.topological_order())
    if (task.lowered.is_kernel(op)) order.push_back(op);
  std::stable_sort(order.begin(), order.end(),
                   [&](OpId a, OpId b) { return rank[index(a)] > rank[index(b)]; });
  return order;
}

/// When a device is idle before its last op, by time. Gaps that no op fits into are forgotten.
class Gaps {
 public:
  explicit Gaps(std::int64_t shortest_ns) : shortest_ns_{std::max<std::int64_t>(1, shortest_ns)} {}

  /// The first moment from `ready_ns` on at which `cost_ns` fits.
  std::int64_t start(std::int64_t ready_ns, std::int64_t cost_ns) const {
    for (auto gap = first_after(ready_ns); gap != gaps_.end(); ++gap) {
      const std::int64_t begin = std::max(gap->begin, ready_ns);
      if (begin + cost_ns <= gap->end) return begin;
    }
    return std::max(ready_ns, end_);
  }
  void fill(std::int64_t begin, std::int64_t end) {
    if (begin >= end_) {
      if (begin - end_ >= shortest_ns_) gaps_.push_back({end_, begin});
      end_ = end;
      return;
    }
    const auto at = gaps_.begin() + (first_after(begin) - gaps_.cbegin());
    if (at == gaps_.end()) return;  // An op of no length between two others.
    const Gap whole = *at;
    const auto rest = gaps_.erase(at);
    const Gap before{whole.begin, begin}, after{end, whole.end};
    const auto second = after.end - after.begin >= shortest_ns_ ? gaps_.insert(rest, after) : rest;
    if (before.end - before.begin >= shortest_ns_) gaps_.insert(second, before);
  }

 private:
  struct Gap {
    std::int64_t begin, end;
  };
  std::vector<Gap>::const_iterator first_after(std::int64_t ns) const {
    return std::partition_point(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.end <= ns; });
  }

  const std::int64_t shortest_ns_;
  std::vector<Gap> gaps_;
  std::int64_t end_ = 0;
};

void list_by_rank(PartialSchedule& schedule, const std::vector<OpId>& order) {
  const ListTask& task = schedule.task();
  const CostTable& costs = task.problem.costs;
  std::vector<Gaps> gaps;
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
    const auto weigh = [&](std::size_t d) {
      const std::int64_t cost = costs.ns(static_cast<DeviceId>(d), op);
      const std::int64_t end = gaps[d].start(schedule.data_ready_ns(op, d), cost) + cost;
      if (best < gaps.size() && end >= best_end) return;
      best = d;
      best_end = end;
    };
    for (const std::uint32_t d : open) {
      if (schedule.bytes_over(op, d) <= 0) {
        weigh(d);
      } else {
        schedule.note_refusal();
      }
    }
    if (best == gaps.size()) weigh(schedule.refuge_for(op, open));
    // Copies may come later together than each alone.
    const std::int64_t cost = costs.ns(static_cast<DeviceId>(best), op);
    const std::int64_t start = gaps[best].start(schedule.order_copies(op, best), cost);
    gaps[best].fill(start, start + cost);
    schedule.place(op, best, start);
  }
}

}  // namespace

Result<Found> Heft::find(const Problem& problem, Executor& executor) const {
  const ListTask task{problem};
  const std::vector<OpId> order = by_rank(task);
  return best_over_reserves(task, executor,
                            [&](PartialSchedule& schedule) { list_by_rank(schedule, order); });
}

}  // namespace emplace
