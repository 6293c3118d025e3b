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

}  // namespace emplace::policy
