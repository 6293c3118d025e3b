#include "executor/sim/moved_step.h"

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
  rounds_ = 0;
  last_started_ = kNoIndex;
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) lanes_[d].used_bytes = history.lanes[d].used_bytes;
  touched_.assign(history.marks.size() / 64 + 1, 0);
  other_start_ = false;
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
    if (!tables_.is_kernel(op)) continue;
    const std::uint32_t before = device_before(op), now = device_of(op);
    lanes_[before].busy_ns -= tables_.rows[before][op];
    lanes_[now].busy_ns += tables_.rows[now][op];
  }
  return rounds_;
}

/// False: nothing that moved makes a difference.
bool MovedStep::start() {
  if (other_start_) {
    begin();
    return true;
  }
  const std::size_t to = next_touched(0) - 1;
  if (to != 0) return !jump(0, to);
  stand_at(0);
  return true;
}

/// What an op that moved changes, but for those who read the same.
void MovedStep::touch_around(std::uint32_t op) {
  const std::uint32_t before = device_before(op), now = device_of(op);
  const auto over_a_link = [&](std::uint32_t other) {
    return before != device_before(other) || now != device_of(other);
  };
  other_start_ |= tables_.is_kernel(op) && tables_.waits_at_start[op] == 0;
  for (const std::uint32_t b : tables_.reads_of(op)) {
    const StepTables::Buffer& buffer = tables_.buffers[b];
    if (!buffer.resident) {
      touch(history_->op_end[buffer.owner]);
    } else if (over_a_link(buffer.owner)) {
      other_start_ = true;
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
      other_start_ |= tables_.buffers[b].resident && over_a_link(reader);
    }
  }
}

void MovedStep::touch_copies(std::uint32_t buffer) {
  const std::uint32_t* ends = history_->copy_end.data() + buffer * lanes_.size();
  for (std::size_t d = 0; d < lanes_.size(); ++d) touch(ends[d]);  // Interval 0 is before everything.
}

/// Who else reads a buffer where a moved op did or does, and at its home who refers to the whole tensor.
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

/// The number of marks plus one if there is none.
std::size_t MovedStep::next_touched(std::size_t after) const {
  std::size_t word = (after + 1) >> 6;
  if (word >= touched_.size()) return history_->marks.size() + 1;
  std::uint64_t bits = touched_[word] & ~std::uint64_t{0} << ((after + 1) & 63);
  while (bits == 0 && ++word < touched_.size()) bits = touched_[word];
  if (bits == 0) return history_->marks.size() + 1;
  return word << 6 | static_cast<std::size_t>(std::countr_zero(bits));
}

/// As a whole step does; the lanes hold what is resident.
void MovedStep::begin() {
  mark_ = 0;
  hash_ = 0;
  forget_counts();
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

bool MovedStep::round_started() {
  ++rounds_;
  const std::uint32_t last = std::exchange(last_started_, kNoIndex);
  if (last == kNoIndex) return false;
  const std::size_t mark = history_->mark_of_op[last];
  if (mark == 0) return false;
  const std::size_t to = next_touched(mark) - 1;
  return to != mark && stands_as_at(mark) && jump(mark, to);
}

bool MovedStep::stands_as_at(std::size_t mark) const {
  if (hash_ != history_->marks[mark].hash) return false;
  const auto same = [&](std::int64_t end, std::int64_t left) {
    return end == kIdle ? left == kIdle : end - now_ns_ == left;
  };
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

/// The lanes' bytes are the caller's affair.
void MovedStep::stand_at(std::size_t mark) {
  mark_ = mark;
  hash_ = history_->marks[mark].hash;
  forget_counts();
  const StepHistory::LaneMark* lanes = history_->lanes.data() + mark * lanes_.size();
  const std::uint32_t* ready = history_->ready.data() + history_->marks[mark].ready;
  for (std::uint32_t d = 0; d < lanes_.size(); ++d) {
    const StepHistory::LaneMark& then = lanes[d];
    Lane& lane = lanes_[d];
    lane.op = then.op;
    lane.copy = then.copy;
    op_end(d) = then.op_left_ns == kIdle ? kIdle : now_ns_ + then.op_left_ns;
    copy_end(d) = then.copy_left_ns == kIdle ? kIdle : now_ns_ + then.copy_left_ns;
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
}

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
  if (!to_end) stand_at(to);
  return to_end;
}

void MovedStep::forget_counts() {
  if (++epoch_ != 0) return;
  for (auto* counts : {&waits_, &references_, &copy_references_})
    std::fill(counts->begin(), counts->end(), Count{});
  epoch_ = 1;
}

/// At the mark. A copy that the history never made had ended, as every copy has whose end it does not know.
bool MovedStep::is_there(std::uint32_t b, std::uint32_t device) const {
  const StepTables::Buffer& buffer = tables_.buffers[b];
  const bool home = device_of(buffer.owner) == device;
  if (home && buffer.resident) return true;
  const std::uint32_t copied = home ? 0 : history_->copy_end[b * lanes_.size() + device];
  if (copied != 0) return copied <= mark_;
  return buffer.resident ? mark_ > 0 : history_->op_end[buffer.owner] <= mark_;
}

std::uint32_t MovedStep::count_waits(std::uint32_t op) const {
  const std::uint32_t d = device_of(op);
  std::uint32_t count = 0;
  for (const std::uint32_t b : tables_.reads_of(op)) count += !is_there(b, d);
  return count;
}

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

std::uint32_t MovedStep::count_copy_references(std::uint32_t b, std::uint32_t target) const {
  const StepTables::Buffer& buffer = tables_.buffers[b];
  const bool requested =
      buffer.resident ? mark_ > 0 || !other_start_ : history_->op_end[buffer.owner] <= mark_;
  std::uint32_t count = 0;
  if (!requested) return count;
  for (const std::uint32_t reader : tables_.readers_of(b))
    count += device_of(reader) == target && history_->op_end[reader] > mark_;
  return count;
}

}  // namespace emplace::simulated
