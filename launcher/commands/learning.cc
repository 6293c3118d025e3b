#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/commands/extensions.h"
#include "launcher/pretrained/guided_moves.h"
#include "launcher/pretrained/pretrained.h"
#include "launcher/session/learned.h"
#include "launcher/settings/placers.h"
#include "policy/placers/registry.h"

namespace emplace::launcher {
namespace {

/// `pretrained` with weights of its own.
class OwnWeights final : public Method {
 public:
  OwnWeights(policy::SchedulerPolicy policy, std::uint32_t samples)
      : policy_{std::move(policy)}, method_{policy_, samples} {}
  std::string_view name() const override { return method_.name(); }
  std::string_view summary() const override { return method_.summary(); }
  Result<Answer> find(const Problem& problem, Executor& executor) const override {
    return method_.find(problem, executor);
  }

 private:
  const policy::SchedulerPolicy policy_;
  const Pretrained method_;
};

class LearningActors final : public LearnedMethods {
 public:
  LearningActors(const InputOptions& inputs, bool quiet) : inputs_{inputs}, quiet_{quiet} {}
  /// "random" is a heuristic, too, and is drawn without a run.
  bool learns(std::string_view method) const override {
    const auto all = policy::methods();
    return method != "random" && std::find(all.begin(), all.end(), method) != all.end();
  }
  Result<Answer> learn(const Request& request, double budget_s) const override {
    return place_by_learning(inputs_, request, budget_s, quiet_);
  }
  Result<std::unique_ptr<Method>> pretrained(const std::string& weights,
                                             std::uint32_t samples) const override {
    using Made = std::unique_ptr<Method>;
    if (weights.empty()) return Made{std::make_unique<Pretrained>(policy::shipped_scheduler(), samples)};
    EMPLACE_TRY_ASSIGN(auto own, read_scheduler(weights));
    return Made{std::make_unique<OwnWeights>(std::move(own), samples)};
  }
  std::vector<const Method*> portfolio_methods() const override { return launcher::portfolio_methods(); }
  MoveGuide moves() const override { return guided_moves; }

 private:
  const InputOptions inputs_;
  const bool quiet_;
};

}  // namespace

std::unique_ptr<LearnedMethods> learned_methods(const InputOptions& inputs, bool quiet) {
  return std::make_unique<LearningActors>(inputs, quiet);
}

}  // namespace emplace::launcher
