#pragma once
/// A placer that no machine and no graph is foreign to: it sweeps over the groups in topological order, and
/// one small network scores every device by what it would mean to the group at hand.
///   log p(d | group, what was placed) = log softmax_d (score(features of (group, d)) + stay · [start has it
///   on d])
/// The parameters know neither groups nor devices, so what was learned on some graphs places any other, on
/// any number of devices. Placements of one episode are held against each other: an advantage counts less
/// their mean, over their deviation.      After: Kool 2019, section 4 (placements of one instance as its
/// baseline)
///                                                                                              [SWEEP]

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/nn/perceptron.h"
#include "policy/objective/objective.h"
#include "policy/placer.h"
#include "policy/placers/sweep_walk.h"

namespace emplace::policy {

struct SweepOptions {
  Eigen::Index hidden = 32;        ///< Of the network's two hidden layers.
  std::size_t placements = 8;      ///< Per episode, all of one graph.
  float logit_bound = 0;           ///< > 0: scores are C tanh(score / C), before `stay`.
  float stay = 0;                  ///< Added to the logit of where the start has the group.
  bool improves = false;           ///< Episodes start at the best placement that sample_from() is told of.
  float entropy = 0;               ///< Weight of the entropy bonus, per choice. It goes linearly
  float entropy_end = 0;           ///< to this
  std::uint64_t entropy_over = 0;  ///< over so many updates; 0: it stays.

  /// Those that are its alone; registry.h has the others.
  void list(Settings& settings) {
    settings.add("hidden", hidden, between(1, 4096), "Hidden size of the network's two hidden layers.");
    settings.add("logit_bound", logit_bound, between(0, 1e3),
                 "Keeps scores within this bound before stay is added; 0: no bound.");
    settings.add("stay", stay, between(0, 1e3),
                 "Added to the logit of the device where the start has the group.");
  }
};

/// One graph that the policy places.
struct SweepGraph {
  const Constraints* constraints = nullptr;
  std::vector<std::uint32_t> group_of_op;  ///< [ops]
  SweepWorld world;
  Placement start;  ///< [ops] a placement to be improved; empty: none.
};

/// Thread: as Placer says. The constraints must outlive it.
class SweepPlacer final : public Placer, public Imitating {
 public:
  /// Errors (kInvalid): no graph, an empty one, numbers out of range (names the key).
  static Result<std::unique_ptr<SweepPlacer>> make(std::vector<SweepGraph> graphs, SweepOptions options,
                                                   std::uint64_t seed);

  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  /// Episode e is about graph e modulo their number.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override {
    return sample_from({}, episode, update);
  }
  bool starts_at_best() const override { return options_.improves; }
  Actions sample_from(std::span<const Placement> best, std::uint64_t episode,
                      std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// Of the first graph. Where a walk cannot follow, because the device is closed, it takes the first that is
  /// open, and that choice does not count.
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void begin_update(std::uint64_t update) override;
  std::size_t graph_of(const Actions& actions) const override;
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  struct Task {
    SweepGraph view;
    SweepPlan plan;
    std::vector<std::uint8_t> start;  // [groups] renamed, or kNowhere.
    std::vector<std::uint8_t> start_at(const Placement& placement) const;
  };
  /// One episode's choices, as Actions carries them. `devices` are by position of the walk.
  struct Choice {
    std::uint32_t graph = 0;
    std::vector<std::uint8_t> start;
    Decisions decisions;
  };
  /// What the network scored, one after another.
  struct Scored {
    std::vector<float> features;       // [kFeatures, scored]
    std::vector<float> score;          // As the network gave it.
    std::vector<std::uint8_t> device;  // Of which device.
  };
  /// Walks seen again.
  struct Seen {
    Scored scored;
    std::vector<std::uint32_t> choice;  // [scored] for which choice.
    Matrix log_p;                       // [devices, choices]; -1e30 where closed.
  };

  SweepPlacer(std::vector<Task> tasks, SweepOptions options, std::uint64_t seed);
  void judge(const PackedPerceptron& network, SweepWalk& walk, std::span<float> log_p, Scored& seen,
             Scratch& scratch) const;
  /// Devices by position; the likeliest ones where `rng` is null.
  std::vector<std::uint8_t> walk_once(const PackedPerceptron& network, const Task& task,
                                      std::span<const std::uint8_t> start, Rng* rng) const;
  Placement spread(const Task& task, std::span<const std::uint8_t> by_position) const;
  /// Errors: a choice that is closed.
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
