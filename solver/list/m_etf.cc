#include <algorithm>
#include <cstdint>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "solver/heuristics.h"
#include "solver/list/favourite_children.h"
#include "solver/list/list_schedule.h"

namespace emplace {
namespace {

/// Sort key (time or loss) and op; ties in issue order.
using Entry = std::pair<std::int64_t, std::uint32_t>;
using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

/// The ready ops of one device. `arriving`: ops whose data arrive after the device becomes free. `waiting`:
/// ops that could start immediately. Entries of ops placed elsewhere are skipped when they reach the top.
struct DeviceQueue {
  Heap arriving;  ///< Ordered by the arrival of their data [ns].
  Heap waiting;   ///< Ordered by the time they lose to their fastest device [ns].
  OpId awaited_child = kNoOp;
  std::int64_t await_until_ns = 0;
};

class EarliestStart {
 public:
  EarliestStart(PartialSchedule& schedule, std::span<const OpId> favourite)
      : schedule_{schedule},
        lowered_{schedule.task().lowered},
        favourite_{favourite},
        queues_(schedule.task().problem.devices.size()),
        waits_(lowered_.num_ops(), 0),
        queues_left_(lowered_.num_ops(), 0),
        undecided_(schedule.units().size()) {
    for (const OpId op : lowered_.kernels())
      for (const BufferId buffer : lowered_.reads(op))
        if (!lowered_.is_resident(buffer)) ++waits_[index(op)];
    for (const OpId op : lowered_.kernels())
      if (waits_[index(op)] == 0) enqueue(op);
  }

  void run() {
    for (std::size_t left = lowered_.kernels().size(); left > 0;) {
      const auto [device, op, start] = earliest();
      DeviceQueue& queue = queues_[device];
      if (op == queue.awaited_child) {
        queue.awaited_child = kNoOp;  // Its queue entry becomes stale once the op is placed.
        if (schedule_.bytes_over(op, device, start) > 0) continue;
        place(op, device);
      } else {
        (queue.waiting.empty() ? queue.arriving : queue.waiting).pop();
        if (schedule_.bytes_over(op, device, start) > 0) {
          schedule_.note_refusal();
          if (schedule_.device_of(unit_of(op)) < 0 && --queues_left_[index(op)] > 0) continue;
          schedule_.candidates(op, open_);
          place(op, schedule_.refuge_for(op, open_));
        } else {
          place(op, device);
        }
      }
      --left;
    }
  }

 private:
  /// Time lost on this device relative to the op's fastest device; counts as waiting.
  std::int64_t loss_ns(OpId op, std::size_t device) const {
    const ListTask& task = schedule_.task();
    return std::max<std::int64_t>(
        0, task.problem.costs.ns(static_cast<DeviceId>(device), op) - task.best_ns[index(op)]);
  }
  void enqueue(OpId op) {
    schedule_.candidates(op, open_);
    if (schedule_.device_of(unit_of(op)) < 0) undecided_[unit_of(op)].push_back(op);
    queues_left_[index(op)] = static_cast<std::uint32_t>(open_.size());
    for (const std::uint32_t d : open_)
      queues_[d].arriving.push({schedule_.data_ready_ns(op, d), static_cast<std::uint32_t>(index(op))});
  }
  std::uint32_t unit_of(OpId op) const { return schedule_.units().unit_of_op[index(op)]; }
  /// Called when a unit has got its device: queues its ready ops on that device only, even if they were not
  /// queued there or were rejected there before.
  void enqueue_unit(std::uint32_t unit) {
    const auto ops = std::exchange(undecided_[unit], {});
    for (const OpId op : ops)
      if (!schedule_.is_placed(op)) enqueue(op);
  }
  bool is_stale(OpId op, std::size_t device) const {
    if (schedule_.is_placed(op)) return true;
    const std::int32_t bound = schedule_.device_of(unit_of(op));
    return bound >= 0 && static_cast<std::size_t>(bound) != device;
  }

  /// Updates the queue so that the next op is on top. Returns false if it is empty.
  bool refresh(std::size_t device) {
    DeviceQueue& queue = queues_[device];
    const std::int64_t free = schedule_.free_ns(device);
    for (; !queue.arriving.empty();) {
      const auto [ready, id] = queue.arriving.top();
      if (is_stale(OpId{id}, device)) {
        queue.arriving.pop();
        continue;
      }
      // Copy engines fill up, so the arrival estimated when the op was queued may be too early.
      const std::int64_t now = schedule_.data_ready_ns(OpId{id}, device);
      if (now > ready) {
        queue.arriving.pop();
        queue.arriving.push({now, id});
        if (now > free && queue.arriving.top().second == id) break;
        continue;
      }
      if (ready > free) break;
      queue.arriving.pop();
      queue.waiting.push({loss_ns(OpId{id}, device), id});
    }
    while (!queue.waiting.empty() && is_stale(OpId{queue.waiting.top().second}, device)) queue.waiting.pop();
    return !queue.waiting.empty() || !queue.arriving.empty();
  }

  /// Whether the device should run the child that it waits for: it is ready and arrives in time.
  bool should_await(std::size_t device) const {
    const DeviceQueue& queue = queues_[device];
    return queue.awaited_child != kNoOp && waits_[index(queue.awaited_child)] == 0 &&
           !is_stale(queue.awaited_child, device) &&
           schedule_.data_ready_ns(queue.awaited_child, device) <= queue.await_until_ns;
  }

  /// The device whose next op can start first, and that op. @pre An op is ready.
  struct Next {
    std::size_t device = 0;
    OpId op = kNoOp;
    std::int64_t start_ns = 0;
  };
  Next earliest() {
    Next best;
    std::int64_t best_ns = 0;
    for (std::size_t d = 0; d < queues_.size(); ++d) {
      if (!refresh(d)) continue;
      DeviceQueue& queue = queues_[d];
      OpId op{queue.waiting.empty() ? queue.arriving.top().second : queue.waiting.top().second};
      std::int64_t start = queue.waiting.empty() ? queue.arriving.top().first : schedule_.free_ns(d);
      if (should_await(d)) {
        op = queue.awaited_child;
        start = std::max(schedule_.free_ns(d), schedule_.data_ready_ns(op, d));
      }
      const std::int64_t counted = start + loss_ns(op, d);
      if (best.op != kNoOp && counted >= best_ns) continue;
      best = {d, op, start};
      best_ns = counted;
    }
    EMPLACE_CHECK(best.op != kNoOp, "unplaced ops remain but no op is ready");
    return best;
  }

  void place(OpId op, std::size_t device) {
    const std::int64_t ready = schedule_.order_copies(op, device);
    schedule_.place(op, device, std::max(schedule_.free_ns(device), ready));
    enqueue_unit(unit_of(op));
    for (const BufferId read : lowered_.reads(op)) enqueue_unit(unit_of(lowered_.owner(read)));
    DeviceQueue& queue = queues_[device];
    queue.awaited_child = favourite_.empty() ? kNoOp : favourite_[index(op)];
    if (queue.awaited_child != kNoOp) {
      // Elsewhere the child could start after its data have crossed the link; waiting pays off until then.
      std::int64_t bytes = 0;
      for (const BufferId read : lowered_.reads(queue.awaited_child))
        if (lowered_.owner(read) == op) bytes = std::max(bytes, lowered_.bytes(read));
      const std::size_t other = device == 0 ? queues_.size() - 1 : device - 1;
      queue.await_until_ns = schedule_.end_ns(op) + schedule_.task().transfer_ns(device, other, bytes);
    }
    for (std::uint32_t b = lowered_.first_owned(op); b < lowered_.end_owned(op); ++b)
      for (const OpId reader : lowered_.readers(BufferId{b}))
        if (--waits_[index(reader)] == 0) enqueue(reader);
  }

  PartialSchedule& schedule_;
  const LoweredGraph& lowered_;
  const std::span<const OpId> favourite_;
  std::vector<DeviceQueue> queues_;           // [devices]
  std::vector<std::uint32_t> waits_;          // [ops] Number of input buffers not yet produced.
  std::vector<std::uint32_t> queues_left_;    // [ops] Number of queues that have not rejected it.
  std::vector<std::vector<OpId>> undecided_;  // [units] Ready ops of units without a device.
  std::vector<std::uint32_t> open_;
};

/// Schedules by earliest start. `favourite` [ops]: the child for which an op's device waits, or kNoOp; empty:
/// none.
Result<Answer> by_earliest_start(const ListTask& task, Executor& executor, std::span<const OpId> favourite) {
  return best_over_reserves(task, executor, [&](PartialSchedule& schedule) {
    EarliestStart{schedule, favourite}.run();
  });
}

}  // namespace

Result<Answer> m_etf(const Problem& problem, Executor& executor) {
  return by_earliest_start(ListTask{problem}, executor, {});
}

Result<Answer> m_sct(const Problem& problem, Executor& executor) {
  const ListTask task{problem};
  EMPLACE_TRY_ASSIGN(const auto favourite, favourite_children(task));
  return by_earliest_start(task, executor, favourite);
}

}  // namespace emplace
