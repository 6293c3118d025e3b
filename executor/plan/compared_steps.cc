#include "executor/plan/compared_steps.h"

#include <algorithm>
#include <vector>

namespace emplace {

Verification compare_steps(const LoweredGraph& lowered, const std::function<bool(OpId)>& is_synthetic,
                           const std::function<bool(OpId, std::size_t)>& same) {
  const OpGraph& graph = lowered.graph();
  Verification out{.identical = true};
  std::vector<bool> filler(lowered.num_ops(), false);
  for (const OpId op : graph.topological_order()) {
    if (!lowered.takes_time(op)) continue;
    const bool skipped = is_synthetic(op) || std::ranges::any_of(lowered.reads(op), [&](BufferId buffer) {
                           return filler[index(lowered.owner(buffer))];
                         });
    filler[index(op)] = skipped;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      ++(skipped ? out.skipped : out.compared);
      if (skipped || !out.identical || same(op, k)) continue;
      out.identical = false;
      out.first_difference = graph.name(op);
    }
  }
  return out;
}

}  // namespace emplace
