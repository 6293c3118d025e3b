#include "executor/sim/timed_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace emplace::simulated {

bool TimedStep::supports(const StepTables& tables) {
  const DeviceSet& devices = tables.devices;
  std::size_t most_reads = 0;
  for (std::uint32_t op = 0; op < tables.num_ops(); ++op)
    most_reads = std::max(most_reads, tables.reads_of(op).size());
  return devices.is_simple() && devices.copies() == CopyEngine::kSource && devices.corun() <= 1 &&
         devices.size() <= kMostDevices && tables.num_ops() <= ReadyBits::kMost &&
         most_reads <= std::numeric_limits<std::uint16_t>::max() && tables.order.empty();
}

TimedStep::TimedStep(const StepTables& tables) : tables_{tables} {
  for (const StepTables::Kernel& kernel : tables.kernels) first_owned_.push_back(kernel.first_owned);
  for (const StepTables::Buffer& buffer : tables.buffers) first_reader_.push_back(buffer.first_reader);
  for (const std::uint32_t waits : tables.waits_at_start)
    waits_at_start_.push_back(static_cast<std::uint16_t>(waits));
  waits_ = waits_at_start_;
  requested_.assign(tables.num_buffers(), 0);
  ends_.assign(2 * tables.num_devices(), kIdle);
  lanes_.assign(tables.num_devices(), Lane{tables.num_ops()});
  sums_.assign(tables.num_devices(), {});
  // Ops start and end once, and a buffer is copied at most once for each of its readers.
  events_.resize(2 * (tables.num_ops() + tables.reads.size()));
  references_.assign(tables.num_buffers(), 0);
  copy_references_.assign(tables.num_buffers() * tables.num_devices(), 0);
  levels_.resize(tables.num_devices());
}

void TimedStep::add(std::uint32_t op, int sign) {
  Sum& sum = sums_[device_of(op)];
  if (tables_.takes_time(op)) sum.work_ns += sign * tables_.rows[device_of(op)][op];
  sum.resident_bytes += sign * tables_.lowered.resident_bytes(OpId{op});
}

/// Changes the placement, and the sums by the ops that moved.
void TimedStep::place(std::span<const DeviceId> placement) {
  if (place_.empty()) {
    place_.assign(placement.begin(), placement.end());
    for (std::uint32_t op = 0; op < place_.size(); ++op) add(op, 1);
    return;
  }
  for (std::uint32_t op = 0; op < place_.size(); ++op) {
    if (place_[op] == placement[op]) continue;
    add(op, -1);
    place_[op] = placement[op];
    add(op, 1);
  }
}

bool TimedStep::run(std::span<const DeviceId> placement, std::int64_t limit_ns) {
  place(placement);
  now_ns_ = 0;
  for (std::size_t d = 0; d < lanes_.size(); ++d) {
    if (sums_[d].work_ns > limit_ns) return false;
    lanes_[d].idle_left_ns = limit_ns - sums_[d].work_ns;
  }
  start();
  return run_rounds();
}

/// As WholeStep::start_step().
void TimedStep::start() {
  num_events_ = 0;
  awake_ = 0;
  std::ranges::fill(ends_, kIdle);
  for (Lane& lane : lanes_) {
    lane.free_since_ns = 0;
    lane.copies.clear();
    lane.ready.clear();
  }
  std::copy(waits_at_start_.begin(), waits_at_start_.end(), waits_.begin());
  for (const StepTables::StateRead& read : tables_.state_reads) {
    const std::uint32_t source = device_of(tables_.buffers[read.buffer].owner), target = device_of(read.op);
    if (source == target) continue;
    ++waits_[read.op];
    if ((requested_[read.buffer] >> target & 1) != 0) continue;
    requested_[read.buffer] |= 1u << target;
    queue_copy(source, {read.buffer, target});
  }
  for (const Lane& lane : lanes_)
    for (const Copy copy : lane.copies.waiting()) requested_[copy.buffer] = 0;
  for (const std::uint32_t op : tables_.sources) {
    if (waits_[op] != 0) continue;
    lanes_[device_of(op)].ready.insert(op);
    awake_ |= 1u << device_of(op);
  }
}

/// Returns false if the limit is out of reach.
inline bool TimedStep::start_op(std::uint32_t d) {
  Lane& lane = lanes_[d];
  lane.op = lane.ready.pop_min();
  lane.idle_left_ns -= now_ns_ - lane.free_since_ns;
  ends_[2 * std::size_t{d}] = lane.free_since_ns = now_ns_ + tables_.rows[d][lane.op];
  log(What::kOpStart, d, lane.op);
  return lane.idle_left_ns >= 0;
}

inline void TimedStep::start_copy(std::uint32_t d) {
  Lane& lane = lanes_[d];
  const Copy copy = lane.copy = lane.copies.pop();
  const std::int64_t bytes = tables_.buffers[copy.buffer].bytes;
  const std::size_t pair = d * lanes_.size() + copy.target;
  ends_[2 * std::size_t{d} + 1] =
      now_ns_ + static_cast<std::int64_t>(tables_.latency_ns[pair] +
                                          static_cast<double>(bytes) * tables_.ns_per_byte[pair]);
  log(What::kCopyStart, copy.target, copy.buffer);
}

inline void TimedStep::finish_op(std::uint32_t d) {
  const std::uint32_t op = lanes_[d].op;
  ends_[2 * std::size_t{d}] = kIdle;
  awake_ |= 1u << d;
  log(What::kOpEnd, d, op);
  const std::uint32_t* const readers = tables_.readers.data();
  for (std::uint32_t b = first_owned_[op]; b < first_owned_[op + 1]; ++b) {
    std::uint32_t copied = 1u << d;
    for (std::uint32_t r = first_reader_[b]; r < first_reader_[b + 1]; ++r) {
      const std::uint32_t reader = readers[r], target = device_of(reader);
      if (target == d) {
        satisfy(reader, d);
      } else if ((copied >> target & 1) == 0) {
        copied |= 1u << target;
        queue_copy(d, {b, target});
      }
    }
  }
}

inline void TimedStep::finish_copy(std::uint32_t d) {
  const Copy copy = lanes_[d].copy;
  ends_[2 * std::size_t{d} + 1] = kIdle;
  awake_ |= 1u << d;
  log(What::kCopyEnd, copy.target, copy.buffer);
  for (std::uint32_t r = first_reader_[copy.buffer]; r < first_reader_[copy.buffer + 1]; ++r) {
    const std::uint32_t reader = tables_.readers[r];
    if (device_of(reader) == copy.target) satisfy(reader, copy.target);
  }
}

/// The rounds of StepLoop::run_rounds(): all ends of one time, in the order of their numbers, then all
/// starts.
bool TimedStep::run_rounds() {
  const std::size_t num_ends = ends_.size();
  for (;;) {
    for (std::uint32_t bits = std::exchange(awake_, 0); bits != 0; bits &= bits - 1) {
      const auto d = static_cast<std::uint32_t>(std::countr_zero(bits));
      Lane& lane = lanes_[d];
      if (ends_[2 * std::size_t{d} + 1] == kIdle && !lane.copies.empty()) start_copy(d);
      if (ends_[2 * std::size_t{d}] == kIdle && !lane.ready.empty() && !start_op(d)) return false;
    }
    const volatile std::int64_t* ends = ends_.data();  // As in StepLoop: read one by one, without branches.
    std::int64_t next = kIdle;
    std::uint64_t due = 0;
    for (std::size_t i = 0; i < num_ends; ++i) {
      const std::int64_t end = ends[i];
      const std::uint64_t bit = std::uint64_t{1} << i;
      due = end < next ? bit : due | (end == next ? bit : 0);
      next = std::min(next, end);
    }
    if (next == kIdle) return true;
    now_ns_ = next;
    for (; due != 0; due &= due - 1) {
      const auto i = static_cast<std::uint32_t>(std::countr_zero(due));
      i % 2 == 0 ? finish_op(i / 2) : finish_copy(i / 2);
    }
  }
}

/// The references that StepLoop::finish_op() counts.
void TimedStep::hold_outputs(std::uint32_t op, std::uint32_t d) {
  for (std::uint32_t b = first_owned_[op]; b < first_owned_[op + 1]; ++b) {
    std::uint32_t wanted = 0;
    for (const std::uint32_t reader : tables_.readers_of(b)) {
      const std::uint32_t target = device_of(reader);
      wanted += target == d || copy_references(b, target)++ == 0;
    }
    references_[tables_.buffers[b].base] += wanted;
  }
}

void TimedStep::drop_reference(std::uint32_t buffer) {
  const StepTables::Buffer& dropped = tables_.buffers[buffer];
  if (dropped.resident || --references_[dropped.base] != 0) return;
  levels_[device_of(dropped.owner)].bytes -= dropped.held_bytes;
}

void TimedStep::release_inputs(std::uint32_t op, std::uint32_t d) {
  levels_[d].bytes -= tables_.kernels[op].unread_bytes;
  for (const std::uint32_t b : tables_.reads_of(op)) {
    if (device_of(tables_.buffers[b].owner) == d) {
      drop_reference(b);
    } else if (--copy_references(b, d) == 0) {
      levels_[d].bytes -= tables_.buffers[b].bytes;
    }
  }
}

std::int64_t TimedStep::bytes_over() {
  for (std::size_t d = 0; d < sums_.size(); ++d)
    levels_[d] = {sums_[d].resident_bytes, sums_[d].resident_bytes};
  for (const StepTables::StateRead& read : tables_.state_reads)
    if (device_of(tables_.buffers[read.buffer].owner) != device_of(read.op))
      ++copy_references(read.buffer, device_of(read.op));
  for (const Event& event : std::span{events_}.first(num_events_)) {
    switch (event.what) {
      case What::kOpStart:
        levels_[event.device].take(tables_.kernels[event.id].output_bytes);
        break;
      case What::kOpEnd:
        hold_outputs(event.id, event.device);
        release_inputs(event.id, event.device);
        break;
      case What::kCopyStart:
        levels_[event.device].take(tables_.buffers[event.id].bytes);
        break;
      case What::kCopyEnd:
        drop_reference(event.id);
        break;
    }
  }
  std::int64_t over = 0;
  for (std::size_t d = 0; d < levels_.size(); ++d)
    over +=
        std::max<std::int64_t>(0, levels_[d].peak - tables_.devices[static_cast<DeviceId>(d)].memory_bytes);
  return over;
}

}  // namespace emplace::simulated
