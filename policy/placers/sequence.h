#pragma once
/// Places the groups of a given grouping by an attentional sequence-to-sequence network: ColocRL, Spotlight,
/// and the Hierarchical Planner's ablation with random groups.
///   J = E_{d ~ π(·; groups)} R(d);   the loss of each paper over the choices d_1 … d_T
///   Paper: ColocRL 2017, section 3.2 [COL-SEQ]; Spotlight 2018, section 5.1 [SPO-SEQ]; Hierarchical 2018,
///   section 3

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "graph/grouping.h"
#include "policy/placer.h"
#include "policy/placers/group_placer.h"

namespace emplace::policy {

/// Input features of a group for the encoder.
enum class GroupInput : std::uint8_t {
  /// Trainable embeddings of the types of its ops ⊕ their zero-padded output shapes, both as means or sums
  /// over the group ⊕ 0/1 adjacency to the groups.   Paper: ColocRL 2017, section 3.2  [COL-EMB]
  kTypes,
  kNames,   ///< Trainable embedding of its name (its label).   Paper: Spotlight 2018, section 5.1  [SPO-EMB]
  kCounts,  ///< group_embeddings() of features.h, not trainable.   Paper: Hierarchical 2018, section 2
};
constexpr auto enum_words(GroupInput) {
  return EnumWords{"group input",
                   std::array{EnumWord{GroupInput::kTypes, "types"}, EnumWord{GroupInput::kNames, "names"},
                              EnumWord{GroupInput::kCounts, "counts"}}};
}

/// `groups` counts if the policy places any graph: the adjacency has as many rows. With `orders` the graphs
/// are given as often, each time with their groups in another order.
struct SequenceOptions : CommonPlacerOptions {
  GroupPlacerOptions network;
  GroupInput input = GroupInput::kTypes;
  Eigen::Index embedding = 20;  ///< Size of the embedding of a type or name.
  bool sum_inputs = false;      ///< Use sums over a group's ops instead of means (not kNames).

  /// The settings specific to this method; registry.h lists the shared ones.
  void list(Settings& settings) {
    settings.add("embedding", embedding, between(1, 4096),
                 "Size of the embedding of an op type (Spotlight: of a group's name). Paper: 20.");
    settings.add(
        "sum_inputs", sum_inputs,
        "Uses sums over a group's ops of type embeddings (random-grouping: of types) and shapes instead "
        "of means; spotlight has neither. Paper of random-grouping: true.");
    network.list(settings);
  }
};

/// Settings of the papers. Sizes missing in a paper are those of the Hierarchical Planner's Placer.
SequenceOptions colocrl_options();
SequenceOptions spotlight_options();
/// The Placer of the Hierarchical Planner on random groups.   Paper: Hierarchical 2018, section
/// 3  [HIE-RANDOM]
SequenceOptions random_grouping_options();

/// Optional starting point of the placer. A policy that places any graph has no table.
struct SequenceInitial {
  /// [groups] Groups with the same label share a row of the table, and with kNames an embedding; empty: no
  /// sharing. Of a policy that places any graph: the embeddings of kNames, at most the number of words.
  std::vector<std::uint16_t> label_of_group;
  Placement placement;  ///< [ops] Initial placement of the table; empty: none.
};

/// One graph that the policy places. Refers to its data.
struct SequenceGraph : GraphView {
  Grouping grouping;  ///< Groups, numbered in the order in which they go into the network.
  SequenceInitial start;
};

/// Thread: as Placer. The objects that the graphs refer to must outlive it.
class SequencePlacer final : public Placer, public OffPolicy, public Imitating {
 public:
  /// With `options.features.words` the parameters depend only on the options, the number of devices and the
  /// seed, so those learned on some graphs can place any other graph; without, there is one graph. Errors
  /// (kInvalid): a number out of range (names the configuration key), a grouping or start of another graph,
  /// more groups than allowed, several graphs without words, or graphs with different numbers of devices.
  static Result<std::unique_ptr<SequencePlacer>> make(const std::vector<SequenceGraph>& graphs,
                                                      SequenceOptions options, std::uint64_t seed);

  const OffPolicy* off_policy() const override { return this; }
  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override { return options_.placements; }
  /// Episode e places graph e modulo their number; each order of a graph in turn.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override;
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  Placement greedy() const override;
  /// Learns a placement of the first graph.
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void start_update(std::uint64_t update) override { placer_.start_update(update); }
  std::size_t graph_of(const Actions& actions) const override { return task_of(actions) % graphs(); }
  /// Decodes the placements of all episodes of a graph together over one encoding; the mean is over
  /// placements.
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  void end_update(const LossParts& parts) override { placer_.end_update(store_, parts); }
  /// Log-probability of the choices themselves. If a group has ops without a common device, other choices may
  /// lead to the same placement.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

  /// Decodes the actions of an episode: devices [placements, groups] and log q.
  Result<Decisions> decode_actions(const Actions& actions) const;
  /// `task`: number of a graph, or with several orders n graphs · order + number.
  Actions encode_actions(std::size_t task, const Decisions& decisions) const;
  std::size_t groups(std::size_t graph = 0) const { return tasks_[graph].groups; }

 private:
  /// Precomputed data of one graph in one order.
  struct Task : GraphView {
    std::size_t groups = 0;
    std::vector<std::uint32_t> group_of_op;
    AllowedDevices allowed;
    std::vector<std::uint32_t> label_of_group;
    Matrix types;  // [vocabulary, groups] Share (or count) of each type in a group; kTypes only.
    Matrix fixed;  // [rows, groups] Input features that are not trainable.
  };

  SequencePlacer(std::vector<Task> tasks, std::span<const std::uint16_t> label_of_group,
                 const Placement& start, SequenceOptions options, std::uint64_t seed);
  static Result<Unit> check_graph(const SequenceGraph& view, const SequenceOptions& options);
  static Task make_task(const SequenceGraph& view, const SequenceOptions& options);
  bool any_graph() const { return options_.features.any_graph(); }
  bool numbered() const { return any_graph() || options_.orders > 0; }  ///< Whether actions name their task.
  std::size_t task_of(const Actions& actions) const {
    return numbered() ? graph_or_first(actions.bytes, tasks_.size()) : 0;
  }
  std::size_t graphs() const { return tasks_.size() / std::max<std::size_t>(options_.orders, 1); }
  Decoded place(Tape& tape, const Task& task, DecodeInput input) const;
  Var group_input(Tape& tape, const Task& task) const;  // [input rows, groups]

  const std::vector<Task> tasks_;  // [orders, graphs]
  const SequenceOptions options_;
  const std::uint64_t seed_;
  mutable ParameterStore store_;  // A tape adds gradients to it; sampling runs no backward pass.
  ParameterId embedding_{};       // [embedding, vocabulary or labels]
  GroupPlacer placer_;
};

}  // namespace emplace::policy
