#include "launcher/commands/learned_method.h"

#include <algorithm>

#include "policy/placers/registry.h"

namespace emplace::launcher {

bool is_learned(std::string_view method) {
  const auto all = policy::methods();
  return method != "random" && std::find(all.begin(), all.end(), method) != all.end();
}

Result<LearnRequest> learn_request(const InputOptions& inputs, const Console& console) {
  LearnRequest request;
  request.graph = inputs.graph;
  request.reading = inputs.reading;
  request.devices = inputs.devices;
  request.rules = inputs.rules;
  request.objective = inputs.objective;
  request.dispatch = inputs.dispatch;
  request.seed = console.seed();
  request.quiet = !console.shows_progress();
  if (!inputs.reserve.empty()) {
    EMPLACE_TRY_ASSIGN(request.reserve, parse_reserve(inputs.reserve));
  }
  return request;
}

Result<Found> LearnedMethod::find(const Problem&, Executor&) const {
  auto learned = place_by_learning(request_);
  // While it ran, the run's own handlers were in place, which end with it.
  stop_.take_over(learned && learned->status > 128 ? learned->status - 128 : 0);
  if (!learned) return learned.error();
  return std::move(learned->found);
}

}  // namespace emplace::launcher
