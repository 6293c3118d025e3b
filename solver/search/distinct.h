#pragma once
/// Several good placements that differ, for measuring elsewhere.

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "placement/machine/device_classes.h"
#include "solver/method.h"
#include "solver/request.h"

namespace emplace {

/// How far placements of one problem are from each other.
class PlacementDistance {
 public:
  explicit PlacementDistance(const Problem& problem);
  /// Share of the work (op times on the first fast device) that is on another device, in [0, 1]. Devices with
  /// equal op times and memory are renamed first, so that the larger shares of work agree (greedily): two
  /// placements that only exchange equal devices have distance 0.
  double between(std::span<const DeviceId> a, std::span<const DeviceId> b) const;

 private:
  std::vector<double> weight_;  // [ops] Sum 1.
  DeviceClasses classes_;
};

/// Searches, one after the other until the deadline of the problem's context, for placements that are far
/// from all earlier ones: a placement that is too near costs at least 10 % more. Returns them fastest first,
/// all within the slack of the request; at most `best_of`, and `first` alone if no other was found. Thread:
/// one. Errors: kUnsupported for another objective than the step time; those of the executor. @pre `first` is
/// valid.
Result<std::vector<Answer>> search_distinct(const Problem& problem, const Request& request,
                                            const Answer& first);

}  // namespace emplace
