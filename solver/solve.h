#pragma once
/// The door of the solver: a request in, an answer out.
///
///   const Request request{.graph = &graph, .machine = &machine, .budget = {5}};
///   const SystemClock clock;
///   EMPLACE_TRY_ASSIGN(const Answer answer, solve(request, {.clock = &clock}));
///
/// solver/solve.md describes how it works, and what is inelegant about it.

#include "base/result.h"
#include "executor/executor.h"
#include "solver/answer.h"
#include "solver/context.h"
#include "solver/learned_methods.h"
#include "solver/request.h"

namespace emplace {

/// Finds a placement. `model` measures placements by the request's judge, on the calling thread; other
/// threads make models of their own. `learned`: methods of floors above. Of the context it uses the clock,
/// which it needs, the bound, `stopped`, `on_method_start` and `better`; budget and threads come from the
/// request. The measurement of the answer is not valid if nothing was found that fits. Errors: kInvalid for a
/// request that cannot be answered; kNoPlacement if provably nothing fits in memory, or the method does not
/// apply; those of the model, of the method, and of `learned`.
Result<Answer> solve(const Request& request, Executor& model, const Context& context,
                     const LearnedMethods& learned = {});

/// The same with a model of the request's judge.
Result<Answer> solve(const Request& request, const Context& context);

}  // namespace emplace
