#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "heuristics/list_methods.h"

namespace emplace {
namespace {

/// Ordered as the pair is: by time first where it stands in line, then in issue order.
using Entry = std::pair<std::int64_t, std::uint32_t>;
using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

/// One device's ready ops: those whose data would still be on its way when the device comes free, and those
/// that it could begin at once. Entries of ops that went elsewhere are passed over when they come up.
struct Line {
  Heap arriving;  ///< By the time their data is there [ns].
  Heap waiting;   ///< By what they lose to their fastest device [ns].
  OpId held_for = kNoOp;
  std::int64_t held_until_ns = 0;
};

class EarliestStart {
 public:
  EarliestStart(PartialSchedule& schedule, std::span<const OpId> favourite)
      : schedule_{schedule},
        lowered_{schedule.task().lowered},
        favourite_{favourite},
        lines_(schedule.task().problem.devices.size()),
        waits_(lowered_.num_ops(), 0),
        lines_left_(lowered_.num_ops(), 0),
        undecided_(schedule.units().size()) {
    for (const OpId op : lowered_.kernels())
      for (const BufferId buffer : lowered_.reads(op))
        if (!lowered_.is_resident(buffer)) ++waits_[index(op)];
    for (const OpId op : lowered_.kernels())
      if (waits_[index(op)] == 0) queue(op);
  }

  void run() {
    for (std::size_t left = lowered_.kernels().size(); left > 0;) {
      const auto [device, op, start] = earliest();
      Line& line = lines_[device];
      if (op == line.held_for) {
        line.held_for = kNoOp;  // Its entry stays behind, and is stale once it is placed.
        if (schedule_.bytes_over(op, device, start) > 0) continue;
        place(op, device);
      } else {
        (line.waiting.empty() ? line.arriving : line.waiting).pop();
        if (schedule_.bytes_over(op, device, start) > 0) {
          schedule_.note_refusal();
          if (schedule_.device_of(unit_of(op)) < 0 && --lines_left_[index(op)] > 0) continue;
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
  /// Losing time on this device against the op's fastest counts as waiting for it.
  std::int64_t loss_ns(OpId op, std::size_t device) const {
    const ListTask& task = schedule_.task();
    return std::max<std::int64_t>(
        0, task.problem.costs.ns(static_cast<DeviceId>(device), op) - task.best_ns[index(op)]);
  }
  void queue(OpId op) {
    schedule_.candidates(op, open_);
    if (schedule_.device_of(unit_of(op)) < 0) undecided_[unit_of(op)].push_back(op);
    lines_left_[index(op)] = static_cast<std::uint32_t>(open_.size());
    for (const std::uint32_t d : open_)
      lines_[d].arriving.push({schedule_.data_ready_ns(op, d), static_cast<std::uint32_t>(index(op))});
  }
  std::uint32_t unit_of(OpId op) const { return schedule_.units().unit_of_op[index(op)]; }
  /// A unit that has its device now: its ready ops stand in that device's line alone, even if they did not
  /// before or it had refused them.
  void requeue(std::uint32_t unit) {
    const auto ops = std::exchange(undecided_[unit], {});
    for (const OpId op : ops)
      if (!schedule_.is_placed(op)) queue(op);
  }
  bool is_stale(OpId op, std::size_t device) const {
    if (schedule_.is_placed(op)) return true;
    const std::int32_t bound = schedule_.device_of(unit_of(op));
    return bound >= 0 && static_cast<std::size_t>(bound) != device;
  }

  /// Brings the line up to date: what comes next stands on top. False: it is empty.
  bool refresh(std::size_t device) {
    Line& line = lines_[device];
    const std::int64_t free = schedule_.free_ns(device);
    for (; !line.arriving.empty();) {
      const auto [ready, id] = line.arriving.top();
      if (is_stale(OpId{id}, device)) {
        line.arriving.pop();
        continue;
      }
      // Engines fill up: what was promised when the op was queued may come later now.
      const std::int64_t now = schedule_.data_ready_ns(OpId{id}, device);
      if (now > ready) {
        line.arriving.pop();
        line.arriving.push({now, id});
        if (now > free && line.arriving.top().second == id) break;
        continue;
      }
      if (ready > free) break;
      line.arriving.pop();
      line.waiting.push({loss_ns(OpId{id}, device), id});
    }
    while (!line.waiting.empty() && is_stale(OpId{line.waiting.top().second}, device)) line.waiting.pop();
    return !line.waiting.empty() || !line.arriving.empty();
  }

  /// The child for which the device waits, if it is ready and comes in time.
  bool holds(std::size_t device) const {
    const Line& line = lines_[device];
    return line.held_for != kNoOp && waits_[index(line.held_for)] == 0 && !is_stale(line.held_for, device) &&
           schedule_.data_ready_ns(line.held_for, device) <= line.held_until_ns;
  }

  /// The device whose next op can start first, and that op. @pre some op is ready.
  struct Next {
    std::size_t device = 0;
    OpId op = kNoOp;
    std::int64_t start_ns = 0;
  };
  Next earliest() {
    Next best;
    std::int64_t best_ns = 0;
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      if (!refresh(d)) continue;
      Line& line = lines_[d];
      OpId op{line.waiting.empty() ? line.arriving.top().second : line.waiting.top().second};
      std::int64_t start = line.waiting.empty() ? line.arriving.top().first : schedule_.free_ns(d);
      if (holds(d)) {
        op = line.held_for;
        start = std::max(schedule_.free_ns(d), schedule_.data_ready_ns(op, d));
      }
      const std::int64_t counted = start + loss_ns(op, d);
      if (best.op != kNoOp && counted >= best_ns) continue;
      best = {d, op, start};
      best_ns = counted;
    }
    EMPLACE_CHECK(best.op != kNoOp, "ops are left and none is ready");
    return best;
  }

  void place(OpId op, std::size_t device) {
    const std::int64_t ready = schedule_.order_copies(op, device);
    schedule_.place(op, device, std::max(schedule_.free_ns(device), ready));
    requeue(unit_of(op));
    for (const BufferId read : lowered_.reads(op)) requeue(unit_of(lowered_.owner(read)));
    Line& line = lines_[device];
    line.held_for = favourite_.empty() ? kNoOp : favourite_[index(op)];
    if (line.held_for != kNoOp) {
      // Elsewhere the child could begin once its data had crossed the link: that long it is worth waiting.
      std::int64_t bytes = 0;
      for (const BufferId read : lowered_.reads(line.held_for))
        if (lowered_.owner(read) == op) bytes = std::max(bytes, lowered_.bytes(read));
      const std::size_t other = device == 0 ? lines_.size() - 1 : device - 1;
      line.held_until_ns = schedule_.end_ns(op) + schedule_.task().transfer_ns(device, other, bytes);
    }
    for (std::uint32_t b = lowered_.first_owned(op); b < lowered_.end_owned(op); ++b)
      for (const OpId reader : lowered_.readers(BufferId{b}))
        if (--waits_[index(reader)] == 0) queue(reader);
  }

  PartialSchedule& schedule_;
  const LoweredGraph& lowered_;
  const std::span<const OpId> favourite_;
  std::vector<Line> lines_;                   // [devices]
  std::vector<std::uint32_t> waits_;          // [ops] buffers still to be made
  std::vector<std::uint32_t> lines_left_;     // [ops] lines that have not refused it
  std::vector<std::vector<OpId>> undecided_;  // [units] ready ops of units without a device
  std::vector<std::uint32_t> open_;
};

}  // namespace

void list_by_earliest_start(PartialSchedule& schedule, std::span<const OpId> favourite) {
  EarliestStart{schedule, favourite}.run();
}

Result<Found> MEtf::find(const Problem& problem, Executor& executor) const {
  const ListTask task{problem};
  return best_over_reserves(task, executor,
                            [](PartialSchedule& schedule) { list_by_earliest_start(schedule, {}); });
}

}  // namespace emplace
