#pragma once
/// The Simple Planner: the Grouper network assigns each op to a device; there is no Placer.
///   J = E_{d ~ Π_op softmax(f(op))} R(d);   REINFORCE over the sum of the ops' log-probabilities
///                                          Paper: Hierarchical 2018, section 3  [HIE-SIMPLE]

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/features.h"
#include "policy/nn/grouper.h"
#include "policy/placer.h"

namespace emplace::policy {

struct SimplePlannerOptions {
  Eigen::Index type_embedding = 20;  ///< Size of the op-type embedding.
  Eigen::Index hidden = 64;          ///< Size of the hidden layer.
  std::size_t placements = 4;        ///< Placements k per episode.
  float noise = 0.1f;  ///< Standard deviation of the approximately normal noise on the logits while drawing.
  float noise_limit = 0;              ///< The noise is cut at this amplitude; 0: not cut.   [HIE-NOISE]
  std::uint64_t noise_updates = 500;  ///< Number of updates with noise.
  float entropy = 0;                  ///< Initial weight of the entropy bonus, summed over ops.
  float entropy_end = 0;              ///< Final weight of the entropy bonus.
  std::uint64_t entropy_over = 0;     ///< Updates over which the weight changes linearly; 0: constant.
  /// Cap of the importance weight π/q of a placement; 0: no weights (see
  /// LossOptions::max_weight).   [IS-1]
  float max_weight = 0;
  OpFeatureOptions features;
  float start_logit = 0;  ///< Constant logit of each op's device in the start placement, if there is one.

  /// The settings specific to this method; registry.h lists the shared ones.
  void list(Settings& settings) {
    settings.add("type_embedding", type_embedding, between(1, 1024),
                 "Size of an op type's embedding. Paper: 20.");
    settings.add("hidden", hidden, between(1, 4096), "Size of the hidden layer. Paper: 64.");
  }
};

/// One graph that the planner places. Refers to its data.
struct SimplePlannerGraph {
  const OpGraph* graph = nullptr;
  const DeviceSet* devices = nullptr;
  const Constraints* constraints = nullptr;
  Placement start;  ///< [ops] or empty.
};

/// Ops of a co-location class share the draw of their lowest op; Constraints::repair() replaces forbidden
/// devices. Thread: as Placer. The objects that the graphs refer to must outlive it.
class SimplePlanner final : public Placer, public OffPolicy, public Imitating {
 public:
  /// With `options.features.words` the parameters depend only on the options, the number of devices and the
  /// seed, so those learned on some graphs can place any other graph; without, there is one graph. Errors
  /// (kInvalid): a number out of range (names the configuration key), a start placement of another graph,
  /// several graphs without words, or graphs with different numbers of devices.
  static Result<std::unique_ptr<SimplePlanner>> make(const std::vector<SimplePlannerGraph>& graphs,
                                                     SimplePlannerOptions options, std::uint64_t seed);
  /// The planner of one graph.
  static Result<std::unique_ptr<SimplePlanner>> make(const OpGraph& graph, const DeviceSet& devices,
                                                     const Constraints& constraints,
                                                     SimplePlannerOptions options, const Placement& start,
                                                     std::uint64_t seed) {
    return make({SimplePlannerGraph{&graph, &devices, &constraints, start}}, std::move(options), seed);
  }

  const OffPolicy* off_policy() const override { return this; }
  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  /// Episode e places graph e modulo their number.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override { return greedy_of(0); }
  Placement greedy_of(std::size_t graph) const;
  std::size_t graph_of(const Actions& actions) const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// Learns a placement of the first graph.
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void start_update(std::uint64_t update) override;
  /// Sums over all draws that repair turns into the same placement.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

 private:
  /// Precomputed data of one graph.
  struct Task {
    const OpGraph* graph = nullptr;
    const DeviceSet* devices = nullptr;
    const Constraints* constraints = nullptr;
    std::vector<OpId> units;  // The leader of each co-location class, by class.
    Grouper chooser;          // The choosers of all graphs share their parameters.
  };

  SimplePlanner(const std::vector<SimplePlannerGraph>& graphs, SimplePlannerOptions options,
                std::uint64_t seed);
  std::vector<Task> make_tasks(const std::vector<SimplePlannerGraph>& graphs);
  bool any_graph() const { return options_.features.any_graph(); }
  /// Decoded form of the Actions of an episode.
  struct Drawn {
    std::size_t graph = 0;
    std::vector<std::uint8_t> devices;  ///< [placements, units]
    /// [placements] Log q of all choices of a placement; empty without max_weight.
    std::vector<double> log_q;
  };
  static Placement spread(const Task& task, std::span<const std::uint8_t> device_of_unit);
  Result<Drawn> decode_actions(const Actions& actions) const;
  Actions encode_actions(const Drawn& drawn) const;
  /// [placements] Log-probability of exactly these choices.
  std::vector<double> log_of_choices(const Task& task, std::span<const std::uint8_t> devices) const;

  const SimplePlannerOptions options_;
  const std::uint64_t seed_;
  ParameterStore store_;
  const std::vector<Task> tasks_;
  float entropy_;  // Current weight of the entropy bonus.
};

}  // namespace emplace::policy
