#include <fmt/core.h>

#include <utility>

#include "graph/models/layers.h"

namespace emplace::models {

Result<OpGraph> rnnlm_graph(const RnnlmOptions& options, Identity identity) {
  using Scope = TrainingTape::Scope;
  const bool sizes = options.layers >= 1 && options.layers <= 99 && options.steps >= 1 &&
                     options.steps <= 99 && options.hidden >= 1 && options.batch >= 1 &&
                     options.vocabulary >= 2;
  if (!sizes) {
    return invalid("rnnlm", "sizes are out of range", "use 1 to 99 layers and steps, a batch of at least 1");
  }
  const auto owned = make_tape(options.recording, options.optimizer);
  TrainingTape& tape = *owned;
  const Tensor table = tape.parameter("embed.weight", {options.vocabulary, options.hidden});
  std::vector<LstmCell> cells;
  for (std::int64_t i = 0; i < options.layers; ++i)
    cells.emplace_back(tape, fmt::format("cells.{}", i), options.hidden, options.hidden);
  const Tensor project = tape.parameter("proj.weight", {options.vocabulary, options.hidden});
  const Tensor project_bias = tape.parameter("proj.bias", {options.vocabulary});
  const Tensor tokens = tape.input("tokens", DType::kI64, {options.batch, options.steps});
  const Tensor target = tape.input("target", DType::kI64, {options.batch, options.steps});

  const Tensor embedded = [&] {
    const Scope scope{tape, "embed"};
    return tape.embedding(table, tokens);
  }();
  const std::vector<Tensor> xs = tape.unbind(embedded);
  std::vector<LstmState> state;
  state.reserve(cells.size());
  for (const LstmCell& cell : cells) state.push_back(cell.zero_state(tape, embedded, options.batch));
  std::vector<Tensor> logits;
  for (std::size_t t = 0; t < xs.size(); ++t) {
    const Scope at_step{tape, time_step(t)};
    Tensor x = xs[t];
    for (std::size_t i = 0; i < cells.size(); ++i) {
      state[i] = cells[i].step(tape, x, state[i]);
      x = state[i].h;
    }
    const Scope at_softmax{tape, "proj"};
    logits.push_back(tape.linear(x, project, project_bias));
  }
  return sequence_model(tape, logits, target, std::move(identity));
}

}  // namespace emplace::models
