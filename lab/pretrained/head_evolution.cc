#include "lab/pretrained/head_evolution.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/rng.h"

namespace emplace::lab {
namespace {

using policy::SchedulerDraw;
using policy::SchedulerDrawn;
using policy::ScheduleWorld;

constexpr double kMostGain = 0.2;  // Log ratio of step times; so no world decides alone.
constexpr float kChangedWeights = 0.2f, kChangedCodes = 0.3f, kChangedCodeWeights = 0.05f;  // Shares.

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(std::span<const double> values) {
  Moments found;
  for (const double value : values) found.mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return found;
}

/// One update; evolve_heads() describes it.
class HeadEvolution {
 public:
  HeadEvolution(policy::SchedulerPolicy& policy, const TrainRecipe& recipe,
                const std::vector<std::unique_ptr<TrainWorld>>& worlds, unsigned threads,
                std::uint64_t update)
      : policy_{policy}, recipe_{recipe}, worlds_{worlds}, threads_{threads}, update_{update} {}

  Result<double> evolve() {
    const std::size_t tries = recipe_.evolution_tries, heads = policy_.shape.heads();
    Rng rng{recipe_.seed, Purpose::kNoise, update_};
    std::vector<std::uint32_t> order(worlds_.size());
    for (std::uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    rng.shuffle(order);
    order.resize(std::min<std::size_t>(order.size(), recipe_.evolution_worlds));
    const auto [v, a] = policy_.network.outputs();
    std::vector<policy::SchedulerPolicy> changed(tries, policy_);  // Every head is changed.
    for (policy::SchedulerPolicy& each : changed) {
      for (Eigen::Index head = 0; head < static_cast<Eigen::Index>(heads); ++head) {
        change(each.store.value(v).col(head), kChangedWeights, 1, rng);
        if (rng.uniform() < kChangedCodes)
          change(each.store.value(a).col(head), kChangedCodeWeights, 0.5f, rng);
      }
    }
    std::vector<Verdict> verdicts(order.size());
    EMPLACE_TRY(for_each(order.size(), threads_, [&](std::size_t w) {
      return judge_changes(changed, *worlds_[order[w]], update_ * order.size() + w, verdicts[w]);
    }));
    double sum = 0;
    for (std::size_t head = 0; head < heads; ++head) {
      double most = 0;
      std::size_t best = tries;
      for (std::size_t t = 0; t < tries; ++t) {
        std::vector<double> gains;
        gains.reserve(verdicts.size());
        for (const Verdict& each : verdicts) gains.push_back(each.gains[head * tries + t]);
        const Moments of_gains = moments(gains);
        const double error = of_gains.deviation / std::sqrt(static_cast<double>(gains.size()));
        if (of_gains.mean <= most || of_gains.mean < static_cast<double>(recipe_.evolution_certainty) * error)
          continue;
        most = of_gains.mean;
        best = t;
      }
      if (best == tries) continue;
      for (const policy::ParameterId id : {v, a})
        policy_.store.value(id).col(static_cast<Eigen::Index>(head)) =
            changed[best].store.value(id).col(static_cast<Eigen::Index>(head));
    }
    for (const Verdict& each : verdicts) sum += each.best;
    return sum / static_cast<double>(verdicts.size());
  }

 private:
  /// What changes of the heads do on a world.
  struct Verdict {
    /// [heads, tries] Log ratio of step times by which the best heads get better.
    std::vector<double> gains;
    double best = 0;  ///< Log ratio of the best walk to the example.
  };

  /// Changes a share of the weights.
  template <class Column>
  void change(Column&& weights, float share, float scale, Rng& rng) const {
    const float size = scale * recipe_.evolution_deviation * std::exp(rng.normal());
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
      if (rng.uniform() >= share) continue;
      weights[i] += size * (1 + std::abs(weights[i])) * rng.normal();
    }
  }

  /// The cost that counts of a head with `cost` beside others: a soft minimum.
  double counted(double cost, double others) const {
    const double softness = recipe_.evolution_softness, least = std::min(cost, others);
    return least -
           softness * std::log(std::exp((least - cost) / softness) + std::exp((least - others) / softness));
  }
  /// Soft minimum of all costs but one.
  double without(const std::vector<double>& costs, std::size_t one) const {
    double least = HUGE_VAL, sum = 0;
    for (std::size_t k = 0; k < costs.size(); ++k) least = k == one ? least : std::min(least, costs[k]);
    if (!std::isfinite(least)) return least;
    for (std::size_t k = 0; k < costs.size(); ++k)
      sum += k == one ? 0 : std::exp((least - costs[k]) / static_cast<double>(recipe_.evolution_softness));
    return least - static_cast<double>(recipe_.evolution_softness) * std::log(sum);
  }

  /// Tries all changes on a world. `visit` chooses what the improving heads start from.
  Result<Unit> judge_changes(const std::vector<policy::SchedulerPolicy>& changed, TrainWorld& world,
                             std::uint64_t visit, Verdict& verdict) {
    const std::size_t founders = policy_.shape.founders, heads = policy_.shape.heads(),
                      tries = changed.size();
    std::vector<policy::SchedulerNetwork::Embedded> embedded;
    for (const auto& view : world.worlds) embedded.push_back(policy_.network.embed(policy_.store, view));
    const double example = std::log(world.example_s);
    SchedulerDrawn drawn;
    const auto cost_of = [&](const policy::SchedulerPolicy& policy, std::size_t w,
                             const SchedulerDraw& how) -> Result<double> {
      drawn = policy.network.draw(policy.store, world.worlds[w], embedded[w], how, nullptr);
      EMPLACE_TRY_ASSIGN(const double cost, world.cost(world.worlds[w], drawn));
      return cost - example;
    };
    verdict.gains.assign(heads * tries, 0);
    // Heads that place from nothing, each on the granularity where it is best.
    std::vector<double> costs(founders);
    std::vector<std::size_t> where(founders);
    double best = HUGE_VAL;
    Placement placement;
    for (std::size_t head = 0; head < founders; ++head) {
      costs[head] = HUGE_VAL;
      for (std::size_t w = 0; w < world.worlds.size(); ++w) {
        EMPLACE_TRY_ASSIGN(const double cost, cost_of(policy_, w, {.head = head}));
        if (cost < costs[head]) {
          costs[head] = cost;
          where[head] = w;
        }
        if (cost >= best) continue;
        best = cost;
        placement = world.worlds[w].placement_of(drawn.device_of_unit);
      }
    }
    const auto try_head = [&](std::size_t head, std::size_t w, const policy::ScheduleStart* start, double own,
                              double others) -> Result<Unit> {
      for (std::size_t t = 0; t < tries; ++t) {
        EMPLACE_TRY_ASSIGN(const double cost, cost_of(changed[t], w, {.head = head, .start = start}));
        verdict.gains[head * tries + t] =
            std::clamp(counted(own, others) - counted(cost, others), -kMostGain, kMostGain);
      }
      return Unit{};
    };
    for (std::size_t head = 0; head < founders; ++head)
      EMPLACE_TRY(try_head(head, where[head], nullptr, costs[head], without(costs, head)));
    // Heads that improve, after none to three walks of each.
    Rng rng{recipe_.seed, Purpose::kPlacing, visit};
    const std::size_t improvers = heads - founders;
    for (std::uint32_t done = 0, last = rng.below(4);; ++done) {
      const std::size_t w = rng.below(static_cast<std::uint32_t>(world.worlds.size()));
      const ScheduleWorld& view = world.worlds[w];
      const auto start = policy::ScheduleWalk::replay(view, view.renamed(view.units_of(placement)));
      std::vector<double> improved(improvers);
      for (std::size_t head = 0; head < improvers; ++head) {
        EMPLACE_TRY_ASSIGN(improved[head], cost_of(policy_, w, {.head = founders + head, .start = &start}));
        if (improved[head] >= best) continue;
        best = improved[head];
        placement = view.placement_of(drawn.device_of_unit);
      }
      if (done < last) continue;
      for (std::size_t head = 0; head < improvers; ++head)
        EMPLACE_TRY(try_head(founders + head, w, &start, improved[head], without(improved, head)));
      break;
    }
    verdict.best = best;
    return Unit{};
  }

  policy::SchedulerPolicy& policy_;
  const TrainRecipe& recipe_;
  const std::vector<std::unique_ptr<TrainWorld>>& worlds_;
  const unsigned threads_;
  const std::uint64_t update_;
};

}  // namespace

Result<double> evolve_heads(policy::SchedulerPolicy& policy, const TrainRecipe& recipe,
                            const std::vector<std::unique_ptr<TrainWorld>>& worlds, unsigned threads,
                            std::uint64_t update) {
  return HeadEvolution{policy, recipe, worlds, threads, update}.evolve();
}

}  // namespace emplace::lab
