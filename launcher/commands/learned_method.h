#pragma once
/// Methods that learn, asked for one placement by a command.

#include <string>
#include <string_view>
#include <utility>

#include "heuristics/method.h"
#include "launcher/commands/graph_options.h"
#include "launcher/console.h"
#include "launcher/session/learned.h"
#include "launcher/session/stop_signal.h"

namespace emplace::launcher {

/// True for a method that takes a run of its own. "random" is a heuristic, too, and is drawn without one.
bool is_learned(std::string_view method);

/// A request with the command's inputs; method, policy and budget are left to fill in.
/// Errors: kInvalid for a reserve that is not a share.
Result<LearnRequest> learn_request(const InputOptions& inputs, const Console& console);

/// A method that learns, as a row among heuristics: its find() runs the actors of `emplace run` for the
/// request's budget and ignores the problem's limits. A signal that ends such a run is handed to `stop`.
/// @pre `stop` outlives it.
class LearnedMethod final : public Method {
 public:
  LearnedMethod(LearnRequest request, StopSignal& stop) : request_{std::move(request)}, stop_{stop} {}
  std::string_view name() const override { return request_.method; }
  std::string_view summary() const override { return "learns for the budget"; }
  Result<Found> find(const Problem& problem, Executor& executor) const override;

 private:
  const LearnRequest request_;
  StopSignal& stop_;
};

}  // namespace emplace::launcher
