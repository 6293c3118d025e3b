#pragma once
/// Places the groups of a given grouping by an attentional sequence-to-sequence network: ColocRL, Spotlight,
/// and the Hierarchical Planner's ablation of random groups.
///   J = E_{d ~ π(·; groups)} R(d);   the objective of each paper over the choices d_1 … d_T
///   Paper: ColocRL 2017, section 3.2 [COL-SEQ]; Spotlight 2018, section 5.1 [SPO-SEQ]; Hierarchical 2018,
///   section 3.3

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/grouping.h"
#include "policy/features.h"
#include "policy/placer.h"
#include "policy/placers/group_placer.h"

namespace emplace::policy {

/// What the encoder sees of a group.
enum class GroupInput : std::uint8_t {
  /// Tunable embeddings of its ops' types ⊕ their output shapes, zero-padded, both as means or sums over the
  /// group ⊕ 0/1 adjacency to the groups.   Paper: ColocRL 2017, section 3.2  [COL-EMB]
  kTypes,
  kNames,   ///< A tunable embedding of its name (its label).   Paper: Spotlight 2018, section 5.1  [SPO-EMB]
  kCounts,  ///< group_embeddings() of features.h, nothing tunable.   Paper: Hierarchical 2018, section 2.2
};
constexpr auto enum_words(GroupInput) {
  return EnumWords{"group input",
                   std::array{EnumWord{GroupInput::kTypes, "types"}, EnumWord{GroupInput::kNames, "names"},
                              EnumWord{GroupInput::kCounts, "counts"}}};
}

struct SequenceOptions {
  GroupPlacerOptions network;
  GroupInput input = GroupInput::kTypes;
  Eigen::Index embedding = 20;        ///< Size of a type's or name's embedding.
  bool sum_inputs = false;            ///< kTypes: sums over a group's ops instead of means.
  std::size_t placements = 4;         ///< k per episode
  float noise = 0;                    ///< Deviation of normal noise on the logits while drawing,
  std::uint64_t noise_updates = 500;  ///< for so many updates.
  OpFeatureOptions features;

  /// Those that are its alone; registry.h has the others.
  void list(Settings& settings) {
    settings.add("embedding", embedding, between(1, 4096),
                 "Size of the embedding of an op type (Spotlight: of a group's name). Paper: 20.");
    network.list(settings);
  }
};

/// The papers' settings. Sizes that a paper does not give are those of the Hierarchical Planner's Placer.
SequenceOptions colocrl_options();
SequenceOptions spotlight_options();
/// The Placer of the Hierarchical Planner, on groups that nobody learned.   Paper: Hierarchical 2018,
/// section 3.3  [HIE-RANDOM]
SequenceOptions random_grouping_options();

/// What the placer may be told besides graph and grouping.
struct SequenceStart {
  /// [groups] groups of one label share a row of the table, and an embedding with kNames; empty: each its
  /// own.
  std::vector<std::uint16_t> label_of_group;
  Placement placement;  ///< [ops] where the table starts; empty: nowhere.
};

/// Thread: as Placer says. `graph`, `devices` and `constraints` must outlive it.
class SequencePlacer final : public Placer, public OffPolicy, public Imitating {
 public:
  /// Errors (kInvalid): numbers out of range, by their configuration key; a grouping or start of another
  /// graph; more than 4096 groups.
  static Result<std::unique_ptr<SequencePlacer>> make(const OpGraph& graph, const DeviceSet& devices,
                                                      const Constraints& constraints,
                                                      const Grouping& grouping, SequenceOptions options,
                                                      SequenceStart start, std::uint64_t seed);

  const OffPolicy* off_policy() const override { return this; }
  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void begin_update(std::uint64_t update) override { placer_.begin_update(update); }
  /// All episodes' placements are decoded at once, over one encoding; the mean is over placements.
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  void end_update(const LossParts& parts) override { placer_.end_update(store_, parts); }
  /// Of a placement's choices: where a group has ops without a device in common, others may lead to it too.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

  /// What an episode's actions say: devices [placements, groups] and log q.
  Result<Decisions> decode_actions(const Actions& actions) const;
  static Actions encode_actions(const Decisions& decisions);
  std::size_t groups() const { return groups_; }

 private:
  SequencePlacer(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                 const Grouping& grouping, SequenceOptions options, const SequenceStart& start,
                 std::uint64_t seed);
  Decoded place(Tape& tape, DecodeInput input) const;
  Var group_input(Tape& tape) const;  // [input rows, groups]

  const OpGraph& graph_;
  const DeviceSet& devices_;
  const Constraints& constraints_;
  const SequenceOptions options_;
  const std::uint64_t seed_;
  const std::size_t groups_;
  const std::vector<std::uint16_t> group_of_op_;
  const std::vector<std::vector<bool>> allowed_;
  std::vector<std::uint32_t> label_of_group_;
  Matrix types_;                  // [vocabulary, groups] how much of a group each type is; kTypes only
  Matrix fixed_;                  // What is not tunable: [rows, groups]
  mutable ParameterStore store_;  // A tape adds gradients to it; sampling records none.
  ParameterId embedding_{};       // [embedding, vocabulary or labels]
  GroupPlacer placer_;
};

}  // namespace emplace::policy
