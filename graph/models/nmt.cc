#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/models/layers.h"
#include "graph/models/networks.h"

namespace emplace::models {
namespace {

using Scope = TrainingTape::Scope;

/// All parameters of the network, created in order of definition.
struct Network {
  Network(TrainingTape& tape, const NmtOptions& o)
      : source_table{tape.parameter("src_embed.weight", {o.vocabulary, o.hidden})},
        target_table{tape.parameter("tgt_embed.weight", {o.vocabulary, o.hidden})},
        encoder_forward{tape, "enc_fw", o.hidden, o.hidden / 2},
        encoder_backward{tape, "enc_bw", o.hidden, o.hidden / 2} {
    for (std::int64_t i = 0; i + 1 < o.layers; ++i)
      encoder.emplace_back(tape, fmt::format("enc.{}", i), o.hidden, o.hidden);
    for (std::int64_t i = 0; i < o.layers; ++i)
      decoder.emplace_back(tape, fmt::format("dec.{}", i), i == 0 ? 2 * o.hidden : o.hidden, o.hidden);
    key = tape.parameter("att_key.weight", {o.hidden, o.hidden});
    query = tape.parameter("att_query.weight", {o.hidden, o.hidden});
    score = tape.parameter("att_v.weight", {1, o.hidden});
    combine = tape.parameter("combine.weight", {o.hidden, 2 * o.hidden});
    combine_bias = tape.parameter("combine.bias", {o.hidden});
    project = tape.parameter("proj.weight", {o.vocabulary, o.hidden});
    project_bias = tape.parameter("proj.bias", {o.vocabulary});
  }

  Tensor source_table, target_table;
  LstmCell encoder_forward, encoder_backward;
  std::vector<LstmCell> encoder, decoder;
  Tensor key{}, query{}, score{}, combine{}, combine_bias{}, project{}, project_bias{};
};

/// A step of a cell over sentences of different lengths: beyond a sentence's end its states stay unchanged
/// and the output is zero.
struct Step {
  LstmState state;
  Tensor output;
};
Step masked_step(TrainingTape& tape, const LstmCell& cell, Tensor x, LstmState before, Tensor zero,
                 std::optional<Tensor> over) {
  const LstmState made = cell.step(tape, x, before);
  if (!over) return {made, made.h};
  const Tensor h = tape.select(*over, before.h, made.h), c = tape.select(*over, before.c, made.c);
  return {{h, c}, tape.select(*over, zero, made.h)};
}

/// Runs one direction of the first encoder layer; `reversed` starts at the last step.
std::vector<Tensor> run_direction(TrainingTape& tape, const LstmCell& cell, const std::vector<Tensor>& xs,
                                  Tensor lengths, std::string_view layer, std::int64_t batch, bool reversed) {
  std::vector<Tensor> out(xs.size());
  const LstmState zero = cell.zero_state(tape, xs.front(), batch);
  LstmState state = zero;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::size_t t = reversed ? xs.size() - 1 - i : i;
    const Scope at_layer{tape, layer}, at_step{tape, time_step(t)};
    const auto over = tape.beyond_end(lengths, static_cast<std::int64_t>(t));
    const Step step = masked_step(tape, cell, xs[t], state, zero.h, over);
    state = step.state;
    out[t] = step.output;
  }
  return out;
}

/// The encoder's outputs, [steps] of [batch, hidden].
std::vector<Tensor> encode(TrainingTape& tape, const Network& net, const NmtOptions& o, Tensor tokens,
                           Tensor lengths) {
  std::vector<Tensor> xs = tape.unbind([&] {
    const Scope scope{tape, "src_embed"};
    return tape.embedding(net.source_table, tokens);
  }());
  const Scope scope{tape, "encoder"};
  const std::vector<Tensor> forward =
      run_direction(tape, net.encoder_forward, xs, lengths, "l0fw", o.batch, false);
  const std::vector<Tensor> backward =
      run_direction(tape, net.encoder_backward, xs, lengths, "l0bw", o.batch, true);
  for (std::size_t t = 0; t < xs.size(); ++t) {
    const Scope at_layer{tape, "l0"}, at_step{tape, time_step(t)};
    xs[t] = tape.cat({forward[t], backward[t]});
  }
  for (std::size_t i = 0; i < net.encoder.size(); ++i) {
    const LstmState zero = net.encoder[i].zero_state(tape, xs.front(), o.batch);
    LstmState state = zero;
    for (std::size_t t = 0; t < xs.size(); ++t) {
      const Scope at_layer{tape, fmt::format("l{}", i + 1)}, at_step{tape, time_step(t)};
      const auto over = tape.beyond_end(lengths, static_cast<std::int64_t>(t));
      const Step step = masked_step(tape, net.encoder[i], xs[t], state, zero.h, over);
      state = step.state;
      xs[t] = i >= 1 ? tape.add(step.output, xs[t]) : step.output;
    }
  }
  return xs;
}

struct Attended {
  Tensor context, output;
};
/// Additive attention over the encoder's `memory` [batch, steps, hidden], then the combining layer.
Attended attend(TrainingTape& tape, const Network& net, Tensor x, Tensor keys, Tensor memory) {
  const Scope scope{tape, "attention"};
  const auto inside = [&](std::string_view module, auto&& make) {
    const Scope at{tape, module};
    return make();
  };
  const Tensor query = inside("att_query", [&] { return tape.linear(x, net.query); });
  const Tensor energy = tape.tanh(tape.add(keys, tape.unsqueeze(query, 1)));
  const Tensor score = inside("att_v", [&] { return tape.linear(energy, net.score); });
  const Tensor weight = tape.softmax(tape.squeeze(score, 2));
  const Tensor context = tape.squeeze(tape.bmm(tape.unsqueeze(weight, 1), memory), 1);
  const Tensor joined = tape.cat({x, context});
  const Tensor mixed = inside("combine", [&] { return tape.linear(joined, net.combine, net.combine_bias); });
  return {context, tape.tanh(mixed)};
}

/// The logits of every step.
std::vector<Tensor> decode(TrainingTape& tape, const Network& net, const NmtOptions& o, Tensor tokens,
                           Tensor lengths, const std::vector<Tensor>& encoded) {
  Tensor memory{}, keys{};
  {
    const Scope scope{tape, "encoder"};
    memory = tape.stack(encoded);
    const Scope at{tape, "att_key"};
    keys = tape.linear(memory, net.key);
  }
  const std::vector<Tensor> ys = tape.unbind([&] {
    const Scope scope{tape, "tgt_embed"};
    return tape.embedding(net.target_table, tokens);
  }());
  std::vector<LstmState> state;
  for (const LstmCell& cell : net.decoder) state.push_back(cell.zero_state(tape, encoded.front(), o.batch));
  const std::vector<LstmState> zero = state;
  Tensor context = tape.new_zeros(encoded.front(), {o.batch, o.hidden});
  std::vector<Tensor> logits;
  const Scope scope{tape, "decoder"};
  for (std::size_t t = 0; t < ys.size(); ++t) {
    const Scope at_step{tape, time_step(t)};
    const auto over = tape.beyond_end(lengths, static_cast<std::int64_t>(t));
    Tensor x = tape.cat({ys[t], context});
    for (std::size_t i = 0; i < net.decoder.size(); ++i) {
      const Scope at_layer{tape, fmt::format("l{}", i)};
      const Step step = masked_step(tape, net.decoder[i], x, state[i], zero[i].h, over);
      state[i] = step.state;
      x = i >= 2 ? tape.add(step.output, x) : step.output;
    }
    const Attended attended = attend(tape, net, x, keys, memory);
    context = attended.context;
    const Scope at_softmax{tape, "softmax"}, at_module{tape, "proj"};
    logits.push_back(tape.linear(attended.output, net.project, net.project_bias));
  }
  return logits;
}

}  // namespace

Result<OpGraph> nmt_graph(const NmtOptions& options, Identity identity) {
  const bool sizes = options.hidden >= 2 && options.hidden % 2 == 0 && options.batch >= 1 &&
                     options.vocabulary >= 2 && options.steps >= 1 && options.steps <= 99 &&
                     options.layers >= 1 && options.layers <= 99;
  if (!sizes) {
    return invalid("nmt", "sizes are out of range",
                   "use an even hidden size, 1 to 99 layers and steps, a batch of at least 1");
  }
  const auto owned = make_tape(options.recording, options.optimizer);
  TrainingTape& tape = *owned;
  const Network net{tape, options};
  const auto tokens = [&](const char* name) {
    return tape.input(name, DType::kI64, {options.batch, options.steps});
  };
  const Tensor source = tokens("source"), target_in = tokens("target_in"), target_out = tokens("target_out");
  const Tensor source_length = tape.input("source_length", DType::kI32, {options.batch});
  const Tensor target_length = tape.input("target_length", DType::kI32, {options.batch});
  const std::vector<Tensor> encoded = encode(tape, net, options, source, source_length);
  const std::vector<Tensor> logits = decode(tape, net, options, target_in, target_length, encoded);
  return sequence_model(tape, logits, target_out, std::move(identity));
}

}  // namespace emplace::models
