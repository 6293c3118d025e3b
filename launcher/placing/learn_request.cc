#include "launcher/placing/learn_request.h"

namespace emplace::launcher {

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

}  // namespace emplace::launcher
