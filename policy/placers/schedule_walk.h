#pragma once
/// A schedule that grows kernel by kernel in issue order; a unit gets its device at its first kernel.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "placement/idle_gaps.h"
#include "placement/machine/device_mask.h"
#include "policy/placers/schedule_world.h"

namespace emplace::policy {

/// A placement to improve, and its schedule. A plain value.
struct ScheduleStart {
  std::vector<std::uint8_t> device_of_unit;  ///< [units] kNowhere for units without kernels.
  std::vector<double> latest_end_ns;         ///< [kernels] End that does not delay the step.
  std::vector<float> critical;               ///< [units] 1: any delay delays the step; 0: it has time.
  double end_ns = 0;                         ///< Step time of the schedule.
};

/// The schedule follows the simulator: one op at a time on each device, lower ids first, one queue of copies
/// per source device, one copy per buffer and target. A device is open to a unit if its state and results fit
/// beside those of the device's other units at every moment of a step. Thread: one.
class ScheduleWalk {
 public:
  static constexpr Eigen::Index kFeatures = 48;
  /// Rows of features that others refer to. "More": than on the open device with the least.
  enum Feature : std::uint8_t {
    kLater,            ///< Later end of the first kernel, in the time of the unit.
    kLaterOfAll,       ///< The same in the time of the step.
    kReadyLater,       ///< Later arrival of the inputs.
    kWait,             ///< Wait of the first kernel for the device.
    kLoaded,           ///< Time of all units on the device.
    kMoreLoad,         ///< The same, more than elsewhere.
    kCut,              ///< Transfers from and to units with a device, in the time of the unit.
    kMoreCut,          ///< The same, more than elsewhere.
    kMoreCutOfAll,     ///< The same in the time of the step.
    kLonger,           ///< How much the longest path grows.
    kSlower,           ///< Time of the unit over its least one.
    kUnitLater,        ///< Later end if all of the unit ran at once, in the time of the step.
    kStartLoad,        ///< kMoreLoad with later units where `start` has them.
    kStartCut,         ///< kMoreCutOfAll with later units where `start` has them.
    kStartOwnCut,      ///< kMoreCut with later units where `start` has them.
    kTooLate,          ///< End after the latest one in the schedule of `start`.
    kEarly,            ///< End before it.
    kLogRows,          ///< Number of the rows above, each log(1 + ratio).
    kFull = kLogRows,  ///< End of the device's kernels over that of all.
    kFrom,             ///< Share of the inputs' transfers that come from the device.
    kTo,               ///< Share of the outputs' transfers that go there, so far or in `start`.
    kLast,             ///< Whether the last unit went there.
    kLargest,          ///< Whether the largest input is there.
    kFree,             ///< Memory that would be left over that of the device.
    kUsed,             ///< Whether it has a unit.
    kSpeed,            ///< log(speed over that of the fastest device).
    kMemory,           ///< Its memory over the largest one.
    kAtStart,          ///< Whether `start` has the unit there.
    kCpu,              ///< Whether it is a CPU.
    kUsedShare,        ///< Share of the units placed so far.
    kNeeds,            ///< Memory of the unit over what is free.
    kStartFree,        ///< kFree beside later units where `start` has them.
    kStartFull,        ///< Whether that is negative.
    kPlain,  ///< Number of the rows above; the rows below are products of them with facts of the unit.
  };

  /// `start`: a placement to improve; null: none. `reserved` [devices]: memory to keep free, or
  /// below 0 to use beyond what seems to be there [B]; empty: none. `devices`: only these are open where they
  /// suffice. The world and `start` must outlive it.
  ScheduleWalk(const ScheduleWorld& world, const ScheduleStart* start, std::span<const double> reserved,
               const DeviceMask& devices);

  bool done() const { return kernel_ == world_.num_kernels(); }
  /// The unit whose device is next. @pre !done().
  std::uint32_t unit() const { return world_.unit_of(kernel_); }
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
  /// True if memory closed a device to a unit.
  bool tight() const { return tight_; }
  double end_ns() const { return static_cast<double>(end_ns_); }

  /// The schedule of a placement. Units without a device get one. @pre one device for each unit.
  static ScheduleStart replay(const ScheduleWorld& world, std::span<const std::uint8_t> device_of_unit);

 private:
  struct Option {
    double ready_ns, end_ns, cut_ns, load_ns, start_cut_ns, start_load_ns, unit_end_ns;
    double start_ns, free_bytes, start_free_bytes;
  };
  struct Scales {
    Option least;                       // The least over the open devices.
    double per_ideal, per_unit;         // One over the time of the step, and over that of the unit.
    double best_ns, end_ns, latest_ns;  // Time of the unit; end so far; latest end of the kernel in `start`.
    float critical, on_path, progress, pressure;
  };
  void advance();
  void run_kernel();
  void settle(std::size_t unit, std::size_t device);
  /// Adds a unit, where `start` has it, to the sums of units without a device, or subtracts it.
  void count_start(std::size_t unit, float sign);
  /// Finds the candidates, and the open ones among them.
  void find_open();
  void find_traffic();
  void find_options();
  Scales find_scales() const;
  void put_costs(const Scales& scales, std::size_t device, float* features) const;
  void put_device(const Scales& scales, std::size_t device, float* features) const;
  static void put_products(const Scales& scales, float* features);
  std::int64_t transfer_ns(std::size_t from, std::size_t to, double bytes) const {
    return world_.transfers().floor_ns(static_cast<DeviceId>(from), static_cast<DeviceId>(to), bytes);
  }
  std::int64_t ready_ns(std::size_t device) const;
  /// Adds the memory of a copy from its first moment to `until`.
  void hold_copy(std::size_t buffer, std::size_t device, std::size_t until);

  const ScheduleWorld& world_;
  const ScheduleStart* const start_;
  const DeviceMask preferred_;
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
  std::vector<float> start_committed_;       // [devices, moments] Of these, where `start` has them.
  std::vector<float> needed_, with_copies_;  // [moments] By the current unit; and on one device.
  std::vector<double> load_ns_;              // [devices]
  std::vector<double> start_left_ns_;        // [devices] Of units without a device, where `start` has them.
  std::vector<std::uint32_t> used_;          // [devices]
  struct Traffic {
    double bytes = 0, copies = 0, mean_ns = 0;
    void add(const ScheduleWorld::Neighbour& each) {
      bytes += static_cast<double>(each.bytes);
      copies += static_cast<double>(each.copies);
      mean_ns += static_cast<double>(each.mean_ns);
    }
  };
  std::vector<Traffic> from_, to_;              // [devices] Traffic of the current unit.
  std::vector<Traffic> start_from_, start_to_;  // [devices] With units that have no device yet.
  double all_in_ns_ = 0, all_out_ns_ = 0;       // Transfers of the current unit, wherever they end.
  std::uint8_t largest_at_ = ScheduleWorld::kNowhere;
  float pressure_ = 0, largest_ = 0;
  double most_memory_ = 1;
  std::vector<float> log_speed_;  // [devices]
  std::size_t decided_ = 0;
  std::uint8_t last_ = ScheduleWorld::kNowhere;
  std::int64_t end_ns_ = 0;
  double longest_ns_ = 0;  // Longest estimated path through the kernels so far.
  bool overflowed_ = false, tight_ = false;
};

}  // namespace emplace::policy
