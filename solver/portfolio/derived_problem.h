#pragma once
/// A problem about a graph that is derived from another one: renumbered, or with the ops of a memory plan.

#include <memory>
#include <span>
#include <utility>

#include "executor/split/judge.h"
#include "placement/order.h"
#include "solver/method.h"

namespace emplace {

/// Not to be moved: the problem refers to its members. `problem`, without its context, and `judge` are those
/// of the original graph. Thread: one.
class DerivedProblem {
 public:
  /// `sources`: as of derived() (placement/order.h).
  DerivedProblem(const Problem& problem, const Judge& judge, OpGraph graph, std::span<const OpId> sources)
      : graph_{std::move(graph)},
        constraints_{derived(problem.constraints, graph_, problem.devices, sources)},
        costs_{derived(problem.costs, graph_, sources)},
        model_{make_model(graph_, problem.devices, judge)},
        problem_{graph_, problem.devices, constraints_, costs_, problem.seed, problem.objective} {}
  DerivedProblem(const DerivedProblem&) = delete;
  DerivedProblem& operator=(const DerivedProblem&) = delete;

  const Problem& problem() const { return problem_; }
  Executor& model() { return *model_; }

 private:
  const OpGraph graph_;
  const Constraints constraints_;
  const CostTable costs_;
  const std::unique_ptr<Executor> model_;
  const Problem problem_;
};

}  // namespace emplace
