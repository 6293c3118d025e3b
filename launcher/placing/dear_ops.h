#pragma once
/// The ops of a placement that take longest: `emplace explain --costs`.

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/inputs/inputs.h"
#include "launcher/terminal/json_text.h"
#include "placement/costs/kernel_shape.h"
#include "placement/machine/cost_trust.h"

namespace emplace::launcher {

/// The dearest ops of some, longest first. What it is made from must outlive it.
class DearOps {
 public:
  /// `ops`: which to look at; empty: all. `most`: how many to keep.
  DearOps(const Inputs& inputs, const Placement& placement, std::vector<OpId> ops, std::size_t most);
  std::string as_text() const;
  /// {graph, costs, items: [{op, type, device, time_s, share, kernels, arithmetic, utilisation, source,
  /// error}], not_shown}; utilisation is null if the time was measured.
  Json as_json() const;

 private:
  struct Row {
    OpId op;
    OpTime cost;
  };
  std::string kernels_of(OpId op) const;

  const Inputs& inputs_;
  const Placement& placement_;
  const KernelShapes shapes_;
  StepCosts step_;
  std::vector<Row> rows_;
  std::size_t not_shown_ = 0;
  double all_us_ = 0;  ///< The time of all ops of the placement.
};

}  // namespace emplace::launcher
