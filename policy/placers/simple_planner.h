#pragma once
/// The Simple Planner: the Grouper alone puts each op on a device; no Placer.
///   J = E_{d ~ Π_op softmax(f(op))} R(d);   REINFORCE over the sum of the ops' log-probabilities
///                                          Paper: Hierarchical 2018, section 3.3  [HIE-SIMPLE]

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/features.h"
#include "policy/nn/grouper.h"
#include "policy/placer.h"

namespace emplace::policy {

struct SimplePlannerOptions {
  Eigen::Index type_embedding = 20;   ///< Size of the op-type embedding.
  Eigen::Index hidden = 64;           ///< Of the one hidden layer.
  std::size_t placements = 4;         ///< k per episode
  float noise = 0.1f;                 ///< Deviation of nearly normal noise on the logits while drawing,
  std::uint64_t noise_updates = 500;  ///< for so many updates.
  float entropy = 0;                  ///< Weight of the entropy bonus, summed over ops. It goes linearly
  float entropy_end = 0;              ///< to this
  std::uint64_t entropy_over = 0;     ///< over so many updates; 0: it stays.
  /// > 0: REINFORCE weighs a placement by min(this, π/q), as ObjectiveOptions::max_weight does.   [IS-1]
  float max_weight = 0;
  OpFeatureOptions features;
  float start_logit = 0;  ///< Constant logit of each op's device in the start placement, if there is one.

  /// Those that are its alone; registry.h has the others.
  void list(Settings& settings) {
    settings.add("type_embedding", type_embedding, between(1, 1024),
                 "Size of an op type's embedding. Paper: 20.");
    settings.add("hidden", hidden, between(1, 4096), "Size of the one hidden layer. Paper: 64.");
  }
};

/// Ops of a co-location class share what their lowest op draws; a device that a class may not use is repaired
/// (Constraints::repair). Thread: as Placer says. `graph`, `devices` and `constraints` must outlive it.
class SimplePlanner final : public Placer, public OffPolicy, public Imitating {
 public:
  /// `start` [ops] or empty. Errors (kInvalid): numbers out of range, by their configuration key; a start
  /// placement of another graph.
  static Result<std::unique_ptr<SimplePlanner>> make(const OpGraph& graph, const DeviceSet& devices,
                                                     const Constraints& constraints,
                                                     SimplePlannerOptions options, const Placement& start,
                                                     std::uint64_t seed);

  const OffPolicy* off_policy() const override { return this; }
  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void begin_update(std::uint64_t update) override;
  /// A device that an op may not use is repaired: what leads to a placement counts together.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  SimplePlanner(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                SimplePlannerOptions options, const Placement& start, std::uint64_t seed);
  /// What an episode's actions say.
  struct Drawn {
    std::vector<std::uint8_t> devices;  ///< [placements, units]
    std::vector<double> log_q;          ///< [placements] of all choices; empty without max_weight.
  };
  Placement spread(std::span<const std::uint8_t> device_of_unit) const;
  Result<Drawn> decode_actions(const Actions& actions) const;
  Actions encode_actions(const Drawn& drawn) const;
  /// [placements] log of the probability of these very choices.
  std::vector<double> log_of_choices(std::span<const std::uint8_t> devices) const;

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const Constraints& constraints_;
  const SimplePlannerOptions options_;
  const std::uint64_t seed_;
  const std::vector<OpId> units_;  // The leader of each co-location class, by class.
  ParameterStore store_;
  const Grouper chooser_;
  float entropy_;  // Its weight now.
};

}  // namespace emplace::policy
