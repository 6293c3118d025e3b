#include "executor/sim/whole/moved_step.h"

#include <algorithm>
#include <bit>

namespace emplace::simulated {

MovedStep::MovedStep(const StepTables& tables, Dispatch dispatch)
    : StepLoop{tables, dispatch},
      waits_(tables.num_ops()),
      references_(tables.num_buffers()),
      copy_references_(tables.num_buffers() * tables.num_devices()),
      shared_at_(tables.num_buffers(), 0) {}

std::uint64_t MovedStep::run(const StepHistory& history, std::span<const DeviceId> placement,
                             std::span<const std::uint32_t> moved) {
  history_ = &history;
  place_ = placement.data();
  read_order();
  rounds_ = 0;
  last_started_ = kNoIndex;
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) lanes_[d].used_bytes = history.lanes[d].used_bytes;
  touched_.assign(history.marks.size() / 64 + 1, 0);
  start_differs_ = false;
  for (const std::uint32_t op : moved) {
    const std::uint32_t before = device_before(op), now = device_of(op);
    const std::int64_t bytes = tables_.lowered.resident_bytes(OpId{op});
    lanes_[before].used_bytes -= bytes;
    lanes_[now].used_bytes += bytes;
    touch_around(op);
  }
  for (const Shared& shared : shared_) {
    touch_sharers(shared);
    shared_at_[shared.buffer] = 0;
  }
  shared_.clear();
  for (Lane& lane : lanes_) lane.peak_bytes = lane.used_bytes;
  now_ns_ = bytes_moved_ = 0;
  if (start()) run_rounds();
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) lanes_[d].busy_ns = history.busy_ns[d];
  for (const std::uint32_t op : moved) {
    if (!tables_.takes_time(op)) continue;
    const std::uint32_t before = device_before(op), now = device_of(op);
    lanes_[before].busy_ns -= tables_.rows[before][op];
    lanes_[now].busy_ns += tables_.rows[now][op];
  }
  return rounds_;
}

/// Enters the schedule: from scratch, or at the last mark before the first affected event. Returns false if
/// no event is affected, so that the result is the history's.
bool MovedStep::start() {
  if (start_differs_) {
    start_from_scratch();
    return true;
  }
  const std::size_t to = next_touched(0) - 1;
  if (to != 0) return !jump(0, to);
  restore_mark(0);
  return true;
}

/// Touches the intervals that the moved op affects, except those of other readers of its inputs (see
/// touch_sharers).
void MovedStep::touch_around(std::uint32_t op) {
  const std::uint32_t before = device_before(op), now = device_of(op);
  const auto over_a_link = [&](std::uint32_t other) {
    return before != device_before(other) || now != device_of(other);
  };
  start_differs_ |= tables_.takes_time(op) && tables_.waits_at_start[op] == 0;
  for (const std::uint32_t b : tables_.reads_of(op)) {
    const StepTables::Buffer& buffer = tables_.buffers[b];
    if (!buffer.resident) {
      touch(history_->op_end[buffer.owner]);
    } else if (over_a_link(buffer.owner)) {
      start_differs_ = true;
    }
    if (shared_at_[b] == 0) {
      shared_.push_back({b, {}});
      shared_at_[b] = static_cast<std::uint32_t>(shared_.size());
    }
    shared_[shared_at_[b] - 1].devices.set(before).set(now);
  }
  for (std::uint32_t b = tables_.kernels[op].first_owned; b < tables_.kernels[op + 1].first_owned; ++b) {
    for (const std::uint32_t reader : tables_.readers_of(b)) {
      touch(history_->op_end[reader]);
      start_differs_ |= tables_.buffers[b].resident && over_a_link(reader);
    }
  }
}

void MovedStep::touch_copies(std::uint32_t buffer) {
  const std::uint32_t* ends = history_->copy_end.data() + buffer * lanes_.size();
  // Interval 0 means "no copy"; next_touched() never returns it.
  for (std::size_t d = 0; d < lanes_.size(); ++d) touch(ends[d]);
}

/// Touches the ends of the readers of a buffer on the devices where a moved op was or is. On the buffer's
/// home device these are the readers of the whole tensor, because its memory is released after the last of
/// them.
void MovedStep::touch_sharers(const Shared& shared) {
  const StepTables::Buffer& buffer = tables_.buffers[shared.buffer];
  const std::uint32_t home = device_of(buffer.owner);
  touch_copies(shared.buffer);
  for (const std::uint32_t reader : tables_.readers_of(shared.buffer)) {
    const std::uint32_t d = device_of(reader);
    if (shared.devices[d] && !(buffer.resident && d == home)) touch(history_->op_end[reader]);
  }
  if (buffer.resident || !shared.devices[home]) return;
  for (std::uint32_t b = tables_.kernels[buffer.owner].first_owned;
       b < tables_.kernels[buffer.owner + 1].first_owned; ++b) {
    if (b == shared.buffer || tables_.buffers[b].base != buffer.base) continue;
    touch_copies(b);
    for (const std::uint32_t reader : tables_.readers_of(b))
      if (device_of(reader) == home) touch(history_->op_end[reader]);
  }
}

/// Returns the first touched interval after `after`; the number of marks plus one if there is none.
std::size_t MovedStep::next_touched(std::size_t after) const {
  std::size_t word = (after + 1) >> 6;
  if (word >= touched_.size()) return history_->marks.size() + 1;
  std::uint64_t bits = touched_[word] & ~std::uint64_t{0} << ((after + 1) & 63);
  while (bits == 0 && ++word < touched_.size()) bits = touched_[word];
  if (bits == 0) return history_->marks.size() + 1;
  return word << 6 | static_cast<std::size_t>(std::countr_zero(bits));
}

/// Starts the step at time 0 without the history, as WholeStep::start_step(). The lanes already contain the
/// resident bytes.
void MovedStep::start_from_scratch() {
  mark_ = 0;
  hash_ = 0;
  links_.clear();
  invalidate_counts();
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) {
    lanes_[d].copies.clear();
    lanes_[d].fifo.clear();
    lanes_[d].ready.clear();
    op_end(d) = copy_end(d) = kIdle;
  }
  request_state();
  for (const std::uint32_t op : tables_.sources)
    if (waits(op) == 0) make_ready(op);
}

/// Called after everything that could start has started. If the last op started in the history's round with a
/// mark, and the state equals that mark, continues at the last mark before the next touched interval. Returns
/// true at the end of the step.
bool MovedStep::round_started() {
  ++rounds_;
  const std::uint32_t last = std::exchange(last_started_, kNoIndex);
  if (last == kNoIndex) return false;
  const std::size_t mark = history_->mark_of_op[last];
  if (mark == 0) return false;
  const std::size_t to = next_touched(mark) - 1;
  return to != mark && matches_mark(mark) && jump(mark, to);
}

/// Whether the state equals the history's at the mark, except for a shift of time: same ops ready and started
/// (by hash), same ops and copies running with the same remaining times, same queues. The copies that run
/// determine which shared links are busy.
bool MovedStep::matches_mark(std::size_t mark) const {
  if (hash_ != history_->marks[mark].hash) return false;
  const auto same = [&](std::int64_t end, std::int64_t left_ns) {
    return time_left(end, now_ns_) == left_ns;
  };
  if (!simple_ && !links_.equals(history_->waiting_at(mark))) return false;
  const StepHistory::LaneMark* lanes = history_->lanes.data() + mark * lanes_.size();
  const std::uint32_t* ready = history_->ready.data() + history_->marks[mark].ready;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    const StepHistory::LaneMark& then = lanes[d];
    const Lane& lane = lanes_[d];
    if (!same(ends_[2 * d], then.op_left_ns) || !same(ends_[2 * d + 1], then.copy_left_ns)) return false;
    if (then.op_left_ns != kIdle && lane.op != then.op) return false;
    if (then.copy_left_ns != kIdle && lane.copy != then.copy) return false;
    if (dispatch_ == Dispatch::kFifo) {
      const auto here = lane.fifo.waiting();
      if (!std::equal(here.begin(), here.end(), ready, ready + then.ready)) return false;
      ready += then.ready;
    }
    const auto copies = lane.copies.waiting(), copies_then = history_->copies(then, d);
    if (!std::equal(copies.begin(), copies.end(), copies_then.begin(), copies_then.end())) return false;
  }
  return true;
}

/// Restores the history's state at the mark, shifted to the current time. The caller sets the memory levels.
void MovedStep::restore_mark(std::size_t mark) {
  mark_ = mark;
  hash_ = history_->marks[mark].hash;
  invalidate_counts();
  links_.clear();
  const StepHistory::LaneMark* lanes = history_->lanes.data() + mark * lanes_.size();
  const std::uint32_t* ready = history_->ready.data() + history_->marks[mark].ready;
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) {
    const StepHistory::LaneMark& then = lanes[d];
    Lane& lane = lanes_[d];
    lane.op = then.op;
    lane.copy = then.copy;
    op_end(d) = end_after(then.op_left_ns, now_ns_);
    copy_end(d) = end_after(then.copy_left_ns, now_ns_);
    if (!simple_ && copy_end(d) < kWaiting) links_.use(route_of(lane.copy));
    if (dispatch_ == Dispatch::kProgram) {
      lane.ready.clear();
      for (std::uint32_t i = 0; i < then.ready; ++i) lane.ready.insert(ready[i]);
    } else {
      lane.fifo.assign({ready, then.ready});
    }
    ready += then.ready;
    lane.copies.assign(history_->copies(then, d));
    awake_.wake(d);
  }
  if (simple_) return;
  links_.restore(history_->waiting_at(mark),
                 [&](std::uint32_t engine) { return route_of(lanes_[engine].copy); });
}

/// Skips from mark `from` to mark `to` (or to the end): nothing between them is affected, so times and memory
/// levels advance as in the history, each shifted by the current difference.
bool MovedStep::jump(std::size_t from, std::size_t to) {
  const bool to_end = to == history_->marks.size();
  const std::size_t count = lanes_.size();
  const StepHistory::Mark& here = history_->marks[from];
  const StepHistory::LaneMark* lanes = history_->lanes.data();
  for (std::size_t d = 0; d < count; ++d) {
    const std::int64_t higher = lanes_[d].used_bytes - lanes[from * count + d].used_bytes;
    std::int64_t peak = lanes[from * count + d].used_bytes;
    if (to_end) {
      peak = history_->peak_from[from * count + d];
    } else if (from == 0) {
      peak = history_->peak_until[to * count + d];
    } else {
      for (std::size_t m = from + 1; m <= to; ++m) peak = std::max(peak, lanes[m * count + d].peak_bytes);
    }
    lanes_[d].peak_bytes = std::max(lanes_[d].peak_bytes, peak + higher);
    if (!to_end) lanes_[d].used_bytes = lanes[to * count + d].used_bytes + higher;
  }
  now_ns_ += (to_end ? history_->end_ns : history_->marks[to].now_ns) - here.now_ns;
  bytes_moved_ += (to_end ? history_->bytes_moved : history_->marks[to].bytes_moved) - here.bytes_moved;
  if (!to_end) restore_mark(to);
  return to_end;
}

void MovedStep::invalidate_counts() {
  if (++epoch_ != 0) return;
  for (auto* counts : {&waits_, &references_, &copy_references_})
    std::fill(counts->begin(), counts->end(), Count{});
  epoch_ = 1;
}

/// Whether the buffer is on the device at mark_. A copy that the history lacks was made by this step only; it
/// has ended if it was requested, because a running or queued copy would not have matched the mark.
bool MovedStep::is_available(std::uint32_t b, std::uint32_t device) const {
  const StepTables::Buffer& buffer = tables_.buffers[b];
  const bool home = device_of(buffer.owner) == device;
  if (home && buffer.resident) return true;
  const std::uint32_t copied = home ? 0 : history_->copy_end[b * lanes_.size() + device];
  if (copied != 0) return copied <= mark_;
  return buffer.resident ? mark_ > 0 : history_->op_end[buffer.owner] <= mark_;
}

// Counts at mark_: ends of the history in intervals up to mark_ are past, all later ones are pending.

/// Number of inputs of the kernel that are not yet on its device.
std::uint32_t MovedStep::count_waits(std::uint32_t op) const {
  const std::uint32_t d = device_of(op);
  std::uint32_t count = 0;
  for (const std::uint32_t b : tables_.reads_of(op)) count += !is_available(b, d);
  return count;
}

/// Number of readers and outgoing copies of the tensor that are still to end at its home device.
std::uint32_t MovedStep::count_references(std::uint32_t base) const {
  const std::uint32_t owner = tables_.buffers[base].owner, home = device_of(owner);
  if (history_->op_end[owner] > mark_) return 0;
  std::uint32_t count = 0;
  for (std::uint32_t b = tables_.kernels[owner].first_owned; b < tables_.kernels[owner + 1].first_owned;
       ++b) {
    if (tables_.buffers[b].base != base) continue;
    bool copied = false;
    for (const std::uint32_t reader : tables_.readers_of(b)) {
      if (device_of(reader) != home) {
        copied = true;
      } else {
        count += history_->op_end[reader] > mark_;
      }
    }
    if (!copied) continue;
    for (std::uint32_t d = 0; d < lanes_.size(); ++d)
      count += d != home && history_->copy_end[b * lanes_.size() + d] > mark_;
  }
  return count;
}

/// Number of readers of a requested copy that are still to end at its target.
std::uint32_t MovedStep::count_copy_references(std::uint32_t b, std::uint32_t target) const {
  const StepTables::Buffer& buffer = tables_.buffers[b];
  const bool requested =
      buffer.resident ? mark_ > 0 || !start_differs_ : history_->op_end[buffer.owner] <= mark_;
  std::uint32_t count = 0;
  if (!requested) return count;
  for (const std::uint32_t reader : tables_.readers_of(b))
    count += device_of(reader) == target && history_->op_end[reader] > mark_;
  return count;
}

}  // namespace emplace::simulated
