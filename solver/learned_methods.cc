#include "solver/learned_methods.h"

#include "solver/methods.h"

namespace emplace {
namespace {

Error not_here(const std::string& what) {
  return Error{Errc::kUnsupported, what + ": is not in this program; use the program emplace"};
}

}  // namespace

bool LearnedMethods::learns(std::string_view) const { return false; }

Result<Answer> LearnedMethods::learn(const Request& request, double) const {
  return not_here(request.policy.empty() ? "method " + request.method : "--policy");
}

Result<std::unique_ptr<Method>> LearnedMethods::pretrained(const std::string&, std::uint32_t) const {
  return not_here("method pretrained");
}

std::vector<const Method*> LearnedMethods::portfolio_methods() const {
  const auto heuristics = all_methods();
  return {heuristics.begin(), heuristics.end()};
}

MoveGuide LearnedMethods::moves() const { return {}; }

}  // namespace emplace
