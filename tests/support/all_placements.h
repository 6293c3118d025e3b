#pragma once
/// Every placement of a small graph that obeys its constraints, for comparison with proofs.

#include <cstddef>

#include "placement/placement.h"

namespace emplace::testing {

/// Calls `visit(placement)` for each. @pre devices ^ classes is small.
template <class Visit>
void for_each_placement(std::size_t num_devices, const Constraints& constraints, Visit visit) {
  const std::size_t num_classes = constraints.num_classes();
  std::vector<std::size_t> device(num_classes, 0);
  Placement placement(constraints.classes().size());
  for (;;) {
    bool obeys = true;
    for (std::uint32_t c = 0; c < num_classes && obeys; ++c) obeys = constraints.allowed(c).test(device[c]);
    if (obeys) {
      for (std::size_t op = 0; op < placement.size(); ++op)
        placement[op] = static_cast<DeviceId>(device[constraints.classes()[op]]);
      visit(placement);
    }
    std::size_t digit = 0;  // Counts up in base `num_devices`.
    while (digit < num_classes && device[digit] + 1 == num_devices) device[digit++] = 0;
    if (digit == num_classes) return;
    ++device[digit];
  }
}

}  // namespace emplace::testing
