#pragma once
/// Placeto's policy network: node features → embeddings by message passing → summaries of the ancestors,
/// descendants and parallel nodes of the current node → log-probabilities of its devices.
///
///   e_v     = input(features_v)
///   td_v    ← g(Σ_{u ∈ parents(v)} relu(f(td_u))) + e_v, `rounds` times from td = e, all nodes at once;
///   bu_v    the same over children, with its own f and g
///   z_S     = h_S(Σ_{u ∈ S(v)} relu(l_S([td_u; bu_u])))    S = ancestors, descendants, parallel nodes of v
///   log p   = log softmax(head([z_ancestors; z_descendants; z_parallel; td_v; bu_v]))
///                                                          Paper: Placeto 2019, section 2.2  [PLA-GNN]
/// f, g, l, h and input are perceptrons with one hidden layer; the head has two. The sum of a node without
/// neighbours is 0.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "policy/group_devices.h"
#include "policy/group_graph.h"
#include "policy/nn/perceptron.h"

namespace emplace::policy {

/// Network between features and policy. The simple ones are the paper's ablations.
///                                                          Paper: Placeto 2019, section 4.3  [PLA-ABLATE]
enum class Aggregator : std::uint8_t {
  kMessages,           ///< The full network above.
  kSimplePartitioner,  ///< No message passing: features replace [td; bu].
  /// Without message passing, and with one sum over all nodes instead of three; only the "current" flag
  /// identifies v.
  kSimpleAggregator,
};
constexpr auto enum_words(Aggregator) {
  return EnumWords{"aggregator", std::array{EnumWord{Aggregator::kMessages, "messages"},
                                            EnumWord{Aggregator::kSimplePartitioner, "simple-partitioner"},
                                            EnumWord{Aggregator::kSimpleAggregator, "simple-aggregator"}}};
}

struct GraphNetworkOptions {
  Aggregator aggregator = Aggregator::kMessages;
  Eigen::Index embedding = 32;  ///< E
  Eigen::Index hidden = 64;     ///< Hidden size H of every perceptron.
  std::size_t rounds = 8;       ///< Number k of message-passing rounds.
  /// Departure: if > 0, the logits are C tanh(l / C), so that no device becomes permanently impossible.
  float logit_bound = 0;
  /// Departure: Σ_u over neighbours is divided by their number and Σ_{u ∈ S} by the number of all nodes, so
  /// that the scale of the inputs does not depend on graph size and degree and logits do not diverge.
  bool means = false;
  /// Departure: bonus on the logit of the node's current device, so that an untrained policy moves few nodes.
  /// Requires features with a one-hot device from row kDeviceRows on.
  float stay = 0;
  static constexpr Eigen::Index kDeviceRows = 2;

  void list(Settings& settings) {
    settings.add("embedding", embedding, between(1, 1024), "Size of a node's embedding.");
    settings.add("hidden", hidden, between(1, 4096), "Hidden size of every perceptron.");
    settings.add("rounds", rounds, between(1, 256), "Number of message-passing rounds. Paper: 8.");
    settings.add("logit_bound", logit_bound, between(0, 1e3),
                 "Bound on the absolute value of logits, so that no device becomes impossible; 0: no bound. "
                 "Paper: 0.");
    settings.add("means", means,
                 "Uses means over neighbours and over the graph instead of sums. Paper: false.");
    settings.add("stay", stay, between(0, 1e3), "Bonus on the logit of a group's current device. Paper: 0.");
  }
};

/// The parts of the network. Part is a shape, packed weights or gradients.
template <class Part>
struct GraphNetworkParts {
  struct Direction {
    Part message, update;  // f, g
  };
  struct Pool {
    Part each, all;  // l, h
  };
  std::vector<Part> input;            // One, or none if features are used directly.
  std::vector<Direction> directions;  // Top-down and bottom-up, or none.
  std::vector<Pool> pools;            // Ancestors, descendants, parallel; or one for all nodes.
  std::vector<Part> head;             // One element.
};

/// Shapes and names, independent of a graph. Thread: immutable after construction.
class GraphNetwork {
 public:
  /// Adds its matrices to `store`, named NAME.… . The last matrix of the head starts at 0, so that a new
  /// policy is uniform.
  GraphNetwork(ParameterStore& store, const std::string& name, Eigen::Index features, Eigen::Index devices,
               const GraphNetworkOptions& options, std::uint64_t seed);
  const GraphNetworkOptions& options() const { return options_; }
  Eigen::Index features() const { return features_; }
  Eigen::Index devices() const { return devices_; }
  const GraphNetworkParts<Perceptron>& parts() const { return parts_; }

 private:
  GraphNetworkOptions options_;
  Eigen::Index features_, devices_;
  GraphNetworkParts<Perceptron> parts_;
};

/// The current weights, packed. Thread: immutable after construction. `network` must outlive it.
class PackedGraphNetwork {
 public:
  PackedGraphNetwork(const GraphNetwork& network, const ParameterStore& store);
  const GraphNetwork& network() const { return network_; }
  const GraphNetworkParts<PackedPerceptron>& parts() const { return parts_; }

 private:
  const GraphNetwork& network_;
  GraphNetworkParts<PackedPerceptron> parts_;
};

/// Gradient sums over traces. Thread: one at a time.
class GraphNetworkGradient {
 public:
  explicit GraphNetworkGradient(const PackedGraphNetwork& of);
  void add_to(ParameterStore& store) const;

 private:
  friend class GraphTrace;
  GraphNetworkParts<PackedPerceptron::Gradient> parts_;
};

/// Evaluates the network on a sequence of states of one graph, each of which differs from the previous one in
/// few nodes. After r rounds an embedding changes only within r hops of a changed node, so a step recomputes
/// only those.
///
/// Every computed column is a version. It is shared by all steps from the one that computed it until a later
/// step computes a newer one. backward() sums the gradients of a version over all its readers before it
/// continues, so it costs as much as the forward pass. The results are bit-identical to a full forward pass
/// of every state (tested).
///
/// Thread: one at a time. Memory: grows with the steps until begin(), then is reused.
class GraphTrace {
 public:
  /// Starts a new sequence from `features` [features, nodes]; discards the previous one. `weights`, `graph`
  /// and `allowed` (null: all) must outlive it.
  void begin(const PackedGraphNetwork& weights, const GroupGraph& graph, const AllowedDevices* allowed,
             const Matrix& features);
  /// Sets the features [features] of `node` from the next step on.
  void change(std::uint32_t node, std::span<const float> features);
  const Matrix& features() const { return features_; }  ///< [features, nodes] Current features.
  /// Returns log p [devices] of `node` in the current state; -1e30 where forbidden. Valid until the next
  /// call.
  std::span<const float> step(std::uint32_t node);
  std::size_t steps() const { return nodes_.size(); }
  ConstMatrixMap log_p() const;  ///< [devices, steps]

  /// Backward pass from the gradient with respect to log p [devices, steps]; adds to `gradient`.
  void backward(const Eigen::Ref<const Matrix>& seed, GraphNetworkGradient& gradient);

  /// Work [flop] of the forward passes since begin(); a multiply-add counts as 2. For tests: a step computes
  /// only what changed.
  double forward_flops() const;

 private:
  /// A growing matrix; each column is a version of one kind of value.
  struct Columns {
    Eigen::Index rows = 0;
    std::vector<float> data;
    void start(Eigen::Index height) {
      rows = height;
      data.clear();
    }
    Eigen::Index count() const { return rows == 0 ? 0 : static_cast<Eigen::Index>(data.size()) / rows; }
    float* append(Eigen::Index columns) {
      const std::size_t old = data.size();
      data.resize(old + static_cast<std::size_t>(rows * columns));
      return data.data() + old;
    }
    void zeros(Eigen::Index height, Eigen::Index columns) {
      rows = height;
      data.assign(static_cast<std::size_t>(height * columns), 0.0f);
    }
    float* at(std::size_t version) { return data.data() + version * static_cast<std::size_t>(rows); }
    const float* at(std::size_t version) const {
      return data.data() + version * static_cast<std::size_t>(rows);
    }
  };
  /// Version numbers.
  using Versions = std::vector<std::uint32_t>;
  /// One round in one direction. Values and current versions of round 0 are the trace's embedded_ and
  /// current_.
  struct Round {
    Columns sum, value, message;  // Σ relu(f), the embedding, relu(f(embedding)); they share version numbers.
    Versions current;             // [nodes] Current version.
    // Per version: its node, the version of e it used, the message versions summed (concatenated).
    Versions node, own, sources;
  };
  struct Pool {
    Columns input, each, sum, all;  // [td; bu] and relu(l) per version; Σ and h per step.
    // [nodes] Current version of `each`, and the td and bu versions it was computed from.
    Versions current, upper, lower;
    Versions made_of_upper, made_of_lower;  // td and bu version per version of `each`.
  };

  void embed();
  void propagate(std::size_t direction);
  void pool(std::uint32_t node);
  std::size_t pool_of(Relation relation) const;
  /// Current versions after the last round; those of the features without message passing.
  Versions& last(std::size_t direction);
  void gather_embedding(std::uint32_t node, float* to);
  /// Reads into_last_[direction]; adds to into_embedded_.
  void propagate_backward(std::size_t direction, GraphNetworkGradient& gradient);

  const PackedGraphNetwork* weights_ = nullptr;
  const GroupGraph* graph_ = nullptr;
  const AllowedDevices* allowed_ = nullptr;
  Matrix features_;
  std::vector<std::uint32_t> dirty_;
  std::vector<bool> is_dirty_;

  Columns inputs_, embedded_;  // Features and e by version.
  Versions current_;           // [nodes] Current version of both.
  std::vector<Round> rounds_[2];
  std::vector<Pool> pools_;
  std::vector<std::uint32_t> nodes_;      // Node of each step.
  Versions own_upper_, own_lower_;        // td and bu version of the node at each step.
  Versions pooled_;                       // [steps, nodes] Versions of `each` that were summed.
  Columns head_inputs_, logits_, log_p_;  // One column per step.
  std::vector<std::uint32_t> reached_;    // Nodes within reach of a change, nearest first.
  std::vector<bool> is_reached_;
  // Gradients of the backward pass.
  Columns into_last_[2], into_embedded_, into_sums_, into_messages_, into_each_, into_input_;
  Scratch scratch_;
};

}  // namespace emplace::policy
