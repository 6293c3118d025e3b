#pragma once
/// A schedule that grows kernel by kernel in issue order; a unit gets its device at its first kernel.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/idle_gaps.h"
#include "policy/placers/schedule_world.h"

namespace emplace::policy {

/// The schedule follows the simulator: one op at a time on each device, lower ids first, one queue of copies
/// per source device, one copy per buffer and target. A device is open to a unit if its state and results fit
/// beside those of the device's other units at every moment of a step. Thread: one.
class ScheduleWalk {
 public:
  static constexpr Eigen::Index kFeatures = 28;
  /// Rows of features that others refer to.
  static constexpr Eigen::Index kLater = 0, kLaterOfAll = 1, kCut = 9, kLoad = 6, kAtStart = 21;

  /// `start` [units]: a placement to improve; empty: none. `reserved` [devices]: memory to keep free
  /// [B]; empty: none.
  /// The world must outlive it.
  ScheduleWalk(const ScheduleWorld& world, std::span<const std::uint8_t> start,
               std::span<const double> reserved);

  bool done() const { return kernel_ == world_.unit_of_kernel_.size(); }
  /// The unit whose device is next. @pre !done().
  std::uint32_t unit() const { return world_.unit_of_kernel_[kernel_]; }
  /// Finds the open devices and their features.
  void evaluate();
  std::span<const std::uint8_t> open() const { return open_; }
  /// [kFeatures, open]
  Eigen::Ref<const Matrix> features() const {
    return features_.leftCols(static_cast<Eigen::Index>(open_.size()));
  }
  /// @pre evaluate() found the device open, or it is allowed and is meant to overflow.
  void take(std::size_t device);

  /// [units] kNowhere for units without kernels.
  const std::vector<std::uint8_t>& device_of_unit() const { return device_of_unit_; }
  /// True if a unit fitted on no device.
  bool overflowed() const { return overflowed_; }
  double end_ns() const { return static_cast<double>(end_ns_); }

 private:
  struct Option {
    std::int64_t ready_ns, start_ns, end_ns;
    double cut_ns, load_ns, free_bytes;
    bool fits;
  };
  void advance();
  void run_kernel();
  void settle(std::size_t unit, std::size_t device);
  std::int64_t transfer_ns(std::size_t from, std::size_t to, double bytes) const {
    const std::size_t pair = from * devices_ + to;
    return static_cast<std::int64_t>(world_.latency_ns_[pair] + bytes * world_.ns_per_byte_[pair]);
  }
  std::int64_t ready_ns(std::size_t device) const;
  /// Adds the memory of a copy from its first moment to `until`.
  void hold_copy(std::size_t buffer, std::size_t device, std::size_t until);

  const ScheduleWorld& world_;
  const std::vector<std::uint8_t> start_;
  const std::size_t devices_;
  std::size_t kernel_ = 0;
  std::vector<std::uint8_t> open_, candidates_;
  Matrix features_;
  std::vector<Option> options_;  // [devices]
  std::vector<std::uint8_t> device_of_unit_;
  std::vector<std::int64_t> end_of_kernel_;  // [kernels]
  std::vector<std::int64_t> arrival_ns_;     // [buffers, devices] -1: no copy.
  std::vector<std::uint16_t> held_until_;    // [buffers, devices] First moment without the copy.
  std::vector<IdleGaps> busy_, engines_;     // [devices]
  std::vector<float> limit_, committed_;     // [devices], [devices, moments]
  std::vector<float> left_;                  // [moments] Of units without a device.
  std::vector<float> needed_, with_copies_;  // [moments] By the current unit; and on one device.
  std::vector<double> load_ns_;              // [devices]
  std::vector<std::uint32_t> used_;          // [devices]
  struct Traffic {
    double bytes = 0, copies = 0, mean_ns = 0;
  };
  std::vector<Traffic> from_, to_;  // [devices] Of the current unit.
  std::size_t decided_ = 0;
  std::uint8_t last_ = ScheduleWorld::kNowhere;
  std::int64_t end_ns_ = 0;
  double longest_ns_ = 0;  // Longest estimated path through the kernels so far.
  bool overflowed_ = false;
};

}  // namespace emplace::policy
