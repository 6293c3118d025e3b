#include "graph/models/layers.h"

#include <fmt/core.h>

#include <utility>

namespace emplace::models {

using Scope = TrainingTape::Scope;

std::string time_step(std::size_t t) { return fmt::format("t{:02}", t); }

LstmCell::LstmCell(TrainingTape& tape, std::string name, std::int64_t inputs, std::int64_t hidden)
    : name_{std::move(name)}, hidden_{hidden}, joined_{tape.granularity() == Granularity::kTensorFlow} {
  if (joined_) {
    weight_ = tape.parameter(name_ + ".kernel", {4 * hidden, inputs + hidden});
    bias_ = tape.parameter(name_ + ".bias", {4 * hidden});
    return;
  }
  weight_ih_ = tape.parameter(name_ + ".weight_ih", {4 * hidden, inputs});
  weight_hh_ = tape.parameter(name_ + ".weight_hh", {4 * hidden, hidden});
  bias_ih_ = tape.parameter(name_ + ".bias_ih", {4 * hidden});
  bias_hh_ = tape.parameter(name_ + ".bias_hh", {4 * hidden});
}

LstmState LstmCell::zero_state(TrainingTape& tape, Tensor like, std::int64_t batch) const {
  const Tensor h = tape.new_zeros(like, {batch, hidden_});
  return {h, tape.new_zeros(like, {batch, hidden_})};
}

Tensor LstmCell::gates(TrainingTape& tape, Tensor x, Tensor h) const {
  if (joined_) return tape.linear(tape.cat({x, h}), weight_, bias_);
  const Tensor from_hidden = tape.linear(h, weight_hh_, bias_hh_);
  const Tensor from_input = tape.linear(x, weight_ih_, bias_ih_);
  return tape.add(from_hidden, from_input);
}

LstmState LstmCell::step(TrainingTape& tape, Tensor x, LstmState before) const {
  const Scope scope{tape, name_};
  const std::vector<Tensor> gate = tape.split(gates(tape, x, before.h), 4);
  const Tensor open = joined_ ? tape.add_constant(gate[2]) : gate[1];
  const Tensor input = tape.sigmoid(gate[0]), forget = tape.sigmoid(open);
  const Tensor candidate = tape.tanh(gate[joined_ ? 1 : 2]), output = tape.sigmoid(gate[3]);
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

Result<OpGraph> sequence_model(TrainingTape& tape, const std::vector<Tensor>& logits, Tensor labels,
                               Identity identity) {
  if (!tape.training()) return tape.finish_forward(logits, std::move(identity));
  return tape.finish(sequence_loss(tape, logits, labels), std::move(identity));
}

Result<OpGraph> classifier(TrainingTape& tape, Tensor logits, std::optional<Tensor> auxiliary,
                           Identity identity) {
  if (!tape.training()) return tape.finish_forward({logits}, std::move(identity));
  const Tensor label = tape.input("label", DType::kI64, {tape.shape(logits)[0]});
  const Scope at_loss{tape, "loss"};
  Tensor loss = tape.cross_entropy(logits, label);
  if (auxiliary) {
    const Tensor beside = tape.cross_entropy(*auxiliary, label);
    loss = tape.add(loss, tape.scale(beside));
  }
  return tape.finish(loss, std::move(identity));
}

}  // namespace emplace::models
