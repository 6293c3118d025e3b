#pragma once
/// The Hierarchical Planner: a Grouper puts each op into one of G groups, a Placer puts each group on a
/// device.
///   cost J = E_{g ~ Grouper, d ~ Placer(g)} R(d);  gradients by REINFORCE with m groupings and k placements
///   of each.
///                                                   Paper: Hierarchical 2018, section 2, Eqs. 3–6 [HIE-3..6]

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/features.h"
#include "policy/nn/grouper.h"
#include "policy/placer.h"
#include "policy/placers/group_placer.h"

namespace emplace::policy {

/// Every number of the paper, at the paper's value. Departures are made in configurations, which name them.
struct HierarchicalOptions {
  std::size_t groups = 256;          ///< G
  Eigen::Index type_embedding = 20;  ///< Size of the op-type embedding.
  Eigen::Index grouper_hidden = 64;
  Eigen::Index hidden = 256;          ///< Of the Placer's LSTMs and attention.
  std::size_t placements = 4;         ///< k of Eqs. 4 and 6 (m = 1: one grouping per episode).
  float tanh_constant = 5;            ///< C
  float temperature = 10;             ///< T
  float noise = 0.1f;                 ///< Deviation of normal noise on both networks' logits,
  std::uint64_t noise_updates = 500;  ///< for so many updates.
  float entropy_end = 0;              ///< The entropy's weight goes linearly from the objective's to this
  std::uint64_t entropy_over = 0;     ///< over so many updates; 0: it stays.
  ObjectiveOptions objective;         ///< Of the Placer; the Grouper learns by REINFORCE whatever it is.
  OpFeatureOptions features;

  // Departures that a configuration may ask for.
  bool sees_group = false;        ///< The decoder is fed the group at hand, not only by attention.
  float grouper_scale = 1;        ///< Learning rate of the Grouper, relative.
  bool start_at_scopes = false;   ///< The Grouper starts at the grouping that it is given, if any;
  float grouper_confidence = 12;  ///< logit of the group that an op starts in.
  float table_scale =
      0;  ///< > 0: a trainable table of device logits per label, at this relative learning rate.
  float start_probability =
      0;  ///< > 0: the table starts where each group takes the start placement's device so surely.
  std::size_t threads = 1;  ///< For the placements of one episode; the bits do not depend on it.

  /// Those that are its alone; registry.h has the others.
  void list(Settings& settings) {
    settings.add("hidden", hidden, between(1, 4096),
                 "Hidden size of the Placer's LSTMs and of its attention. Paper: 256.");
    settings.add("grouper_hidden", grouper_hidden, between(1, 4096),
                 "Hidden size of the Grouper. Paper: 64.");
    settings.add("type_embedding", type_embedding, between(1, 1024),
                 "Size of an op type's embedding. Paper: 20.");
    settings.add("tanh_constant", tanh_constant, between(0, 1e3),
                 "Bound C of the Placer's logits, C tanh(l / T); 0: plain logits. Paper: 5.");
    settings.add("temperature", temperature, between(1e-3, 1e3),
                 "Temperature T of the Placer's logits, where they are bounded. Paper: 10.");
    settings.add("sees_group", sees_group,
                 "Feeds the decoder the group at hand beside the last device. Paper: false.");
    settings.add(
        "start_at_scopes", start_at_scopes,
        "Starts the Grouper at the groups of policy.grouping instead of random weights. Paper: false.");
    settings.add("grouper_confidence", grouper_confidence,
                 "Logit of the group that an op starts in, with start_at_scopes.");
    settings.add("grouper_scale", grouper_scale,
                 "Learning rate of the Grouper, relative to the Placer's. Paper: 1.");
    settings.add(
        "table_scale", table_scale, between(0, 1e6),
        "Relative learning rate of a table of device logits per group; 0: there is no table. Paper: 0.");
  }
};

/// What the planner may be told about a graph besides the graph.
struct HierarchicalStart {
  std::vector<std::uint16_t> group_of_op;  ///< [ops] where the Grouper starts; empty: nowhere.
  std::vector<std::uint16_t>
      label_of_group;   ///< [groups] groups of one label share a row of the table; empty: each its own.
  Placement placement;  ///< [ops] where the Placer starts; empty: nowhere.
};

/// Thread: as Placer says. `graph`, `devices` and `constraints` must outlive it.
class HierarchicalPlanner final : public Placer, public OffPolicy {
 public:
  /// Errors (kInvalid): numbers out of range, a start of another graph.
  static Result<std::unique_ptr<HierarchicalPlanner>> make(const OpGraph& graph, const DeviceSet& devices,
                                                           const Constraints& constraints,
                                                           HierarchicalOptions options,
                                                           HierarchicalStart start, std::uint64_t seed);

  const OffPolicy* off_policy() const override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  void begin_update(std::uint64_t update) override { placer_.begin_update(update); }
  void end_update(const LossParts& parts) override { placer_.end_update(store_, parts); }
  /// Of the devices, given the episode's grouping: that a placement comes of any grouping is not known.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  /// With the grouping that the Grouper started at. Errors: kInvalid also if it started at none.
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

  /// One episode's choices, as Actions carries them.
  struct Choice {
    std::vector<std::uint16_t> group_of_op;  ///< [ops]
    Decisions placed;                        ///< Of the groups, [placements, groups].
  };
  Result<Choice> decode_actions(const Actions& actions) const;
  static Actions encode_actions(const Choice& choice);

 private:
  HierarchicalPlanner(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                      HierarchicalOptions options, HierarchicalStart start, std::uint64_t seed);
  GrouperUnits grouper_units() const;
  Decoded place_groups(Tape& tape, std::span<const std::uint16_t> group_of_op, DecodeInput input) const;
  std::vector<std::uint16_t> spread(const std::vector<std::uint16_t>& group_of_unit) const;

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const Constraints& constraints_;
  const HierarchicalOptions options_;
  const HierarchicalStart start_;
  const std::uint64_t seed_;
  const OpFeatures features_;
  mutable ParameterStore store_;   // A tape adds gradients to it; sampling records none.
  const std::vector<OpId> units_;  // What the Grouper decides on: the leader of each co-location class.
  const Grouper grouper_;
  GroupPlacer placer_;
};

}  // namespace emplace::policy
