#include "solver/request.h"

#include <array>

#include "base/text/words.h"

namespace emplace {
namespace {

constexpr std::uint32_t kMostSamples = 100'000, kMostOrders = 1'000'000'000, kMostThreads = 256,
                        kMostPlacements = 64;

/// `option` changes what `auto` does within its budget.
Result<Unit> check_auto(const Request& request, const std::string& option) {
  if (request.method != "auto")
    return invalid(option, "needs --method auto", "remove --method " + printable(request.method, 40));
  if (!request.policy.empty() && !request.has_budget())
    return invalid(option, "needs a budget beside --policy", "add --budget 30s");
  return Unit{};
}

/// Searches for orders and memory plans know one model of a step only.
Result<Unit> check_allowed(const Request& request) {
  EMPLACE_TRY_ASSIGN(const Allowed words, parse_allowed(request.allow));
  const Allowed allowed = request.allowed();
  if (allowed == Allowed{}) return Unit{};
  const std::string option =
      words == Allowed{} ? "--order search" : "--allow " + printable(request.allow, 40);
  if (request.judge.objective != Objective::kStepTime)
    return invalid(option, "needs --objective step-time", "other objectives have neither order nor memory");
  if (request.judge.simulator.dispatch != Dispatch::kProgram)
    return invalid(option, "needs --dispatch program", "fifo takes ops in no order of its own");
  if (request.judge.placeto)
    return invalid(option, "needs --executor sim",
                   "Placeto's simulator has an order of its own, and no memory");
  // Methods choose devices; what else is decided then concerns memory alone.
  return allowed.order ? check_auto(request, option) : Unit{};
}

/// `option` changes the most likely placement of a policy.
Result<Unit> check_zero_shot(const Request& request, const std::string& option) {
  if (request.policy.empty()) return invalid(option, "needs a policy", "add --policy RUN");
  if (request.has_budget() || request.samples != 0)
    return invalid(option, "is for zero-shot placements", "remove --budget and --samples");
  return Unit{};
}

/// Robust placements, and placements that differ.
Result<Unit> check_several(const Request& request) {
  if (!request.robust && request.best_of == 1) return Unit{};
  const std::string option = request.robust ? "--robust" : "--best-of";
  if (request.robust && request.best_of > 1)
    return invalid("--robust", "searches for one placement", "remove --best-of, or --robust");
  if (request.judge.objective != Objective::kStepTime)
    return invalid(option, "needs --objective step-time", "it simulates steps");
  if (request.allowed() != Allowed{})
    return invalid(option, "needs --order issue and no --allow", "it searches for placements in issue order");
  return check_auto(request, option);
}

/// Steps of several micro-batches are known to the searches of placements alone.
Result<Unit> check_micro_batches(const Request& request) {
  EMPLACE_TRY(check_strategy(request.judge));
  if (!request.judge.strategy.pipelined()) return Unit{};
  const std::string option = "--micro-batches " + text_of_micro_batches(request.judge.strategy);
  if (request.allowed().order || request.allowed().offload)
    return invalid(option, "has no search for orders or moved tensors",
                   "use --allow recompute, or remove --allow");
  if (request.allowed().memory() && request.method != "auto")
    return invalid(option, "has memory plans in auto alone", "remove --allow, or --method");
  if (request.searches_replicas() && request.method != "auto")
    return invalid(request.strategies ? "--strategy" : "--replicas", "is for auto", "remove --method");
  if (request.robust || request.best_of > 1 || request.noise)
    return invalid(option, "has no noise and no search for several placements",
                   "remove --robust, --best-of and --jitter");
  if (!request.policy.empty() || !request.weights.empty() || request.method == "pretrained")
    return invalid(option, "is not for policies",
                   "they are trained on single steps; use auto or a heuristic");
  return Unit{};
}

}  // namespace

Allowed Request::allowed() const {
  const auto words = parse_allowed(allow);
  Allowed allowed = words ? *words : Allowed{};
  allowed.order = allowed.order || order == Ordering::kSearch;
  return allowed;
}

void Request::list(Settings& s) {
  s.add("method", method,
        "Method: any heuristic or learned method, or auto (all heuristics, then searches from the best)");
  s.add("budget", budget, between(-1, 1e8),
        "Time for auto, a search or learning, e.g. 60s (default: 30s; one search: a fixed number of "
        "placements; --policy: 0s)");
  s.add("policy", policy,
        "Use the policy of this run: zero-shot, or fine-tuned for --budget; with auto and --budget "
        "it gives the first placement");
  s.add("samples", samples, between(0, kMostSamples),
        "Episodes that --policy, or placements that pretrained, samples and measures in addition to "
        "its most likely placement");
  s.add("weights", weights, at_least(1),
        "Weights for pretrained: a file by emplace train, or a run of scheduler (default: those in the "
        "program)");
  s.add("unseen-order", unseen_order, between(-1, kMostOrders),
        "Zero-shot by --policy in random order N of the groups, one that no policy is trained in");
  s.add("pass", pass,
        "Zero-shot by --policy of placeto, with every placement on the way to the most likely one measured; "
        "the answer is the best of them, and --json has all step times (pass_s), the start's first");
  s.add("order", order,
        "Order in which devices take ready ops: issue, or search (auto also searches for an order, "
        "and writes it to the placement file)");
  s.add("allow", allow,
        "What may be decided besides the devices: recompute (ops that run again for the backward pass), "
        "offload "
        "(tensors that wait on another device), order (as --order search); several with commas, all, or none "
        "(default: none; without this option, what would make a graph fit is tried if nothing fits)");
  s.add("best-of", best_of, between(1, kMostPlacements),
        "auto also searches for placements that differ from its answer, N in all, each at most 2 % "
        "slower; written beside the -o file as NAME-2.json and so on (default: 1)");
  s.add("robust", robust,
        "auto searches for the 90th percentile of the step time under noise (--jitter, default 5%); "
        "the step time without noise may be 2 % above the best found");
  s.add("threads", threads, between(0, kMostThreads), "Searches that auto runs in parallel; 0: one per core");
}

Result<Unit> Request::check() const {
  EMPLACE_TRY(check_ranges(*this));
  if (!weights.empty() && method != "pretrained")
    return invalid("--weights", "is for --method pretrained", "add it, or remove --weights");
  EMPLACE_TRY(check_allowed(*this));
  if (unseen_order >= 0) EMPLACE_TRY(check_zero_shot(*this, "--unseen-order"));
  if (pass) EMPLACE_TRY(check_zero_shot(*this, "--pass"));
  EMPLACE_TRY(check_micro_batches(*this));
  return check_several(*this);
}

}  // namespace emplace
