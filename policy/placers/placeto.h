#pragma once
/// Placeto: an episode starts from a placement of a graph of groups and visits every group n times. At each
/// visit the policy sees the whole placement and may move the group. One policy serves many graphs.
///   state s_t      run time, output bytes, device, visited flag and current flag of every group
///   action a_t     the device of the current group; s_{t+1} is s_t with that change
///                                                   Paper: Placeto 2019, section 2.1  [PLA-MDP]
/// The state contains no measurement, so an episode is drawn first and measured afterwards: placement t is
/// that of s_{t+1}, and the advantage of step t is the credit of a_t.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/settings.h"
#include "graph/grouping.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/group_devices.h"
#include "policy/group_graph.h"
#include "policy/nn/graph_network.h"
#include "policy/nn/graph_trace.h"
#include "policy/placer.h"
#include "policy/placers/common_options.h"

namespace emplace::policy {

/// Order in which an episode visits the groups; see GroupGraph::order().
enum class Traversal : std::uint8_t {
  kTopological,
  kReversed,
  kRandom,  ///< A new order in every round of every episode, unless PlacetoOptions::orders are fixed.
};
constexpr auto enum_words(Traversal) {
  return EnumWords{"traversal", std::array{EnumWord{Traversal::kTopological, "topological"},
                                           EnumWord{Traversal::kReversed, "reversed"},
                                           EnumWord{Traversal::kRandom, "random"}}};
}

/// Starting point of an episode; PlacetoGraph::start replaces all but kBest.
enum class InitialPlacement : std::uint8_t {
  kSingle,  ///< Every group on its fastest allowed device: least total time of all ops, lowest index first.
  kRandom,  ///< Every group on a random allowed device, drawn per episode.
  /// The same, drawn once per graph: a function of the seed and the graph's ops, so that it is the same in
  /// another run, and for a graph that the policy has not seen.
  kFixedRandom,
  kBest,  ///< The best placement passed to sample_from(), else as kSingle.
};
constexpr auto enum_words(InitialPlacement) {
  return EnumWords{"episode start", std::array{EnumWord{InitialPlacement::kSingle, "single"},
                                               EnumWord{InitialPlacement::kRandom, "random"},
                                               EnumWord{InitialPlacement::kFixedRandom, "fixed-random"},
                                               EnumWord{InitialPlacement::kBest, "best"}}};
}

/// An episode of kRandom follows one of `orders` in every round; without them a new one in every round of
/// every episode. greedy() visits in the `unseen_order`, if there is one.
struct PlacetoOptions : CommonPlacerOptions {
  GraphNetworkOptions network;
  std::size_t rounds_per_episode = 1;  ///< Number n of visits per group.
  Traversal traversal = Traversal::kTopological;
  /// The first placement of an episode is its start, so that the first reward is ρ(s_0) − ρ(s_1).   [PLA-R]
  bool measure_start = false;
  /// A node has a further feature, c / (c + x): c its run time, x the time in which its outputs cross the
  /// machine's mean link. Unlike the others it is not relative to the graph's largest. Not the paper's.
  bool transfer_ratio = false;
  InitialPlacement start = InitialPlacement::kSingle;

  /// The settings specific to Placeto; registry.h lists the shared ones.
  void list(Settings& settings) {
    network.list(settings);
    settings.add("passes", rounds_per_episode, between(1, 256), "Number of visits per node and episode.");
    settings.add("traversal", traversal,
                 "Order in which an episode visits the nodes; a random order is drawn for each pass of each "
                 "episode, unless policy.orders are fixed.");
    settings.add(
        "measure_start", measure_start,
        "Also measures the placement at which an episode starts, so that the first intermediate reward is "
        "what the first step changes; else it counts from 0. Paper: true.");
    settings.add("transfer_ratio", transfer_ratio,
                 "Gives the network each node's share of compute time in compute and transfer time, which is "
                 "comparable between graphs. Paper: false.");
  }
};

/// One graph that the policy places. Refers to its data.
struct PlacetoGraph : GraphView {
  Grouping grouping;  ///< Grouping to place; reduce it with merge_small_groups().
  Placement start;    ///< [ops] A group starts on its majority device; empty: by PlacetoOptions::start.
};

/// Thread: as Placer. The objects that the graphs refer to must outlive it.
class PlacetoPlacer final : public Placer, public OffPolicy, public Imitating {
 public:
  /// The parameters depend only on the options, the number of devices and the seed, so those learned on some
  /// graphs can place any other graph. Errors (kInvalid): no graph, an empty graph, a number out of range
  /// (names the key), graphs with different numbers of devices, or a start of another graph.
  static Result<std::unique_ptr<PlacetoPlacer>> make(std::vector<PlacetoGraph> graphs, PlacetoOptions options,
                                                     std::uint64_t seed);

  const OffPolicy* off_policy() const override { return this; }
  Imitating* imitating() override { return this; }
  /// n · groups of the largest graph, and the start if it is measured; episodes of smaller graphs have fewer.
  std::size_t placements_per_episode() const override;
  /// Episode e places graph e modulo their number.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override {
    return sample_from({}, episode, update);
  }
  Incumbent incumbent() const override {
    return options_.start == InitialPlacement::kBest ? Incumbent::kFitting : Incumbent::kNone;
  }
  Actions sample_from(std::span<const Placement> best, std::uint64_t episode,
                      std::uint64_t update) const override;
  /// One placement per step, in order, after the start if that is measured.
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  /// An episode of the first graph that takes the most likely device at every step. It starts as episodes do
  /// (where each has a random start of its own, as kFixedRandom) and visits in topological order unless
  /// reversed, or in the given unseen order.
  std::vector<Placement> greedy_pass() const override;
  Placement greedy() const override { return greedy_pass().back(); }
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// Learns the episode of the first graph that moves every group to its majority device in `placement`, from
  /// where greedy_pass() starts.
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void start_update(std::uint64_t update) override;
  void end_update(const LossParts& parts) override;
  std::size_t graph_of(const Actions& actions) const override {
    return graph_or_first(actions.bytes, tasks_.size());
  }
  /// One number: the log-probability of all steps given the start.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  /// Exactly one placement: the steps that lead to it from where a greedy_pass() of the graph starts, in
  /// topological order unless reversed. Errors: kInvalid also for several rounds, where a placement does not
  /// determine the steps.
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

  /// Decoded form of the Actions of one episode.
  struct Choice {
    std::size_t graph = 0;
    std::vector<std::uint8_t> start;  ///< [groups]
    std::vector<std::uint16_t> node;  ///< [steps] Group visited.
    Decisions decisions;              ///< Devices chosen: one placement with a stage per step.
  };
  /// Errors (kInvalid): actions of another policy: wrong sizes, numbers out of range, a round that misses a
  /// group, a forbidden device, or log q missing although the loss needs it.
  Result<Choice> decode_actions(const Actions& actions) const;
  static Actions encode_actions(const Choice& choice);
  /// [devices, steps] Current log-probabilities along an episode. @pre `choice` is from decode_actions().
  Matrix log_probabilities(const Choice& choice) const {
    return replay(PackedGraphNetwork{network_, store_}, choice, nullptr);
  }
  /// The nodes of a graph. For tests: an episode visits each of them.
  const GroupGraph& group_graph(std::size_t graph) const { return tasks_[graph].nodes; }

 private:
  /// Precomputed data of one graph.
  struct Task {
    PlacetoGraph view;
    GroupGraph nodes;
    AllowedDevices allowed;           // [groups, devices]; empty: all.
    std::vector<std::uint8_t> start;  // [groups] Constant start.
    Matrix features;                  // [features, groups] Features without devices and flags.
    bool may_use(std::size_t node, std::size_t device) const {
      return allowed.empty() || allowed[node][device];
    }
    /// [groups] Majority device of each group.
    std::vector<std::uint8_t> majority(const Placement& placement) const;
    Placement placement(std::span<const std::uint8_t> device_of_group) const {
      return spread_groups(*view.constraints, view.grouping.group_of_op, device_of_group);
    }
    /// Majority device of every group if allowed, else its device in `start`.
    std::vector<std::uint8_t> start_at(const Placement& placement) const;
    /// A random allowed device per group.
    std::vector<std::uint8_t> random_start(Rng& rng) const;
  };
  class Walk;

  PlacetoPlacer(std::vector<Task> tasks, PlacetoOptions options, std::uint64_t seed);
  static Result<Task> make_task(PlacetoGraph view, const PlacetoOptions& options, std::uint64_t seed);
  std::size_t num_devices() const { return tasks_.front().view.devices->size(); }
  /// [groups] Order of visits unless it is random.
  std::vector<std::uint16_t> usual_order(const Task& task) const;
  /// Walks along an episode; the trace restarts when it is full. Returns log p [devices, steps]. Calls
  /// `at_end(trace, first step)` for each full trace, and for the last one; null: not.
  using AtEnd = std::function<void(GraphTrace& trace, Eigen::Index first)>;
  Matrix replay(const PackedGraphNetwork& weights, const Choice& choice, const AtEnd& at_end) const;
  /// Adds the gradients of the means over the episodes of their losses. `advantages` [episodes][steps].
  LossParts learn(std::span<const Choice> choices, std::span<const std::span<const float>> advantages,
                  const LossOptions& loss);

  const std::vector<Task> tasks_;
  const PlacetoOptions options_;
  const std::uint64_t seed_;
  ParameterStore store_;
  const GraphNetwork network_;
  const AdaptiveBeta beta_;
  float entropy_;  // Used by the learning thread only.
};

}  // namespace emplace::policy
