#pragma once
/// The Hierarchical Planner: a Grouper assigns each op to one of G groups, a Placer assigns each group to a
/// device.
///   cost J = E_{g ~ Grouper, d ~ Placer(g)} R(d)    Paper: Hierarchical 2018, section 2, Eq. 2 [HIE-2]
///   gradients by REINFORCE with m = 1 grouping, k placements
///                                                   Paper: Hierarchical 2018, section 2, Eqs. 3–6 [HIE-3..6]

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/features.h"
#include "policy/nn/grouper.h"
#include "policy/placer.h"
#include "policy/placers/group_placer.h"

namespace emplace::policy {

/// Defaults are the paper's values except for what is marked as off. Configurations name their departures.
/// The network is the Placer's. `placements` are k of Eqs. 4 and 6 (m = 1: one grouping per episode); `noise`
/// is on the logits of both networks; `loss` is the Placer's, the Grouper always uses REINFORCE.
struct HierarchicalOptions : CommonPlacerOptions, GroupPlacerOptions {
  Eigen::Index type_embedding = 20;  ///< Size of the op-type embedding.
  Eigen::Index grouper_hidden = 64;

  /// A group's embedding counts its ops by type and adds up their shapes; else shares and means. The paper
  /// has it and records of older programs do not; off by default.   [HIE-GROUP-EMB]
  bool sum_inputs = false;

  // As in the authors' code of TensorFlow, off by default.   [HIE-NOISE]
  /// `noise` and `noise_limit` are shares of the logits' root mean square, in the Placer that of a choice, in
  /// the Grouper that of all ops. This noise is part of the probabilities that are learned.
  bool relative_noise = false;
  /// Number of updates in which devices are drawn; then every episode has the devices of the last drawn one,
  /// for a new grouping. 0: always drawn.
  std::uint64_t draw_updates = 0;

  // Departures from the paper, off by default.
  float grouper_scale = 1;        ///< Relative learning rate of the Grouper.
  bool start_at_scopes = false;   ///< The Grouper starts at the given grouping, if any.
  float grouper_confidence = 12;  ///< Logit of the group that an op starts in.

  /// The settings specific to this method; registry.h lists the shared ones.
  void list(Settings& settings) {
    list_common(settings);
    settings.add("grouper_hidden", grouper_hidden, between(1, 4096),
                 "Hidden size of the Grouper. Paper: 64.");
    settings.add("type_embedding", type_embedding, between(1, 1024),
                 "Size of an op type's embedding. Paper: 20.");
    settings.add(
        "sum_inputs", sum_inputs,
        "A group's embedding has the counts of its op types and its total shapes instead of shares and "
        "means. Paper: true.");
    settings.add("relative_noise", relative_noise,
                 "Makes policy.noise and policy.noise_limit shares of the logits' root mean square, and the "
                 "learned probabilities include that noise. Paper: false; authors' code: true.");
    settings.add("draw_updates", draw_updates,
                 "Number of updates in which groups draw their devices; then every episode repeats the last "
                 "drawn ones for its new groups. 0: always drawn. Paper: 0; authors' code: 500.");
    settings.add(
        "start_at_scopes", start_at_scopes,
        "Initialises the Grouper to the groups of policy.grouping instead of random groups. Paper: false.");
    settings.add("grouper_confidence", grouper_confidence,
                 "Initial logit of an op's start group; used with start_at_scopes.");
    settings.add("grouper_scale", grouper_scale,
                 "Learning rate of the Grouper relative to the Placer's. Paper: 1.");
  }
};

/// Optional starting point of the planner for a graph. A planner that places any graph has no table, so it
/// uses only the grouping.
struct HierarchicalInitial {
  std::vector<std::uint32_t> group_of_op;  ///< [ops] Initial grouping of the Grouper; empty: none.
  /// [groups] Groups with the same label share a row of the table; empty: no sharing.
  std::vector<std::uint16_t> label_of_group;
  Placement placement;  ///< [ops] Initial placement of the Placer; empty: none.
};

/// One graph that the planner places. Refers to its data.
struct HierarchicalGraph : GraphView {
  HierarchicalInitial start;
};

/// Thread: as Placer. The objects that the graphs refer to must outlive it.
class HierarchicalPlanner final : public Placer, public OffPolicy {
 public:
  /// With `options.features.words` the parameters depend only on the options, the number of devices and the
  /// seed, so those learned on some graphs can place any other graph; without, there is one graph. Errors
  /// (kInvalid): numbers out of range, a start of another graph, several graphs without words, or graphs with
  /// different numbers of devices.
  static Result<std::unique_ptr<HierarchicalPlanner>> make(std::vector<HierarchicalGraph> graphs,
                                                           HierarchicalOptions options, std::uint64_t seed);

  const OffPolicy* off_policy() const override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  /// Episode e places graph e modulo their number.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  std::size_t graph_of(const Actions& actions) const override {
    return any_graph() ? graph_or_first(actions.bytes, tasks_.size()) : 0;
  }
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  void start_update(std::uint64_t update) override { placer_.start_update(update); }
  void end_update(const LossParts& parts) override;
  /// Log-probability of the devices given the episode's grouping; the probability over all groupings is
  /// unknown.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  /// Uses the grouping that the Grouper started at. Errors: kInvalid also if there was none.
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

  /// Decoded form of the Actions of one episode.
  struct Choice {
    std::size_t graph = 0;
    std::uint64_t episode = 0;  ///< Its noise is a function of this number; used with relative noise.
    float noise = 0;            ///< Relative noise; 0: none.
    std::vector<std::uint32_t> group_of_op;  ///< [ops] Places of the groups in the Placer's order.
    Decisions placed;                        ///< Devices of the groups, [placements, groups].
  };
  Result<Choice> decode_actions(const Actions& actions) const;
  Actions encode_actions(const Choice& choice) const;

 private:
  /// Precomputed data of one graph.
  struct Task {
    HierarchicalGraph view;  // Its start has groups by place.
    OpFeatures features;
    std::vector<OpId> units;  // The Grouper's units: the leader of each co-location class.
    Grouper grouper;          // The Groupers of all graphs share their parameters.
  };

  HierarchicalPlanner(std::vector<HierarchicalGraph> graphs, HierarchicalOptions options, std::uint64_t seed);
  static Result<Unit> check_graph(const HierarchicalGraph& view, const HierarchicalOptions& options);
  std::vector<Task> make_tasks(std::vector<HierarchicalGraph> graphs);
  bool any_graph() const { return options_.features.any_graph(); }
  Decoded place_groups(Tape& tape, const Task& task, std::span<const std::uint32_t> group_of_op,
                       DecodeInput input) const;
  GrouperNoise grouper_noise(std::uint64_t episode, float noise) const;
  Decoded place_chosen(Tape& tape, const Choice& choice, float noise) const;
  std::vector<std::uint8_t> last_drawn(const Task& task, std::span<const std::uint32_t> group_of_op) const;
  std::vector<std::uint32_t> spread(const Task& task, const std::vector<std::uint16_t>& group_of_unit) const;

  const HierarchicalOptions options_;
  const std::uint64_t seed_;
  const std::vector<std::uint16_t> place_of_group_;  // [groups] Place of the Grouper's groups in the Placer.
  const std::vector<std::uint16_t> group_at_;        // [places]
  mutable ParameterStore store_;  // A tape adds gradients to it; sampling runs no backward pass.
  const std::vector<Task> tasks_;
  GroupPlacer placer_;
  std::optional<ParameterId> last_;   // [groups, placements] Last devices; with draw_updates. No gradient.
  std::vector<std::uint8_t> latest_;  // [placements, groups] Those of the update in progress.
};

}  // namespace emplace::policy
