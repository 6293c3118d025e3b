#pragma once
/// Units of placement: co-location classes, or larger sets of whole classes.

#include <cstdint>
#include <vector>

#include "graph/grouping.h"
#include "graph/lowering.h"
#include "solver/method.h"

namespace emplace {

/// A plain value.
struct PlacingUnits {
  std::size_t size() const { return allowed.size(); }

  std::vector<std::uint32_t> unit_of_op;  ///< [ops]
  std::vector<DeviceMask> allowed;        ///< [units] Devices that all members may use; never empty.
  std::vector<std::int64_t> state_bytes;  ///< [units] Resident for the whole step.
  /// [units, kMoments] State and results of the unit alive at kMoments moments of a step in issue order;
  /// empty: unknown.
  std::vector<std::int64_t> live_bytes;

  static constexpr std::size_t kMoments = 64;
};

/// Fills `live_bytes`: the memory that a device commits to by taking a unit.
void find_live_bytes(PlacingUnits& units, const LoweredGraph& lowered);
/// The same at the moment of each of kMoments equal parts of the kernels when most bytes are alive.
void find_peak_bytes(PlacingUnits& units, const LoweredGraph& lowered);

/// Each class is a unit.
PlacingUnits class_units(const Problem& problem, const LoweredGraph& lowered);
/// Each group is a unit if the constraints of its classes are compatible; otherwise its classes are units.
PlacingUnits group_units(const Problem& problem, const LoweredGraph& lowered, const Grouping& groups);

/// Classes, scopes, and scopes of all time steps together, without duplicates; the last two have live bytes.
std::vector<PlacingUnits> placing_granularities(const Problem& problem, const LoweredGraph& lowered);

/// Units in which state without kernels belongs to its first reader, if both may share a device. A list
/// scheduler then sees the memory of a unit when it places the unit's first kernel. With live bytes, by
/// find_peak_bytes().
PlacingUnits units_with_state(const PlacingUnits& units, const LoweredGraph& lowered);

}  // namespace emplace
