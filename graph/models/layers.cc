#include "graph/models/layers.h"

#include <utility>

namespace emplace::models {

using Scope = TrainingTape::Scope;

std::string time_step(std::size_t t) { return (t < 10 ? "t0" : "t") + std::to_string(t); }

LstmCell::LstmCell(TrainingTape& tape, std::string name, std::int64_t inputs, std::int64_t hidden)
    : name_{std::move(name)},
      hidden_{hidden},
      weight_ih_{tape.parameter(name_ + ".weight_ih", {4 * hidden, inputs})},
      weight_hh_{tape.parameter(name_ + ".weight_hh", {4 * hidden, hidden})},
      bias_ih_{tape.parameter(name_ + ".bias_ih", {4 * hidden})},
      bias_hh_{tape.parameter(name_ + ".bias_hh", {4 * hidden})} {}

LstmState LstmCell::zero_state(TrainingTape& tape, Tensor like, std::int64_t batch) const {
  const Tensor h = tape.new_zeros(like, {batch, hidden_});
  return {h, tape.new_zeros(like, {batch, hidden_})};
}

LstmState LstmCell::step(TrainingTape& tape, Tensor x, LstmState before) const {
  const Scope scope{tape, name_};
  const Tensor from_hidden = tape.linear(before.h, weight_hh_, bias_hh_);
  const Tensor from_input = tape.linear(x, weight_ih_, bias_ih_);
  const std::vector<Tensor> gates = tape.split(tape.add(from_hidden, from_input), 4);
  const Tensor input = tape.sigmoid(gates[0]), forget = tape.sigmoid(gates[1]);
  const Tensor candidate = tape.tanh(gates[2]), output = tape.sigmoid(gates[3]);
  const Tensor kept = tape.mul(forget, before.c);
  const Tensor c = tape.add(kept, tape.mul(input, candidate));
  return {tape.mul(output, tape.tanh(c)), c};
}

Tensor sequence_loss(TrainingTape& tape, const std::vector<Tensor>& logits, Tensor labels) {
  const std::vector<Tensor> wanted = tape.unbind(labels);
  Tensor total{};
  for (std::size_t t = 0; t < logits.size(); ++t) {
    const Scope at_loss{tape, "loss"}, at_step{tape, time_step(t)};
    const Tensor loss = tape.cross_entropy(logits[t], wanted[t]);
    total = t == 0 ? loss : tape.add(total, loss);
  }
  return total;
}

}  // namespace emplace::models
