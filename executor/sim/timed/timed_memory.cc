#include "executor/sim/timed/timed_memory.h"

#include <algorithm>

namespace emplace::simulated {
namespace {

using What = TimedEvent::What;

constexpr std::uint32_t kForever = 1u << 31;  // More references than all reads.
/// After kTries bounds in a row that did not suffice, kRest steps are accounted for without one.
constexpr std::uint32_t kTries = 4, kRest = 64;

}  // namespace

TimedMemory::TimedMemory(const StepTables& tables, const TimedIntervals& intervals)
    : tables_{tables}, intervals_{intervals} {
  references_at_start_.assign(tables.num_buffers(), 0);
  for (std::uint32_t b = 0; b < tables.num_buffers(); ++b) {
    const StepTables::Buffer& buffer = tables.buffers[b];
    references_at_start_[buffer.base] += static_cast<std::uint32_t>(tables.readers_of(b).size());
    if (buffer.resident) references_at_start_[buffer.base] |= kForever;
    held_bytes_.push_back(buffer.held_bytes);
  }
  references_ = references_at_start_;
  for (const std::uint32_t b : tables.reads) base_of_read_.push_back(tables.buffers[b].base);
  for (std::uint32_t op = 0; op < tables.num_ops(); ++op) {
    surely_freed_.push_back(tables.kernels[op].unread_bytes);
    for (const std::uint32_t b : tables.reads_of(op)) {
      const StepTables::Buffer& buffer = tables.buffers[b];
      if (references_at_start_[buffer.base] == 1)  // It frees the tensor or the copy.
        surely_freed_.back() += std::min(buffer.copy_bytes(), buffer.held_bytes);
    }
  }
  more_bytes_.assign(tables.num_devices(), 0);
  levels_.resize(tables.num_devices());
  copy_references_.assign(tables.num_buffers() * tables.num_devices(), 0);
  is_copied_.assign(tables.num_buffers() / 64 + 1, 0);
}

std::int64_t TimedMemory::bytes_over(const Step& step) {
  place_ = step.place.data();
  exact_ = false;
  if (rest_ > 0) --rest_;
  if (bounded_ && !step.recorded_place.empty() && rest_ == 0) {
    if (surely_fits(step)) {
      failures_ = 0;
      return 0;
    }
    if (++failures_ == kTries) failures_ = 0, rest_ = kRest;
  }
  exact_ = true;
  ++whole_steps_;
  account(step);
  std::int64_t over = 0;
  for (std::size_t d = 0; d < peaks_.size(); ++d)
    over +=
        std::max<std::int64_t>(0, peaks_[d].peak - tables_.devices[static_cast<DeviceId>(d)].memory_bytes);
  return over;
}

void TimedMemory::adopt(std::span<const std::uint32_t> order, bool known) {
  bounded_ = known;
  if (!known) return;
  if (!exact_) {
    more_bytes_ = new_more_bytes_;
    return;
  }
  bounds_.resize(intervals_.intervals.size() * levels_.size());
  auto from = exact_levels_.begin();
  for (const std::uint32_t interval : order)
    for (std::size_t d = 0; d < levels_.size(); ++d) bounds_[interval * levels_.size() + d] = *from++;
  std::ranges::fill(more_bytes_, 0);
}

/// Adds what moved ops can add to the levels of a recorded interval: their outputs and the copies of these,
/// and inputs that are alive for longer or at another device.
void TimedMemory::bound_more_bytes(const Step& step) {
  new_more_bytes_ = more_bytes_;
  for (const std::uint32_t op : step.moved) {
    const std::uint32_t d = device_of(op);
    new_more_bytes_[d] += tables_.kernels[op].output_bytes + tables_.lowered.resident_bytes(OpId{op});
    for (std::uint32_t b = tables_.kernels[op].first_owned; b < tables_.kernels[op + 1].first_owned; ++b) {
      std::uint32_t has_it = 1u << d;
      for (const std::uint32_t reader : tables_.readers_of(b)) {
        const std::uint32_t target = device_of(reader);
        if ((has_it >> target & 1) == 0) new_more_bytes_[target] += tables_.buffers[b].copy_bytes();
        has_it |= 1u << target;
      }
    }
    for (const std::uint32_t b : tables_.reads_of(op)) {
      const StepTables::Buffer& buffer = tables_.buffers[b];
      if (place_[buffer.owner] != step.recorded_place[buffer.owner]) continue;  // An output of a moved op.
      const std::uint32_t home = device_of(buffer.owner);
      if (!buffer.resident) new_more_bytes_[home] += buffer.held_bytes;
      if (home != d) new_more_bytes_[d] += buffer.copy_bytes();
    }
  }
}

/// Whether bounds show that the step fits. In the recorded intervals it has the levels of the recorded step,
/// but for the tensors of moved ops. In its own intervals, levels start from the mark's bound, all
/// allocations count, and releases only if they do not depend on the placement.
bool TimedMemory::surely_fits(const Step& step) {
  const std::size_t devices = levels_.size();
  bound_more_bytes(step);
  bounds_.resize(intervals_.intervals.size() * devices);
  peaks_.assign(devices, {});
  for (const std::uint32_t interval : step.order) {
    Level* const bounds = bounds_.data() + interval * devices;
    if (interval >= step.recorded_intervals) {
      const TimedIntervals::Interval& own = intervals_.intervals[interval];
      for (std::size_t d = 0; d < devices; ++d) {
        if (own.like != kNoIndex) {
          levels_[d].bytes = bounds_[own.like * devices + d].bytes + new_more_bytes_[d];
        } else if (own.last_op == kNoIndex) {
          levels_[d].bytes = step.resident_bytes[d];
        }
        bounds[d].bytes = levels_[d].bytes - new_more_bytes_[d];
      }
      begin_interval();
      for (const TimedEvent& event : intervals_.events_of(interval)) {
        if (event.what == What::kOpStart) {
          levels_[event.device].take(tables_.kernels[event.id].output_bytes);
        } else if (event.what == What::kOpEnd) {
          levels_[event.device].bytes -= surely_freed_[event.id];
        } else if (event.what == What::kCopyStart) {
          levels_[event.device].take(tables_.buffers[event.id].copy_bytes());
        }
      }
      for (std::size_t d = 0; d < devices; ++d) bounds[d].peak = levels_[d].peak - new_more_bytes_[d];
    }
    for (std::size_t d = 0; d < devices; ++d)
      peaks_[d].peak = std::max(peaks_[d].peak, bounds[d].peak + new_more_bytes_[d]);
  }
  for (std::size_t d = 0; d < devices; ++d)
    if (peaks_[d].peak > tables_.devices[static_cast<DeviceId>(d)].memory_bytes) return false;
  return true;
}

/// Computes the exact levels. References are counted from the start: a reader on another device becomes one
/// of the copy when the copy starts.
void TimedMemory::account(const Step& step) {
  for (std::size_t d = 0; d < levels_.size(); ++d) levels_[d].bytes = step.resident_bytes[d];
  std::copy(references_at_start_.begin(), references_at_start_.end(), references_.begin());
  std::ranges::fill(is_copied_, 0);
  peaks_.assign(levels_.size(), {});
  exact_levels_.clear();
  for (const std::uint32_t interval : step.order) {
    begin_interval();
    exact_levels_.insert(exact_levels_.end(), levels_.begin(), levels_.end());
    for (const TimedEvent& event : intervals_.events_of(interval)) {
      switch (event.what) {
        case What::kOpStart:
          levels_[event.device].take(tables_.kernels[event.id].output_bytes);
          break;
        case What::kOpEnd:
          release_inputs(event.id, event.device);
          break;
        case What::kCopyStart:
          start_copy(event.id, event.device);
          break;
        case What::kCopyEnd:
          end_copy(event.id);
          break;
      }
    }
    for (std::size_t d = 0; d < levels_.size(); ++d) {
      exact_levels_[exact_levels_.size() - levels_.size() + d].peak = levels_[d].peak;
      peaks_[d].peak = std::max(peaks_[d].peak, levels_[d].peak);
    }
  }
}

inline void TimedMemory::release_inputs(std::uint32_t op, std::uint32_t d) {
  const StepTables::Kernel& kernel = tables_.kernels[op];
  std::int64_t bytes = kernel.unread_bytes;
  for (std::uint32_t r = kernel.first_read; r < tables_.kernels[op + 1].first_read; ++r) {
    const std::uint32_t b = tables_.reads[r], base = base_of_read_[r];
    const bool is_copied = (is_copied_[b >> 6] >> (b & 63) & 1) != 0;
    if (is_copied && device_of(tables_.buffers[b].owner) != d) [[unlikely]] {
      if (--copy_references_[b * levels_.size() + d] == 0) bytes += tables_.buffers[b].copy_bytes();
    } else {
      bytes += --references_[base] == 0 ? held_bytes_[base] : 0;
    }
  }
  levels_[d].bytes -= bytes;
}

void TimedMemory::start_copy(std::uint32_t buffer, std::uint32_t target) {
  std::uint32_t readers = 0;
  for (const std::uint32_t reader : tables_.readers_of(buffer)) readers += device_of(reader) == target;
  copy_references_[buffer * levels_.size() + target] = readers;
  references_[tables_.buffers[buffer].base] += 1 - readers;
  is_copied_[buffer >> 6] |= std::uint64_t{1} << (buffer & 63);
  levels_[target].take(tables_.buffers[buffer].copy_bytes());
}

inline void TimedMemory::end_copy(std::uint32_t buffer) {
  const StepTables::Buffer& copied = tables_.buffers[buffer];
  if (--references_[copied.base] == 0) levels_[device_of(copied.owner)].bytes -= copied.held_bytes;
}

}  // namespace emplace::simulated
