#pragma once
/// A placer that generalises to any graph and machine: it visits the groups in topological order, and one
/// small network scores every device for the current group.
///   log p(d | group, earlier choices) = log softmax_d (score(features of (group, d)) + stay · [start has it
///   on d])
/// The parameters depend neither on the number of groups nor on the number of devices, so a policy learned on
/// some graphs can place any other graph on any number of devices. Advantages are standardised over the
/// placements of one episode.      After: Kool 2019, section 4 (placements of one instance as its baseline)
///                                                                                              [SWEEP]

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/loss/loss.h"
#include "policy/nn/perceptron.h"
#include "policy/placer.h"
#include "policy/placers/sweep_walk.h"

namespace emplace::policy {

struct SweepOptions {
  Eigen::Index hidden = 32;        ///< Size of the two hidden layers.
  std::size_t placements = 8;      ///< Placements per episode, all of one graph.
  float logit_bound = 0;           ///< Bound C of the scores, C tanh(score / C), before `stay`; 0: no bound.
  float stay = 0;                  ///< Bonus on the logit of the group's device in the start.
  bool improves = false;           ///< Episodes start at the best placement passed to sample_from().
  float entropy = 0;               ///< Initial weight of the entropy bonus per choice.
  float entropy_end = 0;           ///< Final weight of the entropy bonus.
  std::uint64_t entropy_over = 0;  ///< Updates over which the weight changes linearly; 0: constant.

  /// The settings specific to this method; registry.h lists the shared ones.
  void list(Settings& settings) {
    settings.add("hidden", hidden, between(1, 4096), "Size of the network's two hidden layers.");
    settings.add("logit_bound", logit_bound, between(0, 1e3),
                 "Bound on the absolute value of scores, before stay is added; 0: no bound.");
    settings.add("stay", stay, between(0, 1e3),
                 "Bonus on the logit of the group's device in the start placement.");
  }
};

/// One graph that the policy places.
struct SweepGraph {
  const Constraints* constraints = nullptr;
  std::vector<std::uint32_t> group_of_op;  ///< [ops]
  SweepWorld world;
  Placement start;  ///< [ops] Placement to improve; empty: none.
};

/// Thread: as Placer. The constraints must outlive it.
class SweepPlacer final : public Placer, public Imitating {
 public:
  /// Errors (kInvalid): no graph, an empty graph, or a number out of range (names the key).
  static Result<std::unique_ptr<SweepPlacer>> make(std::vector<SweepGraph> graphs, SweepOptions options,
                                                   std::uint64_t seed);

  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  /// Episode e places graph e modulo their number.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override {
    return sample_from({}, episode, update);
  }
  Incumbent incumbent() const override { return options_.improves ? Incumbent::kFitting : Incumbent::kNone; }
  Actions sample_from(std::span<const Placement> best, std::uint64_t episode,
                      std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// Imitates on the first graph. If the wanted device is closed, the walk takes the first open one, and that
  /// choice is not counted.
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void start_update(std::uint64_t update) override;
  std::size_t graph_of(const Actions& actions) const override;
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  struct Task {
    SweepGraph view;
    SweepPlan plan;
    std::vector<std::uint8_t> start;  // [groups] Renamed devices, or kNowhere.
    std::vector<std::uint8_t> start_at(const Placement& placement) const;
  };
  /// Decoded form of the Actions of one episode. `devices` are ordered by position in the walk.
  struct Choice {
    std::uint32_t graph = 0;
    std::vector<std::uint8_t> start;
    Decisions decisions;
  };
  /// Scored (group, device) pairs, concatenated.
  struct Scored {
    std::vector<float> features;       // [kFeatures, scored]
    std::vector<float> score;          // [scored] Raw output of the network.
    std::vector<std::uint8_t> device;  // [scored] Device of each pair.
  };
  /// Replayed walks of an episode.
  struct Seen {
    Scored scored;
    std::vector<std::uint32_t> choice;  // [scored] Choice to which each pair belongs.
    Matrix log_p;                       // [devices, choices] -1e30 where closed.
  };

  SweepPlacer(std::vector<Task> tasks, SweepOptions options, std::uint64_t seed);
  void score_devices(const PackedPerceptron& network, SweepWalk& walk, std::span<float> log_p, Scored& seen,
                     Scratch& scratch) const;
  /// Returns devices by position; the most likely ones if `rng` is null.
  std::vector<std::uint8_t> walk_once(const PackedPerceptron& network, const Task& task,
                                      std::span<const std::uint8_t> start, Rng* rng) const;
  Placement spread(const Task& task, std::span<const std::uint8_t> by_position) const;
  /// Errors: a choice of a closed device.
  Result<Seen> replay(const PackedPerceptron& network, const Choice& choice) const;
  /// `advantages` [choices]
  LossParts learn(const PackedPerceptron& network, const Choice& choice, const Seen& seen,
                  std::span<const float> advantages, float entropy, float scale,
                  PackedPerceptron::Gradient& gradient) const;
  Result<Choice> decode_actions(const Actions& actions) const;
  static Actions encode_actions(const Choice& choice);

  const std::vector<Task> tasks_;
  const SweepOptions options_;
  const std::uint64_t seed_;
  ParameterStore store_;
  const Perceptron network_;
  float entropy_;
};

}  // namespace emplace::policy
