#pragma once
/// Memory of a timed step, from the events of its intervals.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/shared/step_tables.h"
#include "executor/sim/timed/timed_intervals.h"
#include "placement/placement.h"

namespace emplace::simulated {

/// Computes by how many bytes a step exceeds the memory. Most steps of a search fit by far and share
/// intervals with a recorded step. For them it keeps bounds of the recorded levels, and adds to them what
/// moved ops can add. Only if the bounds do not show that a step fits, its whole memory is accounted for.
/// Thread: one.
class TimedMemory {
 public:
  struct Step {
    std::span<const DeviceId> place;
    /// The placement of the recorded step whose intervals it shares; empty: none.
    std::span<const DeviceId> recorded_place;
    std::span<const std::uint32_t> moved;          ///< Ops that differ from it.
    std::span<const std::uint32_t> order;          ///< Its intervals.
    std::uint32_t recorded_intervals;              ///< Lower numbers are those of recorded steps.
    std::span<const std::int64_t> resident_bytes;  ///< [devices]
  };

  TimedMemory(const StepTables& tables, const TimedIntervals& intervals);

  /// Bytes of the step's peaks over the devices' memory.
  std::int64_t bytes_over(const Step& step);
  /// The step becomes the recorded one. `known`: it is that of the last bytes_over().
  void adopt(std::span<const std::uint32_t> order, bool known);
  /// How often all memory of a step was accounted for.
  std::uint64_t whole_steps() const { return whole_steps_; }

 private:
  /// Bytes allocated on a device.
  struct Level {
    std::int64_t bytes = 0, peak = 0;
    void take(std::int64_t more) {
      bytes += more;
      peak = std::max(peak, bytes);
    }
  };

  void bound_more_bytes(const Step& step);
  bool surely_fits(const Step& step);
  void account(const Step& step);
  void release_inputs(std::uint32_t op, std::uint32_t d);
  void start_copy(std::uint32_t buffer, std::uint32_t target);
  void end_copy(std::uint32_t buffer);
  void begin_interval() {
    for (Level& level : levels_) level.peak = level.bytes;
  }
  std::uint32_t device_of(std::uint32_t op) const { return static_cast<std::uint32_t>(index(place_[op])); }

  const StepTables& tables_;
  const TimedIntervals& intervals_;
  const DeviceId* place_ = nullptr;                 // [ops]
  std::vector<std::uint32_t> base_of_read_;         // [reads]
  std::vector<std::int64_t> held_bytes_;            // [buffers]
  std::vector<std::uint32_t> references_at_start_;  // [buffers] Readers of the tensor, kept by its base.
  std::vector<std::int64_t> surely_freed_;          // [ops] Bytes that an op's end frees wherever ops are.

  // Bounds, to which more_bytes_ are added, of the recorded intervals and of the last step's own ones.
  std::vector<Level> bounds_;                              // [intervals, devices]
  std::vector<std::int64_t> more_bytes_, new_more_bytes_;  // [devices]
  bool bounded_ = false;                                   // The recorded intervals have bounds.
  bool exact_ = false;                                     // The last step has exact levels.
  std::uint32_t failures_ = 0, rest_ = 0;                  // Bounds that did not suffice; steps without one.
  std::uint64_t whole_steps_ = 0;

  std::vector<Level> levels_, peaks_;           // [devices] Now; over the step.
  std::vector<Level> exact_levels_;             // [intervals of the step, devices]
  std::vector<std::uint32_t> references_;       // [buffers]
  std::vector<std::uint32_t> copy_references_;  // [buffers, devices] Of copies that have started.
  std::vector<std::uint64_t> is_copied_;        // [buffers] Bits.
};

}  // namespace emplace::simulated
