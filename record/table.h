#pragma once
/// The comparison table as people read it.

#include <cstdint>
#include <string>
#include <vector>

#include "placement/measurement.h"

namespace emplace::record {

/// One method's answer.
struct TableRow {
  std::string method;
  bool found = false;  ///< False: `note` says why there is nothing.
  Measurement measurement;
  std::uint64_t evaluations = 0;
  double wall_s = 0;
  std::string note;               ///< Why it does not fit, or what must be said with it.
  bool transforms_graph = false;  ///< Of another graph that does the same work: never the best.
};

/// Rows in the order given, the fastest valid one marked (where something was measured, of what was measured,
/// and a column says which is which); gap is (step time / bound − 1). Lines end in '\n'; no control
/// characters. `device_names` head the memory columns, `value` what is compared.
std::string render_table(const std::vector<TableRow>& rows, double lower_bound_s,
                         const std::vector<std::string>& device_names,
                         const std::string& value = "step time");

}  // namespace emplace::record
