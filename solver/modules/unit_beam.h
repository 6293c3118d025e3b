#pragma once
/// Maps of units that look good by their estimates.

#include <vector>

#include "placement/export/module_search.h"
#include "solver/modules/unit_costs.h"

namespace emplace {

/// How units are put on devices, one after the other, from the last one on.
struct UnitBeam {
  bool contiguous = false;  ///< A device that was left is not used again, but for units that are spread.
  double memory = 1;        ///< Share of each device's memory that may be used.
  std::size_t kept = 4;     ///< Best maps so far that are kept per set of devices in use and last device.
};

/// Maps ([units] each) with the least estimated times among those that fit by their estimates, best first.
/// O(units · devices · kept · sets of devices).
std::vector<std::vector<DeviceId>> beam_maps(const UnitCosts& costs, const interop::ModuleChoice& choice,
                                             const UnitBeam& beam);

}  // namespace emplace
