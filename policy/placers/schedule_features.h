#pragma once
/// Features of the units of a ScheduleWorld. All are ratios: of times to the machine's times for this graph,
/// of bytes to its memory. So they mean the same on every graph and machine.

#include <Eigen/Core>
#include <cstddef>
#include <vector>

#include "graph/lowering.h"
#include "policy/parameters.h"

namespace emplace::policy {

class ScheduleWorld;

struct ScheduleFeatures {
  static constexpr Eigen::Index kRows = 34;
  /// Row of a unit's share of the longest path.
  static constexpr Eigen::Index kPathRow = 8;

  Matrix of_unit;               ///< [kRows, units] 0 for units without kernels.
  std::vector<double> rank_ns;  ///< [kernels] Longest path to the end, with mean transfers.
  std::size_t num_choices = 0;  ///< Units that have a kernel.
};

/// @pre `world` knows its kernels, units, times, memory and traffic; `lowered` is its graph. Pure; any
/// thread.
ScheduleFeatures schedule_features(const ScheduleWorld& world, const LoweredGraph& lowered);

}  // namespace emplace::policy
