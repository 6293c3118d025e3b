#pragma once
/// Placeto: an episode starts from some placement of a graph of groups and visits every group n times; at
/// each visit the policy sees the whole placement and may move the group. One policy for many graphs.
///   state s_t      run time, output bytes, device, visited flag and current flag of every group
///   action a_t     the device of the group at hand; s_{t+1} is s_t with it there
///                                                   Paper: Placeto 2019, section 2.1  [PLA-MDP]
/// Nothing that is measured is in the state, so an episode is drawn in one go, and measured afterwards:
/// placement t is that of s_{t+1}, and the advantage of step t says what a_t is answerable for.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/settings.h"
#include "graph/grouping.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"
#include "policy/decisions.h"
#include "policy/group_graph.h"
#include "policy/nn/graph_network.h"
#include "policy/objective/adaptive_beta.h"
#include "policy/objective/objective.h"
#include "policy/placer.h"

namespace emplace::policy {

/// In which order an episode visits the groups; see GroupGraph::order().
enum class Traversal : std::uint8_t {
  kTopological,
  kReversed,
  kRandom,  ///< Another one in every round of every episode.
};
constexpr auto enum_words(Traversal) {
  return EnumWords{"traversal", std::array{EnumWord{Traversal::kTopological, "topological"},
                                           EnumWord{Traversal::kReversed, "reversed"},
                                           EnumWord{Traversal::kRandom, "random"}}};
}

/// What an episode starts from.
enum class EpisodeStart : std::uint8_t {
  kSingle,  ///< Every group on the fastest device that it may use: least total time of all ops, lowest first.
  kRandom,  ///< Every group anywhere it may be, drawn per episode.
  kGiven,   ///< PlacetoGraph::start.
  kBest,    ///< The best placement that sample_from() is told of; else PlacetoGraph::start, else kSingle.
};
/// kGiven has no word: whoever gives a placement says so, no config does.
constexpr auto enum_words(EpisodeStart) {
  return EnumWords{"episode start", std::array{EnumWord{EpisodeStart::kSingle, "single"},
                                               EnumWord{EpisodeStart::kRandom, "random"},
                                               EnumWord{EpisodeStart::kBest, "best"}}};
}

struct PlacetoOptions {
  GraphNetworkOptions network;
  std::size_t rounds_per_episode = 1;  ///< n
  Traversal traversal = Traversal::kTopological;
  EpisodeStart start = EpisodeStart::kSingle;
  ObjectiveOptions objective;
  float entropy_end = 0;  ///< Where the weight of the entropy bonus goes from objective.entropy, linearly,
  std::uint64_t entropy_over = 0;  ///< over so many updates; 0: it stays.

  /// Those that are Placeto's alone; registry.h has the others.
  void list(Settings& settings) {
    network.list(settings);
    settings.add("passes", rounds_per_episode, between(1, 256), "How often an episode visits each node.");
    settings.add("traversal", traversal,
                 "Order of an episode's visits; a random one is drawn anew for each pass of each episode.");
  }
};

/// One graph that the policy places, as a view of it.
struct PlacetoGraph {
  const OpGraph* graph = nullptr;
  const DeviceSet* devices = nullptr;
  const Constraints* constraints = nullptr;
  Grouping grouping;                 ///< What is placed together; merge_small_groups() makes it small.
  std::vector<double> run_time_s;    ///< [groups] or empty: the sums of the cheapest estimate of each op.
  std::vector<double> output_bytes;  ///< [groups] or empty: the sums over all outputs of all ops.
  Placement start;  ///< [ops] for kGiven and kBest; a group starts where most of its ops are.
};

/// Thread: as Placer says. What the graphs point to must outlive it.
class PlacetoPlacer final : public Placer, public OffPolicy, public Imitating {
 public:
  /// The parameters depend on the options, the number of devices and the seed alone: those learned on some
  /// graphs place any other. Errors (kInvalid): no graph, an empty one, numbers out of range (names the key),
  /// graphs with different numbers of devices, features or a start of another graph.
  static Result<std::unique_ptr<PlacetoPlacer>> make(std::vector<PlacetoGraph> graphs, PlacetoOptions options,
                                                     std::uint64_t seed);

  /// n · groups of the largest graph; an episode of a smaller one has fewer.
  const OffPolicy* off_policy() const override { return this; }
  Imitating* imitating() override { return this; }
  std::size_t placements_per_episode() const override;
  /// Episode e is about graph e modulo their number.
  Actions sample(std::uint64_t episode, std::uint64_t update) const override {
    return sample_from({}, episode, update);
  }
  bool starts_at_best() const override { return options_.start == EpisodeStart::kBest; }
  Actions sample_from(std::span<const Placement> best, std::uint64_t episode,
                      std::uint64_t update) const override;
  /// One placement per step, in order.
  Result<std::vector<Placement>> expand(const Actions& actions) const override;
  /// The last placement of an episode of the first graph in which every step takes the likeliest device. It
  /// starts as episodes do (from kSingle where those start at random) and visits in topological order unless
  /// reversed.
  Placement greedy() const override { return greedy_of(0); }
  Placement greedy_of(std::size_t graph) const;
  Result<LossParts> accumulate_gradient(std::span<const ScoredEpisode> episodes) override;
  /// An episode of the first graph that moves every group to where most of its ops are in `placement`.
  Result<LossParts> accumulate_imitation(const Placement& placement) override;
  void begin_update(std::uint64_t update) override;
  void end_update(const LossParts& parts) override;
  std::size_t graph_of(const Actions& actions) const override;
  /// One number: of all steps, given the start.
  Result<std::vector<double>> log_probabilities(const Actions& actions) const override;
  /// One placement: the steps that lead to it from where constant starts start, in topological order unless
  /// reversed. Errors: kInvalid also for several rounds, which lead to one placement in many ways.
  Result<Actions> actions_of(std::size_t graph, std::span<const Placement> placements,
                             std::span<const double> log_q) const override;
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }

  /// One episode's choices, as Actions carries them.
  struct Choice {
    std::uint32_t graph = 0;
    std::vector<std::uint8_t> start;  ///< [groups]
    std::vector<std::uint16_t> node;  ///< [steps] the group visited
    Decisions decisions;              ///< Where it went: one placement of so many stages.
  };
  /// Errors (kInvalid): not this policy's: sizes, numbers out of range, a round that misses a group, a device
  /// that a group may not use, log q missing where the objective needs it.
  Result<Choice> decode_actions(const Actions& actions) const;
  static Actions encode_actions(const Choice& choice);
  /// [devices, steps] log-probabilities of now along an episode. @pre decode_actions() gave it.
  Matrix log_probabilities(const Choice& choice) const;
  const GroupGraph& group_graph(std::size_t graph) const { return tasks_[graph].nodes; }

 private:
  /// A graph as episodes walk over it.
  struct Task {
    PlacetoGraph view;
    GroupGraph nodes;
    AllowedDevices allowed;           // [groups, devices]; empty: all.
    std::vector<std::uint8_t> start;  // [groups] where constant starts start.
    Matrix features;                  // [features, groups] before any device or flag.
    bool may_use(std::size_t node, std::size_t device) const {
      return allowed.empty() || allowed[node][device];
    }
    /// [groups] where most ops of each group are, lowest device first.
    std::vector<std::uint8_t> majority(const Placement& placement) const;
    /// Every group where most of its ops are, if it may be there, else where it is in `start`.
    std::vector<std::uint8_t> start_at(const Placement& placement) const;
  };
  class Walk;

  /// Traces at rest: a trace's memory is worth keeping, and many threads may draw. Thread: any.
  class TracePool {
   public:
    using Loan = std::unique_ptr<GraphTrace, std::function<void(GraphTrace*)>>;
    Loan borrow();  ///< Back when it goes out of scope; the pool must outlive it.

   private:
    Mutex mutex_;
    std::vector<std::unique_ptr<GraphTrace>> at_rest_ EMPLACE_GUARDED_BY(mutex_);
  };
  /// What an update works with.
  struct Learning {
    explicit Learning(PlacetoPlacer& placer)
        : weights{placer.network_, placer.store_}, gradient{weights}, trace{placer.learning_trace_} {}
    PackedGraphNetwork weights;
    GraphNetworkGradient gradient;
    GraphTrace& trace;
  };

  PlacetoPlacer(std::vector<Task> tasks, PlacetoOptions options, std::uint64_t seed);
  static Result<Unit> check_view(const PlacetoGraph& view, std::size_t number);
  static Result<Task> make_task(PlacetoGraph view, const PlacetoOptions& options);
  std::size_t num_devices() const { return tasks_.front().view.devices->size(); }
  /// Adds `scale` times the gradient of an episode's loss; its parts count as much.
  void learn(const Choice& choice, std::span<const float> advantages, const ObjectiveOptions& objective,
             float scale, Learning& learning, LossParts& parts) const;

  const std::vector<Task> tasks_;
  const PlacetoOptions options_;
  const std::uint64_t seed_;
  ParameterStore store_;
  const GraphNetwork network_;
  const AdaptiveBeta beta_;
  mutable TracePool traces_;
  // Learning only.
  GraphTrace learning_trace_;
  float entropy_;
};

}  // namespace emplace::policy
