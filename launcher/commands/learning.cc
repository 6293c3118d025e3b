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
  Result<Found> find(const Problem& problem, Executor& executor) const override {
    return method_.find(problem, executor);
  }

 private:
  const policy::SchedulerPolicy policy_;
  const Pretrained method_;
};

class LearningActors final : public Learning {
 public:
  /// "random" is a heuristic, too, and is drawn without a run.
  bool is_learned(std::string_view method) const override {
    const auto all = policy::methods();
    return method != "random" && std::find(all.begin(), all.end(), method) != all.end();
  }
  Result<Learned> place(const LearnRequest& request) const override { return place_by_learning(request); }
  Result<std::unique_ptr<Method>> pretrained(const std::string& weights,
                                             std::uint32_t samples) const override {
    using Made = std::unique_ptr<Method>;
    if (weights.empty()) return Made{std::make_unique<Pretrained>(policy::shipped_scheduler(), samples)};
    EMPLACE_TRY_ASSIGN(auto own, read_scheduler(weights));
    return Made{std::make_unique<OwnWeights>(std::move(own), samples)};
  }
  std::vector<const Method*> portfolio_methods() const override { return launcher::portfolio_methods(); }
  MoveGuide moves() const override { return guided_moves; }
};

}  // namespace

const Learning& learning() {
  static const LearningActors actors;
  return actors;
}

}  // namespace emplace::launcher
