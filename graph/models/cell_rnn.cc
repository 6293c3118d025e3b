#include <fmt/core.h>

#include <utility>

#include "graph/models/layers.h"
#include "graph/models/networks.h"

namespace emplace::models {
namespace {

using Scope = TrainingTape::Scope;

Tensor activated(TrainingTape& tape, Activation activation, Tensor x) {
  switch (activation) {
    case Activation::kTanh:
      return tape.tanh(x);
    case Activation::kRelu:
      return tape.relu(x);
    case Activation::kSigmoid:
      return tape.sigmoid(x);
    case Activation::kIdentity:
      break;
  }
  return x;
}

/// The weights of one layer: per node [2 hidden, inputs], gate and candidate in one product.
class Cell {
 public:
  Cell(TrainingTape& tape, std::string name, const CellRnnOptions& options)
      : name_{std::move(name)}, nodes_{options.nodes}, read_(nodes_.size(), false) {
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const std::int64_t inputs = k == 0 ? 2 * options.hidden : options.hidden;
      weight_.push_back(
          tape.parameter(fmt::format("{}.node{}.weight", name_, k), {2 * options.hidden, inputs}));
      if (k > 0) read_[nodes_[k].input] = true;
    }
  }

  /// Returns the mean of the unread nodes; ops are in the scope "NAME/nodeK".
  Tensor step(TrainingTape& tape, Tensor x, Tensor before) const {
    const Scope scope{tape, name_};
    std::vector<Tensor> h;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const Scope at_node{tape, fmt::format("node{}", k)};
      const Tensor input = k == 0 ? tape.cat({x, before}) : h[nodes_[k].input];
      const Tensor residual = k == 0 ? before : input;
      const std::vector<Tensor> halves = tape.split(tape.linear(input, weight_[k]), 2);
      const Tensor gate = tape.sigmoid(halves[0]);
      const Tensor candidate = activated(tape, nodes_[k].activation, halves[1]);
      h.push_back(tape.add(residual, tape.mul(gate, tape.sub(candidate, residual))));
    }
    const Scope at_mean{tape, "mean"};
    Tensor sum{};
    std::size_t loose = 0;
    for (std::size_t k = 0; k < h.size(); ++k) {
      if (read_[k]) continue;
      sum = loose++ == 0 ? h[k] : tape.add(sum, h[k]);
    }
    return loose == 1 ? sum : tape.divide(sum);
  }

 private:
  std::string name_;
  std::vector<RecurrentNode> nodes_;
  std::vector<bool> read_;  // [nodes] Whether a later node of the cell reads it.
  std::vector<Tensor> weight_;
};

Result<Unit> check_options(const CellRnnOptions& options) {
  const bool sizes = !options.nodes.empty() && options.layers >= 1 && options.layers <= 99 &&
                     options.steps >= 1 && options.steps <= 99 && options.hidden >= 1 && options.batch >= 1 &&
                     options.vocabulary >= 2;
  if (!sizes) return invalid("recurrent cell", "sizes are out of range", "use 1 to 99 layers and steps");
  for (std::size_t k = 1; k < options.nodes.size(); ++k) {
    if (options.nodes[k].input >= k)
      return invalid("recurrent cell", fmt::format("node {} reads a node that does not precede it", k));
  }
  return Unit{};
}

}  // namespace

Result<OpGraph> cell_rnn_graph(const CellRnnOptions& options, Identity identity) {
  EMPLACE_TRY(check_options(options));
  const auto made = make_tape({}, options.optimizer);
  TrainingTape& tape = *made;
  const Tensor table = tape.parameter("embed.weight", {options.vocabulary, options.hidden});
  std::vector<Cell> cells;
  for (std::int64_t i = 0; i < options.layers; ++i) cells.emplace_back(tape, fmt::format("l{}", i), options);
  const Tensor project = tape.parameter("proj.weight", {options.vocabulary, options.hidden});
  const Tensor project_bias = tape.parameter("proj.bias", {options.vocabulary});
  const Tensor tokens = tape.input("tokens", DType::kI64, {options.batch, options.steps});
  const Tensor target = tape.input("target", DType::kI64, {options.batch, options.steps});

  const std::vector<Tensor> xs = tape.unbind([&] {
    const Scope scope{tape, "embed"};
    return tape.embedding(table, tokens);
  }());
  std::vector<Tensor> state;
  for (std::size_t i = 0; i < cells.size(); ++i)
    state.push_back(tape.new_zeros(xs.front(), {options.batch, options.hidden}));
  std::vector<Tensor> logits;
  for (std::size_t t = 0; t < xs.size(); ++t) {
    const Scope at_step{tape, time_step(t)};
    Tensor x = xs[t];
    for (std::size_t i = 0; i < cells.size(); ++i) x = state[i] = cells[i].step(tape, x, state[i]);
    const Scope at_softmax{tape, "proj"};
    logits.push_back(tape.linear(x, project, project_bias));
  }
  return sequence_model(tape, logits, target, std::move(identity));
}

}  // namespace emplace::models
