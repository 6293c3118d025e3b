#pragma once
/// What a search for a placement found.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/memory_plan.h"
#include "graph/order.h"
#include "placement/measurement.h"
#include "placement/placement.h"
#include "placement/strategy.h"

namespace emplace {

/// A better placement: the method that found it, and when.
struct Finding {
  std::string method;
  double seconds = 0;  ///< The objective of the placement, as measured by the judge [s].
  double at_s = 0;     ///< Time since the start of the search [s].
};

/// The best valid placement that was found, or the one closest to valid (fewest bytes over) if none fits.
/// A plain value.
struct Answer {
  Placement placement;      ///< [ops] Obeys the constraints; empty if the method transforms the graph.
  Measurement measurement;  ///< Measurement of that placement, in `order`.
  std::uint64_t evaluations = 0;
  /// Remarks to print with the result, such as whether it is optimal; usually empty.
  std::vector<std::string> notes;
  std::string method;             ///< The method that found it.
  std::vector<Finding> findings;  ///< Each one better than the previous.

  /// What is recomputed and moved; empty unless that was allowed. The measurement is that of the plan's
  /// graph, and `order` an order of it.
  MemoryPlan plan;
  std::optional<Strategy> strategy;  ///< What a search over strategies chose.
  OpOrder order;                     ///< Order in which devices take ready ops; empty: the issue order.
  Measurement issue;                 ///< The same placement in issue order, after a search for orders.
  double issue_seconds = 0;  ///< Best step time in issue order, after a search for orders; 0: none fits [s].

  /// The objective of each placement of a policy's greedy pass, its start first; infinite if it does not fit
  /// [s]. Empty unless requested.
  std::vector<double> pass_s;

  std::vector<Answer> others;   ///< Further placements that differ from it, fastest first.
  std::vector<Answer> fastest;  ///< The fastest placement without noise, beside a robust answer. At most one.
  int status = 0;               ///< 130 or 143 if a signal ended a run that learned.
};

}  // namespace emplace
