#pragma once
/// What floors above the solver add to it: methods that learn, and a policy that arrives trained.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "solver/answer.h"
#include "solver/context.h"
#include "solver/request.h"

namespace emplace {

class Method;

/// The refusal of what only a larger program has (kUnsupported).
Error not_in_this_program(const std::string& what);

/// The base class has no methods: it refuses by name what learns, and the solver works without it. Thread:
/// one.
class LearnedMethods {
 public:
  virtual ~LearnedMethods() = default;
  /// Whether a method takes a run of its own.
  virtual bool learns(std::string_view method) const;
  /// Places by the request's method or policy: learns for `budget_s`, or with 0 s places at once by the
  /// policy. The methods choose devices; for each placement that does not fit, the decisions about memory
  /// that the request allows follow. @pre check_plannable(), if it allows any. Errors: kInvalid for
  /// incompatible inputs, method or policy; kNoPlacement; kRunFailed.
  virtual Result<Answer> learn(const Request& request, double budget_s) const;
  /// The method `pretrained`. `weights`: a file of weights or a run of scheduler; empty: those in the
  /// program. Errors: kInvalid for weights that cannot be read.
  virtual Result<std::unique_ptr<Method>> pretrained(const std::string& weights, std::uint32_t samples) const;
  /// The methods that `auto` runs before its searches.
  virtual std::vector<const Method*> portfolio_methods() const;
  /// Moves that a trained policy proposes to the searches of `auto`; empty: tree moves.
  virtual MoveGuide moves() const;
};

/// Errors (kInvalid): those of Request::check(); a method that learns without time to.
Result<Unit> check(const Request& request, const LearnedMethods& learned);

}  // namespace emplace
