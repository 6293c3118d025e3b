#pragma once
/// The answer to `emplace place`, as text and as JSON.

#include <optional>
#include <string>

#include "executor/sim/jitter.h"
#include "launcher/inputs/inputs.h"
#include "launcher/placing/placement_output.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "placement/bounds/lower_bound.h"
#include "placement/machine/cost_trust.h"
#include "solver/answer.h"
#include "solver/request.h"

namespace emplace::launcher {

/// What is printed beside an answer. What it refers to must outlive it.
struct AnswerFacts {
  const Inputs& inputs;
  const Request& request;
  const ProvenBound& bound;
  std::string executor;  ///< Kind of the executor that measured it.
  const PlacementOutput& output;
  double wall_s = 0;  ///< Time that it took [s].
  bool slower_than_single = false;
  std::optional<PipelineFacts> pipeline;
  std::optional<StepCosts> costs;  ///< The costs behind the answer's step time, if that is simulated.
  std::optional<JitteredSteps> steps, fastest_steps;  ///< Noisy steps of the answer and of its `fastest`.
};

Json answer_json(const Answer& answer, const AnswerFacts& facts);
std::string answer_text(const Answer& answer, const AnswerFacts& facts);

}  // namespace emplace::launcher
