#include "solver/learned_methods.h"

#include "solver/methods.h"

namespace emplace {

Error not_in_this_program(const std::string& what) {
  return Error{Errc::kUnsupported, what + ": is not in this program; use the program emplace"};
}

bool LearnedMethods::learns(std::string_view) const { return false; }

Result<Answer> LearnedMethods::learn(const Request& request, double) const {
  return not_in_this_program(request.policy.empty() ? "method " + request.method : "--policy");
}

Result<std::unique_ptr<Method>> LearnedMethods::pretrained(const std::string&, std::uint32_t) const {
  return not_in_this_program("method pretrained");
}

std::vector<const Method*> LearnedMethods::portfolio_methods() const {
  const auto heuristics = all_methods();
  return {heuristics.begin(), heuristics.end()};
}

MoveGuide LearnedMethods::moves() const { return {}; }

Result<Unit> check(const Request& request, const LearnedMethods& learned) {
  EMPLACE_TRY(request.check());
  if (learned.learns(request.method) && request.policy.empty() && request.budget.seconds == 0)
    return invalid("--budget", "is 0", request.method + " needs a budget above 0, or --policy");
  if (request.judge.strategy.pipelined() && learned.learns(request.method))
    return invalid("--micro-batches " + text_of_micro_batches(request.judge.strategy),
                   "is not for methods that learn",
                   "they are trained on single steps; use auto or a heuristic");
  return Unit{};
}

}  // namespace emplace
