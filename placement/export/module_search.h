#pragma once
/// What an export asks of a search: which devices for whole modules.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "placement/placement.h"

namespace emplace::interop {

/// Sets of ops that keep together, and the devices that each may have.
struct ModuleChoice {
  std::span<const std::uint32_t> unit_of_op;  ///< [ops] In the order in which the forward pass enters them.
  std::size_t units = 0;
  std::vector<DeviceId> devices;  ///< Devices to choose from.
  /// Whether a reader of the map could run it: [units] devices.
  std::function<bool(std::span<const DeviceId>)> runs;
};

/// Consecutive units on one device.
struct StagePlan {
  DeviceId device{};
  std::size_t first = 0;  ///< Its first unit.
};

class ModuleSearch {
 public:
  virtual ~ModuleSearch() = default;
  /// [units] The devices with the least simulated step time that fit in memory; if none do, with the least
  /// bytes over it. Searches from `start` [units], among others. Deterministic.
  virtual Result<std::vector<DeviceId>> place(const ModuleChoice& choice,
                                              const std::vector<DeviceId>& start) = 0;
  /// The stages whose slowest one takes the least time, so that each fits in the memory of its device; if
  /// none do, with the least bytes over it. A device runs several stages only if there are fewer devices.
  /// Units are in order of execution; at most one stage per unit. Deterministic.
  virtual Result<std::vector<StagePlan>> cut(const ModuleChoice& choice, std::size_t stages) = 0;
};

}  // namespace emplace::interop
