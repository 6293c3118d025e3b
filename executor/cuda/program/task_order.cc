#include "executor/cuda/program/task_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/check.h"

namespace emplace::cuda {

std::vector<std::uint32_t> task_order(const TaskPlan& plan, const Schedule& simulated) {
  const auto key = [](TensorId tensor, DeviceId target) {
    return std::uint64_t{index(tensor)} << 8 | index(target);
  };
  std::vector<std::pair<std::uint64_t, double>> arrivals;  // (tensor, target) → start, by both
  arrivals.reserve(simulated.transfers.size());
  for (const TransferRun& run : simulated.transfers)
    arrivals.emplace_back(key(run.tensor, run.target), run.start_s);
  std::ranges::stable_sort(arrivals, {}, &std::pair<std::uint64_t, double>::first);
  std::vector<double> op_start(plan.lowered().num_ops(), 0);
  for (const OpRun& run : simulated.ops) op_start[index(run.op)] = run.start_s;
  const std::size_t count = plan.tasks().size();
  std::vector<double> start(count, 0);
  std::vector<std::uint32_t> waits(count);
  for (std::uint32_t t = 0; t < count; ++t) {
    const TaskPlan::Task& task = plan.tasks()[t];
    waits[t] = plan.waits(t);
    if (!task.is_copy) {
      start[t] = op_start[task.what];
      continue;
    }
    const std::uint64_t wanted = key(plan.lowered().tensor(BufferId{task.what}), task.target);
    const auto at = std::ranges::lower_bound(arrivals, wanted, {}, &std::pair<std::uint64_t, double>::first);
    if (at != arrivals.end() && at->first == wanted) start[t] = at->second;
  }
  using Entry = std::pair<double, std::uint32_t>;
  std::vector<Entry> room;
  room.reserve(count);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready{std::greater<>{}, std::move(room)};
  for (const std::uint32_t task : plan.sources()) ready.emplace(start[task], task);
  std::vector<std::uint32_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t task = ready.top().second;
    ready.pop();
    order.push_back(task);
    for (const std::uint32_t next : plan.successors(task))
      if (--waits[next] == 0) ready.emplace(start[next], next);
  }
  EMPLACE_CHECK(order.size() == count, "cyclic task dependencies");
  return order;
}

}  // namespace emplace::cuda
