#pragma once
/// Placeto's policy network along an episode: the states of a sequence differ in few nodes, and only what
/// follows from a difference is computed.

#include <cstdint>
#include <span>
#include <vector>

#include "policy/group_devices.h"
#include "policy/group_graph.h"
#include "policy/nn/graph_network.h"

namespace emplace::policy {

/// Evaluates the network on a sequence of states of one graph, each of which differs from the previous one in
/// few nodes.
///
/// After r rounds an embedding changes only within r hops of a changed node. And the embedding of round r of
/// R matters only to nodes that are R - r hops further on, so not at all where no path is that long. A step
/// computes the rest, which is a third of a whole pass or less.
///
/// Every computed column is a version. It is shared by all steps from the one that computed it until a later
/// step computes a newer one. backward() sums the gradients of a version over all its readers before it
/// continues, so it costs as much as the forward pass. Steps that are known in advance (visit()) are
/// evaluated together, round by round. The results are bit-identical to a full forward pass of every state,
/// however many steps are evaluated together (tested).
///
/// Thread: one at a time. Memory: grows with the steps until begin(), then is reused; with kNewest by what
/// the head reads and returns only, a few hundred floats per step.
class GraphTrace {
 public:
  enum class Keep : std::uint8_t {
    kAll,     ///< Every version, for backward().
    kNewest,  ///< The current versions. Steps are evaluated one by one, and there is no backward pass.
  };
  /// Starts a new sequence from `features` [features, nodes]; discards the previous one. `weights`, `graph`
  /// and `allowed` (null: all) must outlive it.
  void begin(const PackedGraphNetwork& weights, const GroupGraph& graph, const AllowedDevices* allowed,
             const Matrix& features, Keep keep = Keep::kAll);
  /// Sets the features [features] of `node` from the next step on.
  void change(std::uint32_t node, std::span<const float> features);
  const Matrix& features() const { return features_; }  ///< [features, nodes] Current features.
  /// A step at `node` in the current state, which evaluate() will compute.
  void visit(std::uint32_t node);
  /// Computes all steps since the last call.
  void evaluate();
  /// visit() and evaluate(); returns log p [devices] of `node` in the current state; -1e30 where forbidden.
  /// Valid until the next call.
  std::span<const float> step(std::uint32_t node);
  std::size_t steps() const { return nodes_.size(); }
  ConstMatrixMap log_p() const;  ///< [devices, steps] @pre evaluated.

  /// Backward pass from the gradient with respect to log p [devices, steps]; adds to `gradient`.
  /// @pre evaluated, and everything was kept.
  void backward(const Eigen::Ref<const Matrix>& seed, GraphNetworkGradient& gradient);

  /// Work [flop] of the forward passes since begin(); a multiply-add counts as 2. For tests: a step computes
  /// only what changed. @pre everything was kept.
  double forward_flops() const;

 private:
  /// A growing matrix; each column is a version of one kind of value.
  class Columns {
   public:
    void start(Eigen::Index height) { rows_ = height, used_ = 0; }
    Eigen::Index rows() const { return rows_; }
    Eigen::Index count() const { return rows_ == 0 ? 0 : static_cast<Eigen::Index>(used_) / rows_; }
    /// Room for more columns, whose values are undefined.
    float* append(Eigen::Index columns) {
      const std::size_t old = used_;
      used_ += static_cast<std::size_t>(rows_ * columns);
      if (data_.size() < used_) data_.resize(std::max(used_, 2 * old));
      return data_.data() + old;
    }
    void zeros(Eigen::Index height, Eigen::Index columns) {
      start(height);
      std::fill_n(append(columns), height * columns, 0.0f);
    }
    void shorten(Eigen::Index columns) { used_ = static_cast<std::size_t>(rows_ * columns); }
    float* at(std::size_t version) { return data_.data() + version * static_cast<std::size_t>(rows_); }
    const float* at(std::size_t version) const {
      return data_.data() + version * static_cast<std::size_t>(rows_);
    }
    const float* data() const { return data_.data(); }
    float* data() { return data_.data(); }

   private:
    Eigen::Index rows_ = 0;
    std::size_t used_ = 0;
    std::vector<float> data_;
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
    Versions slot;  // [nodes] With kNewest: where the current version is kept.
  };
  struct Direction {
    std::vector<Round> rounds;
    Versions height;  // [nodes] Longest path to a node that nothing reads.
    // Nodes within reach of the changes of each pending step, nearest first, one step after the other; and
    // where those within r hops end [pending steps, rounds + 1].
    Versions reached;
    std::vector<std::size_t> reached_end;
  };
  struct Pool {
    Columns input, each, sum;  // [td; bu] and relu(l) per version; Σ per step.
    // [nodes] Current version of `each`, and the td and bu versions it was computed from.
    Versions current, upper, lower, slot;
    Versions made_for, made_of_upper, made_of_lower;  // Node, td and bu version per version of `each`.
    Versions summed;                                  // Versions of `each` that a step sums, step by step.
    std::vector<std::size_t> summed_end;              // [steps]
  };

  std::size_t pending() const { return changed_end_.size(); }
  /// The changed nodes of a pending step.
  std::span<const std::uint32_t> changed(std::size_t step) const {
    const std::size_t begin = step == 0 ? 0 : changed_end_[step - 1];
    return std::span{changed_}.subspan(begin, changed_end_[step] - begin);
  }
  /// The nodes of `direction` within `hops` of the changes of a pending step.
  std::span<const std::uint32_t> reached(const Direction& direction, std::size_t step,
                                         std::size_t hops) const;
  /// Whether the embedding of `round` can have an effect.
  static bool matters(const Direction& direction, std::uint32_t node, std::size_t round) {
    return direction.height[node] + round + 1 >= direction.rounds.size();
  }
  std::span<const std::uint32_t> readers(std::size_t direction, std::uint32_t node) const {
    return direction == 0 ? graph_->children(node) : graph_->parents(node);
  }
  std::span<const std::uint32_t> neighbours(std::size_t direction, std::uint32_t node) const {
    return direction == 0 ? graph_->parents(node) : graph_->children(node);
  }
  void measure_heights(std::size_t direction);
  void find_reached(std::size_t direction);
  void embed();
  void propagate(std::size_t direction);
  void pass_round(std::size_t direction, std::size_t round);
  void advance(std::size_t direction, std::size_t round, std::size_t step, std::uint32_t& made);
  void list_pooled();
  void pool();
  void decide();
  void forget();
  std::size_t pool_of(Relation relation) const;
  /// Current versions after the last round; those of the features without message passing.
  Versions& last(std::size_t direction);
  void gather_embedding(std::uint32_t node, float* to);
  /// Reads into_last_[direction]; adds to into_embedded_.
  void propagate_backward(std::size_t direction, GraphNetworkGradient& gradient);

  const PackedGraphNetwork* weights_ = nullptr;
  const GroupGraph* graph_ = nullptr;
  const AllowedDevices* allowed_ = nullptr;
  Keep keep_ = Keep::kAll;
  Matrix features_;
  std::vector<std::uint32_t> dirty_;
  std::vector<bool> is_dirty_;

  Columns inputs_, embedded_;  // Features and e by version.
  Versions current_, slot_;    // [nodes] Current version of both.
  Direction directions_[2];
  std::vector<Pool> pools_;
  std::vector<std::uint32_t> nodes_;      // Node of each step.
  Versions own_upper_, own_lower_;        // td and bu version of the node at each step.
  Versions own_input_;                    // [pending steps] Version of the node's features.
  Columns head_inputs_, logits_, log_p_;  // One column per step.
  // Pending steps: their changed nodes, one step after the other, and where those of a step end.
  Versions changed_;
  std::vector<std::size_t> changed_end_;
  Versions now_;  // [nodes] Versions of e at the step that is looked at.
  std::vector<std::uint8_t> is_reached_;
  // Gradients of the backward pass.
  Columns into_last_[2], into_embedded_, into_sums_, into_messages_, into_each_, into_input_, pooled_;
  Scratch scratch_;
};

}  // namespace emplace::policy
