#pragma once
/// Estimates for sets of ops that keep together: times, traffic and memory.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "placement/export/module_search.h"
#include "solver/method.h"
#include "solver/partitioners/placing_units.h"

namespace emplace {

/// A plain value, but for what it refers to.
class UnitCosts {
 public:
  UnitCosts(const Problem& problem, const interop::ModuleChoice& choice);

  std::size_t units() const { return units_.size(); }
  /// Whether constraints and rules permit the device. A unit whose ops have none in common may be where most
  /// of them may be.
  bool allows(std::size_t unit, DeviceId device) const { return units_.allowed[unit].test(index(device)); }
  /// Times of a unit's ops by phase [ns]. The forward pass and the backward one go from unit to unit; updates
  /// run while others do.
  struct Times {
    std::int64_t forward = 0, backward = 0, update = 0;
    std::int64_t sum() const { return forward + backward + update; }
  };
  const Times& times(std::size_t unit, DeviceId device) const { return times_[unit][index(device)]; }
  /// What units read of one another, each pair once, the first with the lower number.
  struct Traffic {
    std::uint32_t first, second;
    std::int64_t bytes, transfers;  ///< Both directions together.
  };
  std::span<const Traffic> traffic() const { return traffic_; }
  /// Time of the pair's transfers [ns]; 0 on one device.
  std::int64_t transfer_ns(const Traffic& pair, DeviceId a, DeviceId b) const;
  /// Bytes alive of a unit at kMoments moments of a step.
  std::span<const std::int64_t> live(std::size_t unit) const {
    return {&units_.live_bytes[unit * kMoments], kMoments};
  }
  std::int64_t capacity(DeviceId device) const { return problem_.devices[device].memory_bytes; }
  /// Whether other units run between the forward ops of this one.
  bool is_spread(std::size_t unit) const { return spread_[unit]; }

  /// Updates that are left on each device [ns], when a unit's backward pass is over.
  static void pass(const Times& times, std::size_t device, std::span<std::int64_t> updates) {
    for (std::size_t d = 0; d < updates.size(); ++d)
      if (d != device) updates[d] = std::max<std::int64_t>(0, updates[d] - times.backward);
    updates[device] += times.update;
  }
  /// Estimated time of a map ([units]): the units one after the other, then the updates that are left.
  std::int64_t time_ns(std::span<const DeviceId> devices) const;
  /// Estimated bytes of a map over the memory.
  std::int64_t bytes_over(std::span<const DeviceId> devices) const;

  static constexpr std::size_t kMoments = PlacingUnits::kMoments;

 private:
  void find_allowed(const interop::ModuleChoice& choice);
  void find_traffic(const LoweredGraph& lowered);
  void find_spread();

  const Problem& problem_;
  PlacingUnits units_;
  std::vector<std::vector<Times>> times_;  // [units][devices]
  std::vector<Traffic> traffic_;
  std::vector<bool> spread_;  // [units]
};

}  // namespace emplace
