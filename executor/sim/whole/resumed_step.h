#pragma once
/// Whole steps that resume from the point where the placement first has a different effect than the previous
/// one. Suited to walks that keep every move and whose moves change most of the remaining step.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/sim/whole/simulated_step.h"

namespace emplace::simulated {

/// Stores snapshots of all counts at a few points of the last step. Thread: one.
class ResumedStep final : public WholeStep<ResumedStep> {
 public:
  ResumedStep(const StepTables& tables, Dispatch dispatch);
  void run(std::span<const DeviceId> placement);

 private:
  friend class StepLoop<ResumedStep>;
  /// State of a step after everything that could start has started.
  struct Snapshot {
    explicit Snapshot(const StepTables& tables) : links{tables.routes} {}
    std::size_t started = 0;  // Number of kernels started; 0: no snapshot.
    std::int64_t now_ns = 0, bytes_moved = 0;
    std::vector<Lane> lanes;  // Memory levels without resident bytes.
    std::vector<std::int64_t> ends;
    LinkQueues links;
    std::vector<std::uint32_t> waits, references, copy_references;
  };

  void op_ready(std::uint32_t, std::uint32_t) {}
  void op_started(std::uint32_t d) {
    end_ns_[lanes_[d].op] = op_end(d);
    ++started_;
  }
  void op_ended(std::uint32_t) {}
  void copy_queued(std::uint32_t, const Copy&) {}
  void copy_started(std::uint32_t) {}
  void copy_ended(const Copy&) {}
  bool round_started() {
    if (started_ >= next_snapshot_) take_snapshot();
    return false;
  }
  std::size_t stride() const { return tables_.lowered.kernels().size() / (snapshots_.size() + 1) + 1; }
  void expect_snapshot();
  void take_snapshot();
  void restore(const Snapshot& from);
  const Snapshot* common_past(std::span<const DeviceId> placement) const;
  std::int64_t first_effect_ns(std::span<const DeviceId> placement, std::uint32_t op) const;

  std::vector<DeviceId> previous_;            // [ops] Empty: no previous step.
  std::vector<std::int64_t> end_ns_;          // [ops] End of each kernel.
  std::vector<std::int64_t> resident_bytes_;  // [devices]
  std::vector<Snapshot> snapshots_;           // Sorted by time.
  std::size_t started_ = 0, next_snapshot_ = 0;
  std::size_t unused_ = 0;  // Number of steps since one was resumed.
};

}  // namespace emplace::simulated
