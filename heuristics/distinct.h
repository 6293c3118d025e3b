#pragma once
/// Several good placements that differ, for measuring elsewhere.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "executor/split/judge.h"
#include "heuristics/method.h"
#include "placement/machine/device_classes.h"

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

struct DistinctOptions {
  std::size_t count = 8;   ///< Placements wanted, the first one included.
  double distance = 0.05;  ///< Least distance between any two.
  double slack = 0.02;     ///< Largest excess over the fastest.
  Nanos deadline{};
  std::function<bool()> stopped;  ///< Polled often; true ends the search.
};

/// Searches, one after the other until the deadline, for placements that are far from all earlier ones: a
/// placement that is too near costs at least 10 % more. Returns them fastest first, all within the slack; at
/// most `count`, and `first` alone if no other was found. Thread: one. Errors: kUnsupported for another
/// objective than the step time; those of the executor. @pre `first` is valid.
Result<std::vector<Found>> search_distinct(const Problem& problem, const Judge& judge, const Clock& clock,
                                           const Found& first, const DistinctOptions& options);

}  // namespace emplace
