#pragma once
/// Placeto's policy network: node features → embeddings by message passing → summaries of what lies above,
/// below and beside the node at hand → log-probabilities of its devices.
///   e_v     = input(features_v)
///   td_v    ← g(Σ_{u ∈ parents(v)} relu(f(td_u))) + e_v, `rounds` times from td = e, all nodes at once;
///   bu_v    the same over children, with an f and a g of its own
///   z_S     = h_S(Σ_{u ∈ S(v)} relu(l_S([td_u; bu_u])))    S = ancestors, descendants, parallel nodes of v
///   log p   = log softmax(head([z_ancestors; z_descendants; z_parallel; td_v; bu_v]))
///                                                          Paper: Placeto 2019, section 2.2  [PLA-GNN]
/// f, g, l, h and input are perceptrons with one hidden layer, the head has two. A node without neighbours
/// receives the sum 0.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "policy/group_graph.h"
#include "policy/nn/perceptron.h"

namespace emplace::policy {

/// What stands between features and policy. The simple ones are the paper's ablations.
///                                                          Paper: Placeto 2019, section 4.3  [PLA-ABLATE]
enum class Aggregator : std::uint8_t {
  kMessages,           ///< All of the above.
  kSimplePartitioner,  ///< No message passing: features stand for [td; bu].
  kSimpleAggregator,   ///< And one sum over all nodes instead of three; the current flag alone tells v.
};
constexpr auto enum_words(Aggregator) {
  return EnumWords{"aggregator", std::array{EnumWord{Aggregator::kMessages, "messages"},
                                            EnumWord{Aggregator::kSimplePartitioner, "simple-partitioner"},
                                            EnumWord{Aggregator::kSimpleAggregator, "simple-aggregator"}}};
}

struct GraphNetworkOptions {
  Aggregator aggregator = Aggregator::kMessages;
  Eigen::Index embedding = 32;  ///< E
  Eigen::Index hidden = 64;     ///< H, of every perceptron.
  std::size_t rounds = 8;       ///< k, of message passing.
  /// Departure: > 0 makes the logits C tanh(l / C), so that no choice becomes impossible for good.
  float logit_bound = 0;
  /// Departure: Σ_u over neighbours is divided by their number, Σ_{u ∈ S} by that of all nodes, so that what
  /// a node sees is of one size in graphs of all sizes and degrees, and logits do not run away.
  bool means = false;
  /// Departure: added to the logit of the device where the node is, so that an untrained policy moves few
  /// nodes. Needs features whose rows from kDeviceRows on say where the node is, 0 or 1.
  float stay = 0;
  static constexpr Eigen::Index kDeviceRows = 2;

  void list(Settings& settings) {
    settings.add("embedding", embedding, between(1, 1024), "Size of a node's embedding.");
    settings.add("hidden", hidden, between(1, 4096), "Hidden size of every perceptron.");
    settings.add("rounds", rounds, between(1, 256), "Rounds of message passing. Paper: 8.");
    settings.add(
        "logit_bound", logit_bound, between(0, 1e3),
        "Keeps logits within this bound, so that no device becomes impossible; 0: no bound. Paper: 0.");
    settings.add("means", means,
                 "Takes means over neighbours and over the graph instead of sums. Paper: false.");
    settings.add("stay", stay, between(0, 1e3),
                 "Added to the logit of the device where a group is. Paper: 0.");
  }
};

/// The network's pieces, once per meaning of Piece: its shapes, its packed weights or its gradients.
template <class Piece>
struct GraphNetworkPieces {
  struct Direction {
    Piece message, update;  // f, g
  };
  struct Pool {
    Piece each, all;  // l, h
  };
  std::vector<Piece> input;           // One, or none where features are their own embedding.
  std::vector<Direction> directions;  // Top-down, bottom-up; or none.
  std::vector<Pool> pools;            // Ancestors, descendants, parallel; or all.
  std::vector<Piece> head;            // One.
};

/// Shapes and names; nothing depends on a graph. Thread: immutable after construction.
class GraphNetwork {
 public:
  /// Adds its matrices to `store` under NAME. The head's last matrix starts at 0, so that a new policy is
  /// uniform.
  GraphNetwork(ParameterStore& store, const std::string& name, Eigen::Index features, Eigen::Index devices,
               const GraphNetworkOptions& options, std::uint64_t seed);
  const GraphNetworkOptions& options() const { return options_; }
  Eigen::Index features() const { return features_; }
  Eigen::Index devices() const { return devices_; }
  const GraphNetworkPieces<Perceptron>& pieces() const { return pieces_; }

 private:
  GraphNetworkOptions options_;
  Eigen::Index features_, devices_;
  GraphNetworkPieces<Perceptron> pieces_;
};

/// The weights of now, packed. Thread: immutable after construction. `network` must outlive it.
class PackedGraphNetwork {
 public:
  PackedGraphNetwork(const GraphNetwork& network, const ParameterStore& store);
  const GraphNetwork& network() const { return network_; }
  const GraphNetworkPieces<PackedPerceptron>& pieces() const { return pieces_; }

 private:
  const GraphNetwork& network_;
  GraphNetworkPieces<PackedPerceptron> pieces_;
};

/// Sums of gradients over traces. Thread: one at a time.
class GraphNetworkGradient {
 public:
  explicit GraphNetworkGradient(const PackedGraphNetwork& of);
  void add_to(ParameterStore& store) const;

 private:
  friend class GraphTrace;
  GraphNetworkPieces<PackedPerceptron::Gradient> pieces_;
};

/// Devices that each node may use, as allowed_group_devices() gives them; empty: all.
using AllowedDevices = std::vector<std::vector<bool>>;

/// The network along a sequence of states of one graph, of which each differs from the last in few nodes.
/// An embedding after r rounds changes only within r hops of a changed node, so a step computes only those:
/// every value is a version, shared by all steps from the one that made it to the next one that makes
/// another. Backward sums the gradients of a version over all its readers before it goes on, and so does the
/// work of a batched replay in the time of what changed. Bits are those of a whole forward pass of each state
/// (tested).
/// Thread: one at a time. Memory: grows with the steps until begin(), and is kept for the next sequence.
class GraphTrace {
 public:
  /// A new sequence, from `features` [features, nodes]; all that was is forgotten. `weights`, `graph` and
  /// `allowed` (null: all) must outlive it.
  void begin(const PackedGraphNetwork& weights, const GroupGraph& graph, const AllowedDevices* allowed,
             const Matrix& features);
  /// Before the next step `node` has other features. [features]
  void change(std::uint32_t node, std::span<const float> features);
  const Matrix& features() const { return features_; }  ///< [features, nodes] of now
  /// log p [devices] for `node` as things are; -1e30 where forbidden. Valid until the next call.
  std::span<const float> step(std::uint32_t node);
  std::size_t steps() const { return nodes_.size(); }
  ConstMatrixMap log_p() const;  ///< [devices, steps]

  /// From the gradient with respect to log p [devices, steps] to that of the weights.
  void backward(const Eigen::Ref<const Matrix>& seed, GraphNetworkGradient& gradient);

  /// Work of the forward passes since begin(), two per multiply-add of the matrix products.
  double forward_flops() const;

 private:
  /// Columns one after another: versions of one kind of value.
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
  using Versions = std::vector<std::uint32_t>;
  /// One round of one direction. Round 0 is the input; its values and current versions are the trace's own.
  struct Round {
    Columns sum, value, message;  // Σ relu(f), the embedding, relu(f(embedding)); versions march together.
    Versions current;             // [nodes]
    Versions node, own, sources;  // Per version: whose, of which input, and the messages it summed.
  };
  struct Pool {
    Columns input, each, sum, all;          // [td; bu], relu(l), Σ, h; the last two by step.
    Versions current, upper, lower;         // [nodes] versions of `each`, and of what it was made of.
    Versions made_of_upper, made_of_lower;  // Per version of `each`.
  };

  void embed();
  void propagate(std::size_t direction);
  void pool(std::uint32_t node);
  std::size_t pool_of(Relation relation) const;
  Versions& last(std::size_t direction);  ///< Current versions after the last round; or of features.
  void gather_embedding(std::uint32_t node, float* to);
  /// From into_last_ of the direction; adds to into_embedded_.
  void propagate_backward(std::size_t direction, GraphNetworkGradient& gradient);

  const PackedGraphNetwork* weights_ = nullptr;
  const GroupGraph* graph_ = nullptr;
  const AllowedDevices* allowed_ = nullptr;
  Matrix features_;
  std::vector<std::uint32_t> dirty_;
  std::vector<bool> is_dirty_;

  Columns inputs_, embedded_;  // Features and e, by version.
  Versions current_;           // [nodes] version of both.
  std::vector<Round> rounds_[2];
  std::vector<Pool> pools_;
  std::vector<std::uint32_t> nodes_;      // By step.
  Versions own_upper_, own_lower_;        // By step: the node's own versions.
  Versions pooled_;                       // [steps, nodes] versions of `each` that were summed.
  Columns head_inputs_, logits_, log_p_;  // By step.
  std::vector<std::uint32_t> reached_;    // Nodes within reach of a change, nearest first.
  std::vector<bool> is_reached_;
  // Gradients on their way back.
  Columns into_last_[2], into_embedded_, into_sums_, into_messages_, into_each_, into_input_;
  Scratch scratch_;
};

}  // namespace emplace::policy
