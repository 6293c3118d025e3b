#pragma once
/// Heads of a scheduler policy get better by trial: random changes of their weights, judged by the step times
/// of whole placements.

#include <cstdint>
#include <memory>
#include <vector>

#include "lab/pretrained/training_worlds.h"

namespace emplace::lab {

/// Tries random changes of each head on the same worlds, and keeps the best one of a head if its mean gain is
/// at least `evolution_certainty` standard errors. A change counts as far as it makes the best of all heads
/// better: by its gain in the soft minimum of their costs. `update`: number of the update, on which all
/// random numbers depend. Returns the mean of log(best step time of a world / that of its example). Errors:
/// those of the simulator.
Result<double> evolve_heads(policy::SchedulerPolicy& policy, const TrainRecipe& recipe,
                            const std::vector<std::unique_ptr<TrainWorld>>& worlds, unsigned threads,
                            std::uint64_t update);

}  // namespace emplace::lab
