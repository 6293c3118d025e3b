#include "placement/bounds/proven_bound.h"

#include "placement/bounds/lower_bound.h"
#include "placement/bounds/split_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/split_costs.h"

namespace emplace {

ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         Objective objective) {
  if (objective != Objective::kStepTime) {
    const SplitBound bound = split_bound(SplitCosts{graph, devices}, constraints, objective);
    return {bound.seconds, word_of(bound.proof)};
  }
  const LowerBound bound = lower_bound(graph, devices, constraints, CostTable{graph, devices});
  return {bound.seconds(), bound.which()};
}

}  // namespace emplace
