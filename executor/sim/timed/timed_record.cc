#include "executor/sim/timed/timed_record.h"

#include <algorithm>
#include <bit>

namespace emplace::simulated {

TimedRecord::TimedRecord(const StepTables& tables, const TimedIntervals& intervals)
    : tables_{tables},
      intervals_{intervals},
      end_of_op_(tables.num_ops(), kNoIndex),
      end_of_copy_(tables.num_buffers() * tables.num_devices(), kNoIndex),
      mark_of_op_(tables.num_ops(), kNoIndex),
      is_mark_(tables.num_ops() / 64 + 1, 0) {}

/// Adds what an interval contains, or removes it.
void TimedRecord::enter(std::uint32_t interval, bool added) {
  const std::uint32_t value = added ? interval : kNoIndex;
  const std::uint32_t op = intervals_.intervals[interval].last_op;
  if (op != kNoIndex) {
    const std::uint64_t bit = std::uint64_t{1} << (op & 63);
    mark_of_op_[op] = value;
    is_mark_[op >> 6] = added ? is_mark_[op >> 6] | bit : is_mark_[op >> 6] & ~bit;
  }
  for (const TimedEvent& event : intervals_.events_of(interval)) {
    if (event.what == TimedEvent::What::kOpEnd) {
      end_of_op_[event.id] = value;
    } else if (event.what == TimedEvent::What::kCopyEnd) {
      end_of_copy_[event.id * tables_.num_devices() + event.device] = value;
    }
  }
}

void TimedRecord::adopt(std::span<const DeviceId> place, std::vector<std::uint32_t>& order,
                        std::uint32_t first_new) {
  kept_.assign(intervals_.intervals.size(), false);
  for (const std::uint32_t interval : order) kept_[interval] = true;
  for (const std::uint32_t interval : order_)
    if (!kept_[interval]) enter(interval, false);
  for (const std::uint32_t interval : order)
    if (interval >= first_new) enter(interval, true);
  order_.swap(order);
  rank_.resize(intervals_.intervals.size());
  for (std::uint32_t rank = 0; rank < order_.size(); ++rank) rank_[order_[rank]] = rank;
  place_.assign(place.begin(), place.end());
}

void TimedRecord::forget() {
  for (const std::uint32_t interval : order_) enter(interval, false);
  order_.clear();
  place_.clear();
}

TimedRecord::Start TimedRecord::touch(std::span<const std::uint32_t> moved, std::span<const DeviceId> place) {
  touched_.assign(order_.size() / 64 + 1, 0);
  Start start = Start::kNothing;
  for (const std::uint32_t op : moved) start = std::max(start, touch_around(op, place));
  return start;
}

TimedRecord::Start TimedRecord::touch_around(std::uint32_t op, std::span<const DeviceId> place) {
  const DeviceId before = place_[op], now = place[op];
  const auto over_a_link = [&](std::uint32_t other) {
    return before != place_[other] || now != place[other];
  };
  const auto touch_copy = [&](std::uint32_t buffer, DeviceId to) {
    const std::uint32_t end = end_of_copy_[buffer * tables_.num_devices() + index(to)];
    if (end != kNoIndex) touch_interval(end);
  };
  bool copies = false;
  for (const std::uint32_t b : tables_.reads_of(op)) {
    const StepTables::Buffer& buffer = tables_.buffers[b];
    if (!buffer.resident) touch_interval(end_of_op_[buffer.owner]);
    copies |= buffer.resident && over_a_link(buffer.owner);
    touch_copy(b, before);
    touch_copy(b, now);
  }
  for (std::uint32_t b = tables_.kernels[op].first_owned; b < tables_.kernels[op + 1].first_owned; ++b) {
    if (!tables_.buffers[b].resident) continue;
    for (const std::uint32_t reader : tables_.readers_of(b)) copies |= over_a_link(reader);
  }
  if (tables_.takes_time(op) && tables_.waits_at_start[op] == 0) return Start::kReadyOps;
  return copies ? Start::kCopies : Start::kNothing;
}

std::uint32_t TimedRecord::next_touched(std::uint32_t rank) const {
  std::size_t word = rank >> 6;
  std::uint64_t bits = touched_[word] & ~std::uint64_t{0} << (rank & 63);
  while (bits == 0 && ++word < touched_.size()) bits = touched_[word];
  if (bits == 0) return size();
  return static_cast<std::uint32_t>(word << 6 | static_cast<std::size_t>(std::countr_zero(bits)));
}

}  // namespace emplace::simulated
