#pragma once
/// Worlds that the training of a scheduler policy learns from.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/lowering.h"
#include "lab/pretrained/training.h"
#include "launcher/inputs/inputs.h"
#include "placement/machine/cost_model.h"
#include "policy/placers/scheduler.h"
#include "solver/method.h"

namespace emplace::lab {

/// A graph on a machine to learn from. Not to be moved: what is made of it keeps references.
struct TrainWorld {
  explicit TrainWorld(launcher::Inputs given);
  TrainWorld(const TrainWorld&) = delete;
  TrainWorld& operator=(const TrainWorld&) = delete;
  Problem problem() const { return {inputs.graph, inputs.devices, inputs.constraints, costs}; }
  /// Logarithm of the step time, with a penalty if the placement does not fit.
  Result<double> cost(const policy::ScheduleWorld& world, const policy::SchedulerDrawn& drawn);

  const launcher::Inputs inputs;
  const CostTable costs;
  const LoweredGraph lowered;
  Simulator simulator;
  Measurement measurement;
  std::vector<policy::ScheduleWorld> worlds;       // One per granularity.
  std::vector<std::vector<std::uint8_t>> example;  // [worlds][units]
  double example_s = 0;
};

/// Calls `work(i)` for each i below `count` on several threads. Errors: the one of the lowest i.
Result<Unit> for_each(std::size_t count, unsigned threads,
                      const std::function<Result<Unit>(std::size_t)>& work);

/// The worlds that the patterns name, each with an example: the best placement of the heuristics, improved by
/// annealing. Leaves out graphs with more than TrainRecipe::max_ops ops and worlds without a placement that
/// fits. Examples are kept in `folder`. `what`: names the worlds in progress. Errors: kInvalid for a pattern
/// without files; those of the readers.
Result<std::vector<std::unique_ptr<TrainWorld>>> open_training_worlds(
    const std::vector<std::string>& patterns, const TrainRecipe& recipe, const std::filesystem::path& folder,
    unsigned threads, const char* what, const TrainEvents& events);

}  // namespace emplace::lab
