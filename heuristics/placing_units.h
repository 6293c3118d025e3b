#pragma once
/// What is placed as a whole: co-location classes, or larger sets that keep them whole.

#include <cstdint>
#include <vector>

#include "graph/grouping.h"
#include "graph/lowering.h"
#include "heuristics/method.h"

namespace emplace {

/// A plain value.
struct PlacingUnits {
  std::size_t size() const { return allowed.size(); }

  std::vector<std::uint32_t> unit_of_op;  ///< [ops]
  std::vector<DeviceMask> allowed;        ///< [units] devices that all members may use; never empty
  std::vector<std::int64_t> state_bytes;  ///< [units] resident for the whole step
  /// [units, kMoments] state and results of the unit that live at so many moments of a step in issue order;
  /// empty: not known.
  std::vector<std::int64_t> live_bytes;

  static constexpr std::size_t kMoments = 64;
};

/// Fills `live_bytes`: what a device is in for that takes the unit.
void find_live_bytes(PlacingUnits& units, const LoweredGraph& lowered);

/// Each class a unit.
PlacingUnits class_units(const Problem& problem, const LoweredGraph& lowered);
/// Each group a unit, as far as the constraints of its classes agree; the others stay classes.
PlacingUnits group_units(const Problem& problem, const LoweredGraph& lowered, const Grouping& groups);

/// Classes, scopes, and scopes of all time steps together, as far as they differ; the last two know their
/// live bytes.
std::vector<PlacingUnits> placing_granularities(const Problem& problem, const LoweredGraph& lowered);

}  // namespace emplace
