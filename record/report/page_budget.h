#pragma once
/// Limits on the graph data in a page.

#include <algorithm>
#include <cstddef>

#include "placement/schedule.h"
#include "record/report/step_json.h"

namespace emplace::record {

/// Limits for all graphs of a page together; reduced until the page fits.
struct PageBudget {
  std::size_t blocks = 200'000, name_bytes = 2'000'000, scopes = 3'000, edges = 12'000,
              memory_levels = 12'000;
};

/// Distributes the remaining budget, so that the first graphs do not starve the last.
class BudgetShares {
 public:
  BudgetShares(PageBudget budget, std::size_t graphs)
      : left_{budget}, graphs_{std::max<std::size_t>(graphs, 1)} {}
  const PageBudget& left() const { return left_; }
  std::size_t part(std::size_t of) const { return of / graphs_; }
  StepBudget step(const Schedule& schedule) {
    const std::size_t steps = 2 * graphs_;
    const std::size_t even = left_.blocks / steps;
    // The first graph takes what it needs, as long as something remains for the others.
    const std::size_t others = std::min<std::size_t>(even, 4'000) * (steps - taken_ - 1);
    StepBudget budget{std::min(blocks_of(schedule), left_.blocks > others ? left_.blocks - others : 0),
                      left_.name_bytes, left_.memory_levels / steps};
    left_.blocks -= std::min(left_.blocks, budget.blocks);
    taken_ = std::min(taken_ + 1, steps - 1);
    return budget;
  }
  void names_left(std::size_t bytes) { left_.name_bytes = bytes; }

 private:
  PageBudget left_;
  std::size_t graphs_, taken_ = 0;
};

}  // namespace emplace::record
