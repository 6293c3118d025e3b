#include <algorithm>
#include <array>
#include <optional>

#include "graph/training/forward_pass.h"

namespace emplace::training {
namespace {

/// Finds idioms and replaces them in the pass. Thread: one.
class Joiner {
 public:
  Joiner(const OpGraph& graph, ForwardPass& pass)
      : graph_{graph}, pass_{pass}, gone_(graph.num_ops(), false), joined_(graph.num_ops()) {}

  void run() {
    for (const Node& node : pass_.nodes) {
      const OpId op = node.op;
      if (node.type == "Erf") gelu(op);
      if (node.type == "Sigmoid") silu(op);
      if (node.type == "MatMul") linear(op);
      if (node.type == "ReduceMean") layer_norm(op);
    }
    std::vector<Node> kept;
    for (Node& node : pass_.nodes) {
      if (auto& whole = joined_[index(node.op)]; whole) {
        kept.push_back(*std::move(whole));
      } else if (!gone_[index(node.op)]) {
        kept.push_back(std::move(node));
      }
    }
    pass_.nodes = std::move(kept);
  }

 private:
  std::string_view type(OpId op) const { return op == kNoOp ? std::string_view{} : graph_.type_name(op); }

  /// The only reader of the op's only output; kNoOp if there are several or none.
  OpId reader(OpId op) const {
    if (op == kNoOp || graph_.num_outputs(op) != 1) return kNoOp;
    const auto readers = graph_.consumers(graph_.first_output(op));
    return readers.size() == 1 ? readers.front() : kNoOp;
  }
  OpId reader(OpId op, std::string_view wanted) const {
    const OpId found = reader(op);
    return type(found) == wanted ? found : kNoOp;
  }

  /// The other operand of a two-operand op; nothing if `one` is not an operand.
  std::optional<TensorId> other_operand(OpId op, TensorId one) const {
    if (op == kNoOp) return std::nullopt;
    const auto inputs = graph_.inputs(op);
    if (inputs.size() != 2) return std::nullopt;
    if (inputs[0] == one) return inputs[1];
    if (inputs[1] == one) return inputs[0];
    return std::nullopt;
  }
  /// The other operand of an op with a number.
  std::optional<TensorId> scaled(OpId op) const {
    const auto inputs = graph_.inputs(op);
    if (inputs.size() != 2) return std::nullopt;
    if (pass_.is_number(graph_, inputs[1])) return inputs[0];
    if (pass_.is_number(graph_, inputs[0])) return inputs[1];
    return std::nullopt;
  }

  void join(std::string_view kind, OpId named, OpId last, std::vector<TensorId> inputs,
            std::initializer_list<OpId> all) {
    for (const OpId op : all) {
      if (gone_[index(op)]) return;
    }
    for (const OpId op : all) gone_[index(op)] = true;
    joined_[index(last)] = Node{named, std::string{kind}, std::move(inputs), last};
  }

  void gelu(OpId erf) {
    const OpId before = graph_.producer(graph_.inputs(erf)[0]);
    if (type(before) != "Div" && type(before) != "Mul") return;
    const auto x = scaled(before);
    const OpId plus = reader(erf, "Add"), times = reader(plus, "Mul");
    if (!x || reader(before) != erf || times == kNoOp || !scaled(plus)) return;
    const auto other = other_operand(times, graph_.first_output(plus));
    if (!other) return;
    if (*other == *x) {  // Order x (1 + erf), then ½.
      const OpId half = reader(times, "Mul");
      if (half != kNoOp && scaled(half) == graph_.first_output(times))
        join("Gelu", erf, half, {*x}, {before, erf, plus, times, half});
      return;
    }
    const OpId half = graph_.producer(*other);  // Order ½ x, then (1 + erf).
    if (type(half) == "Mul" && scaled(half) == *x && reader(half) == times)
      join("Gelu", erf, times, {*x}, {before, erf, plus, half, times});
  }

  void silu(OpId sigmoid) {
    const TensorId x = graph_.inputs(sigmoid)[0];
    const OpId times = reader(sigmoid, "Mul");
    if (times != kNoOp && other_operand(times, graph_.first_output(sigmoid)) == x)
      join("Silu", sigmoid, times, {x}, {sigmoid, times});
  }

  void linear(OpId product) {
    const OpId plus = reader(product, "Add");
    if (plus == kNoOp) return;
    const auto bias = other_operand(plus, graph_.first_output(product));
    const auto inputs = graph_.inputs(product);
    if (!bias || graph_.shape(*bias).size() != 1 || type(graph_.producer(*bias)) != "Parameter") return;
    if (inputs.size() != 2 || graph_.shape(inputs[1]).size() != 2 || graph_.shape(inputs[0]).size() < 2)
      return;
    if (graph_.shape(*bias)[0] != graph_.shape(inputs[1])[1]) return;
    join("Linear", product, plus, {inputs[0], inputs[1], *bias}, {product, plus});
  }

  /// Matches from the first mean on: d = x − mean(x); d / √(mean(d²) + ε) · w + b.
  void layer_norm(OpId mean) {
    const TensorId x = graph_.inputs(mean)[0];
    const OpId less = reader(mean, "Sub");
    if (less == kNoOp || graph_.inputs(less)[0] != x) return;
    const TensorId d = graph_.first_output(less);
    OpId square = kNoOp, over = kNoOp;
    for (const OpId op : graph_.consumers(d)) {
      if (type(op) == "Div" && graph_.inputs(op)[0] == d) over = op;
      if (type(op) == "Pow" || type(op) == "Mul") square = op;
    }
    const OpId variance = reader(square, "ReduceMean"), plus = reader(variance, "Add"),
               root = reader(plus, "Sqrt");
    if (over == kNoOp || graph_.consumers(d).size() != 2 || reader(root) != over) return;
    const OpId times = reader(over, "Mul"), shift = reader(times, "Add");
    if (shift == kNoOp) return;
    const auto weight = other_operand(times, graph_.first_output(over));
    const auto bias = other_operand(shift, graph_.first_output(times));
    if (!weight || !bias || graph_.shape(*weight).size() != 1 || graph_.shape(*bias).size() != 1) return;
    if (graph_.shape(x).empty() || graph_.shape(*weight)[0] != graph_.shape(x).back()) return;
    join("LayerNormalization", mean, shift, {x, *weight, *bias},
         {mean, less, square, variance, plus, root, over, times, shift});
  }

  const OpGraph& graph_;
  ForwardPass& pass_;
  std::vector<bool> gone_;                   // [ops] Whether the op is inside an idiom.
  std::vector<std::optional<Node>> joined_;  // [ops] Joined node, by the last op of the idiom.
};

}  // namespace

void join_idioms(const OpGraph& graph, ForwardPass& pass) { Joiner{graph, pass}.run(); }

}  // namespace emplace::training
