#include "policy/nn/attention_decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "base/check.h"
#include "policy/nn/kernels.h"
#include "policy/nn/product.h"
#include "policy/objective/objective.h"

namespace emplace::policy {
namespace {

constexpr float kNoWeight = -1e30f;  // A logit that softmax gives no weight.
/// Samples are cut into so many blocks at most, always alike: what blocks add up to depends on nothing else.
constexpr Eigen::Index kMaxBlocks = 4;

/// The parameters on a tape.
struct Vars {
  Vars(Tape& tape, const DecoderParameters& p)
      : embedding{tape.parameter(p.embedding)},
        group{tape.parameter(p.group)},
        memory{tape.parameter(p.memory)},
        query{tape.parameter(p.query)},
        score{tape.parameter(p.score)},
        out{tape.parameter(p.out)},
        bias{tape.parameter(p.bias)} {
    for (const LstmParameters& lstm : p.lstm)
      layers.push_back({tape.parameter(lstm.wx), tape.parameter(lstm.wh), tape.parameter(lstm.b)});
  }
  struct Layer {
    Var wx, wh, b;
  };
  std::vector<Layer> layers;
  Var embedding, group, memory, query, score, out, bias;
};

/// What the attention kernels read: rows padded with zeros.
Matrix with_padding(const Matrix& m) {
  Matrix wide = Matrix::Zero(padded(m.rows()), m.cols());
  wide.topRows(m.rows()) = m;
  return wide;
}

/// What every block of samples reads while it decodes, backwards too.
struct Network {
  DecoderOptions options;
  Eigen::Index steps = 0;
  Matrix keys;                           // [padded H, T] M E
  Matrix score;                          // [padded H, 1] v
  Matrix out_state;                      // [D, H] the part of W that reads h_t
  Matrix out_seen;                       // [D, T] W z_t = (W E) a_t, and W E is small
  Matrix out_bias;                       // [D, 1] b
  Matrix shift;                          // [D, T] s; -infinity where forbidden
  Matrix symbol_sums, group_sums;        // [4H, D + 1], [4H, T]: the parts of the first layer's sums that
                                         // do not depend on its state
  std::vector<Matrix> bias;              // [layers] of [4H, 1]
  std::vector<Matrix> start_h, start_c;  // [layers] of [H, 1]
};

/// What one block of samples leaves for the backward pass; its columns are step · count + sample.
struct Block {
  Eigen::Index first = 0, count = 0;         // Samples.
  std::vector<std::vector<LstmCell>> cells;  // [layers][T]
  std::vector<Matrix> hidden;                // [layers] of [H, count · T]
  Matrix queries;                            // [padded H, count · T]
  std::vector<Matrix> attention;             // [T] of [padded T, count], rows padded with weight 0
  Matrix squashed;                           // [D, count · T] tanh(l / T), if squashed at all
};

/// What a block sends back.
struct Flow {
  std::vector<Matrix> dsums;               // [layers] of [4H, count · T]
  std::vector<Matrix> dstart_h, dstart_c;  // [layers] of [H, 1]
  Matrix dlogits;                          // [D, count · T] of l
  Matrix dqueries;                         // [padded H, count · T]
  Matrix dkeys, dscore, dseen;             // [padded H, T], [padded H, 1], [D, T]
};

/// The numbers that drawing takes, drawn before the blocks run so that these need no order.
struct Draws {
  Draws(const DecodeInput& input, Eigen::Index steps, Eigen::Index devices) {
    if (input.chosen != nullptr || input.greedy) return;
    const Eigen::Index choices = steps * input.samples;
    uniform.resize(1, choices);
    if (input.noise > 0) noise.resize(devices, choices);
    for (Eigen::Index n = 0; n < choices; ++n) {
      for (Eigen::Index i = 0; i < noise.rows(); ++i) noise(i, n) = input.noise * input.rng->normal();
      uniform(n) = input.rng->uniform();
    }
  }
  Matrix uniform, noise;  // [1, T · k], [D, T · k] or empty; column step · k + sample
};

/// Softmax over groups of v·tanh(M E_g + q), a column per sample.
void attend(const Network& net, const Eigen::Ref<const Matrix>& query, Matrix& attention) {
  attention.resize(padded(net.steps), query.cols());
  attention.bottomRows(attention.rows() - net.steps).setConstant(kNoWeight);
  for (Eigen::Index s = 0; s < query.cols(); ++s) {
    kernels().attend(net.keys.rows(), net.steps, net.keys.data(), query.col(s).data(), net.score.data(),
                     attention.col(s).data());
    float peak = 0;
    const float total = kernels().exponentials(attention.rows(), attention.col(s).data(), &peak);
    attention.col(s) /= total;
  }
}

std::uint8_t draw(const Eigen::Ref<const Eigen::VectorXf>& logits, float uniform) {
  const Eigen::VectorXf weight = (logits.array() - logits.maxCoeff()).exp();
  float at = uniform * weight.sum();
  Eigen::Index device = 0, last = 0;
  for (; device < weight.size(); ++device) {
    if (weight(device) > 0) last = device;
    at -= weight(device);
    if (at < 0 && weight(device) > 0) break;
  }
  return static_cast<std::uint8_t>(device < weight.size() ? device : last);
}

std::uint8_t likeliest(const Eigen::Ref<const Eigen::VectorXf>& logits) {
  Eigen::Index device = 0;
  logits.maxCoeff(&device);
  return static_cast<std::uint8_t>(device);
}

/// Runs `work` on every block, block i on thread i modulo `threads`.
void for_each_block(std::size_t blocks, std::size_t threads, const std::function<void(std::size_t)>& work) {
  const std::size_t used = std::clamp<std::size_t>(threads, 1, blocks);
  const auto share = [&](std::size_t thread) {
    for (std::size_t block = thread; block < blocks; block += used) work(block);
  };
  std::vector<std::thread> others;
  for (std::size_t thread = 1; thread < used; ++thread) others.emplace_back(share, thread);
  share(0);
  for (std::thread& other : others) other.join();
}

std::vector<Block> cut(Eigen::Index samples) {
  const Eigen::Index count = std::clamp<Eigen::Index>((samples + 1) / 2, 1, kMaxBlocks);
  std::vector<Block> blocks(static_cast<std::size_t>(count));
  for (Eigen::Index b = 0; b < count; ++b) {
    Block& block = blocks[static_cast<std::size_t>(b)];
    block.first = b * samples / count;
    block.count = (b + 1) * samples / count - block.first;
  }
  return blocks;
}

/// The weights that every step multiplies by, packed once for all blocks.
struct Weights {
  std::vector<Packed> input, recurrent;  // [layers]; the first layer's input is in the sums
  std::vector<Packed> query;             // One.
  static Weights forwards(const Tape& tape, const Vars& vars) {
    Weights w;
    for (const Vars::Layer& layer : vars.layers) {
      w.input.emplace_back(tape.value(layer.wx));
      w.recurrent.emplace_back(tape.value(layer.wh));
    }
    w.query.emplace_back(tape.value(vars.query));
    return w;
  }
  static Weights backwards(const Tape& tape, const Vars& vars) {
    Weights w;
    for (const Vars::Layer& layer : vars.layers) {
      w.input.push_back(Packed::transposed(tape.value(layer.wx)));
      w.recurrent.push_back(Packed::transposed(tape.value(layer.wh)));
    }
    w.query.push_back(Packed::transposed(tape.value(vars.query)));
    return w;
  }
};

void decode_block(const Network& net, const Weights& weights, const DecodeInput& input, const Draws& draws,
                  Block& block, std::vector<std::uint8_t>& devices, Matrix& log_p) {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
  const std::size_t layers = net.options.layers;
  block.cells.assign(layers, std::vector<LstmCell>(static_cast<std::size_t>(steps)));
  block.hidden.assign(layers, Matrix(h, k * steps));
  block.queries = Matrix::Zero(padded(h), k * steps);
  block.attention.resize(static_cast<std::size_t>(steps));
  const float constant = net.options.tanh_constant;
  if (constant != 0) block.squashed.resize(d, k * steps);
  std::vector<Matrix> h_before, c_before;
  for (std::size_t l = 0; l < layers; ++l) {
    h_before.push_back(net.start_h[l].replicate(1, k));
    c_before.push_back(net.start_c[l].replicate(1, k));
  }
  Matrix sums(4 * h, k), logits(d, k);
  const auto place = [&](Eigen::Index s, Eigen::Index t) {
    return static_cast<std::size_t>((block.first + s) * steps + t);
  };
  for (Eigen::Index t = 0; t < steps; ++t) {
    for (std::size_t l = 0; l < layers; ++l) {
      LstmCell& cell = block.cells[l][static_cast<std::size_t>(t)];
      if (l == 0) {
        for (Eigen::Index s = 0; s < k; ++s) {
          const Eigen::Index symbol = t == 0 ? d : devices[place(s, t - 1)];
          sums.col(s) = net.bias[0].col(0) + net.symbol_sums.col(symbol) + net.group_sums.col(t);
        }
      } else {
        sums.colwise() = net.bias[l].col(0);
        add_product(sums, weights.input[l], h_before[l - 1]);
      }
      add_product(sums, weights.recurrent[l], h_before[l]);
      lstm_forward(sums, c_before[l], cell);
      h_before[l] = cell.h;
      c_before[l] = cell.c;
      block.hidden[l].middleCols(t * k, k) = cell.h;
    }
    const Matrix& top = h_before.back();
    auto query = block.queries.middleCols(t * k, k);
    add_product(query.topRows(h), weights.query[0], top);
    Matrix& attention = block.attention[static_cast<std::size_t>(t)];
    attend(net, query, attention);
    logits.noalias() = net.out_state * top;
    logits.noalias() += net.out_seen * attention.topRows(steps);
    logits.colwise() += net.out_bias.col(0);
    if (constant != 0) {
      auto squashed = block.squashed.middleCols(t * k, k);
      squashed = (logits / net.options.temperature).array().tanh();
      logits = constant * squashed;
    }
    logits.colwise() += net.shift.col(t);
    for (Eigen::Index s = 0; s < k; ++s) {
      const std::size_t at = place(s, t);
      const float peak = logits.col(s).maxCoeff();
      const float total = std::log((logits.col(s).array() - peak).exp().sum());
      log_p.col(static_cast<Eigen::Index>(at)) = (logits.col(s).array() - peak - total).max(kNoWeight);
      if (input.chosen != nullptr) {
        devices[at] = (*input.chosen)[at];
      } else if (input.greedy) {
        devices[at] = likeliest(logits.col(s));
      } else {
        const Eigen::Index number = t * input.samples + block.first + s;
        if (draws.noise.size() > 0) logits.col(s) += draws.noise.col(number);
        devices[at] = draw(logits.col(s), draws.uniform(number));
      }
    }
  }
}

/// From `dlog_p`, already through the softmax, to what the block sends back.
void flow_back(const Network& net, const Weights& weights, const Block& block, const Matrix& dlog_p,
               Flow& flow) {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
  const std::size_t layers = net.options.layers;
  flow.dsums.assign(layers, Matrix(4 * h, k * steps));
  flow.dlogits.resize(d, k * steps);
  flow.dqueries = Matrix::Zero(padded(h), k * steps);
  flow.dkeys = Matrix::Zero(net.keys.rows(), steps);
  flow.dscore = Matrix::Zero(net.score.rows(), 1);
  flow.dseen = Matrix::Zero(d, steps);
  for (Eigen::Index t = 0; t < steps; ++t) {
    for (Eigen::Index s = 0; s < k; ++s)
      flow.dlogits.col(t * k + s) = dlog_p.col((block.first + s) * steps + t);
  }
  if (net.options.tanh_constant != 0) {
    flow.dlogits.array() *=
        (net.options.tanh_constant / net.options.temperature) * (1.0f - block.squashed.array().square());
  }
  std::vector<Matrix> dh(layers, Matrix::Zero(h, k)), dc(layers, Matrix::Zero(h, k)), c_start;
  for (std::size_t l = 0; l < layers; ++l) c_start.push_back(net.start_c[l].replicate(1, k));
  Matrix dattention(steps, k);
  for (Eigen::Index t = steps - 1; t >= 0; --t) {
    const auto dlogits = flow.dlogits.middleCols(t * k, k);
    const auto attention = block.attention[static_cast<std::size_t>(t)].topRows(steps);
    flow.dseen.noalias() += dlogits * attention.transpose();
    dattention.noalias() = net.out_seen.transpose() * dlogits;
    for (Eigen::Index s = 0; s < k; ++s) {
      const float mean = attention.col(s).dot(dattention.col(s));
      dattention.col(s).array() = attention.col(s).array() * (dattention.col(s).array() - mean);
      kernels().attend_backward(net.keys.rows(), steps, net.keys.data(), block.queries.col(t * k + s).data(),
                                net.score.data(), dattention.col(s).data(), flow.dkeys.data(),
                                flow.dqueries.col(t * k + s).data(), flow.dscore.data());
    }
    dh.back().noalias() += net.out_state.transpose() * dlogits;
    add_product(dh.back(), weights.query[0], flow.dqueries.block(0, t * k, h, k));
    for (std::size_t l = layers; l-- > 0;) {
      const std::vector<LstmCell>& cells = block.cells[l];
      const Matrix& c_before = t == 0 ? c_start[l] : cells[static_cast<std::size_t>(t - 1)].c;
      const Matrix dsums = lstm_backward(cells[static_cast<std::size_t>(t)], c_before, dh[l], dc[l]);
      flow.dsums[l].middleCols(t * k, k) = dsums;
      dh[l].setZero();
      add_product(dh[l], weights.recurrent[l], dsums);
      if (l > 0) add_product(dh[l - 1], weights.input[l], dsums);
    }
  }
  for (std::size_t l = 0; l < layers; ++l) {
    flow.dstart_h.push_back(dh[l].rowwise().sum());
    flow.dstart_c.push_back(dc[l].rowwise().sum());
  }
}

/// Adds what one block sent back to the gradients of the tape. `chosen` [k, T] of all samples; adds up what
/// flows into the first layer's sums by symbol and by group.
void collect(Tape& tape, const Vars& vars, const Network& net, const Block& block, const Flow& flow,
             const std::vector<std::uint8_t>& chosen, Matrix& dsymbols, Matrix& dgroups) {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
  for (Eigen::Index t = 0; t < steps; ++t) {
    for (Eigen::Index s = 0; s < k; ++s) {
      const auto dsum = flow.dsums[0].col(t * k + s);
      dsymbols.col(t == 0 ? d : chosen[static_cast<std::size_t>((block.first + s) * steps + t - 1)]) += dsum;
      dgroups.col(t) += dsum;
    }
  }
  for (std::size_t l = 0; l < vars.layers.size(); ++l) {
    const Packed dsums{flow.dsums[l]};
    Matrix before(h, k * steps);  // h_{t-1} beside what flows into the sums of t.
    before.leftCols(k) = net.start_h[l].replicate(1, k);
    before.rightCols(k * (steps - 1)) = block.hidden[l].leftCols(k * (steps - 1));
    add_product_bt(tape.gradient(vars.layers[l].wh), dsums, before);
    if (l == 0) continue;
    add_product_bt(tape.gradient(vars.layers[l].wx), dsums, block.hidden[l - 1]);
    tape.gradient(vars.layers[l].b) += flow.dsums[l].rowwise().sum();
  }
  add_product_bt(tape.gradient(vars.query), Packed{flow.dqueries.topRows(h)}, block.hidden.back());
  tape.gradient(vars.score) += flow.dscore.topRows(h);
  tape.gradient(vars.out).leftCols(h).noalias() += flow.dlogits * block.hidden.back().transpose();
  tape.gradient(vars.bias) += flow.dlogits.rowwise().sum();
}

std::shared_ptr<Network> prepare(const Tape& tape, const Vars& vars, const DecoderOptions& options,
                                 Var memory, Var shift, const DecodeInput& input) {
  auto net = std::make_shared<Network>();
  const Matrix& encoded = tape.value(memory);
  const Eigen::Index h = options.hidden, steps = encoded.cols();
  net->options = options;
  net->steps = steps;
  Matrix keys = Matrix::Zero(h, steps);
  add_product(keys, Packed{tape.value(vars.memory)}, encoded);
  net->keys = with_padding(keys);
  net->score = with_padding(tape.value(vars.score));
  net->out_state = tape.value(vars.out).leftCols(h);
  net->out_seen = tape.value(vars.out).rightCols(encoded.rows()) * encoded;
  net->out_bias = tape.value(vars.bias);
  net->shift = tape.value(shift);
  for (Eigen::Index t = 0; t < steps && input.allowed != nullptr; ++t) {
    for (Eigen::Index i = 0; i < options.devices; ++i) {
      if (!(*input.allowed)[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)])
        net->shift(i, t) = -std::numeric_limits<float>::infinity();
    }
  }
  const Vars::Layer& first = vars.layers.front();
  net->symbol_sums = tape.value(first.wx) * tape.value(vars.embedding);
  net->group_sums = Matrix::Zero(4 * h, steps);
  if (options.sees_group) {
    Matrix seen = Matrix::Zero(h, steps);
    add_product(seen, Packed{tape.value(vars.group)}, encoded);
    add_product(net->group_sums, Packed{tape.value(first.wx)}, seen);
  }
  for (std::size_t l = 0; l < options.layers; ++l) {
    net->bias.push_back(tape.value(vars.layers[l].b));
    net->start_h.push_back(input.start_h.empty() ? Matrix::Zero(h, 1) : tape.value(input.start_h[l]));
    net->start_c.push_back(input.start_c.empty() ? Matrix::Zero(h, 1) : tape.value(input.start_c[l]));
  }
  return net;
}

}  // namespace

DecoderParameters DecoderParameters::add(ParameterStore& store, const std::string& name,
                                         const DecoderOptions& options, std::uint64_t seed) {
  DecoderParameters p;
  const Eigen::Index h = options.hidden, d = options.devices, m = options.memory_rows;
  p.lstm.push_back(LstmParameters::add(store, name + ".lstm", h, h, seed));
  p.embedding = store.add(name + ".embedding", h, d + 1, Init::kGlorot, seed);
  p.group =
      store.add(name + ".group", options.sees_group ? h : 0, options.sees_group ? m : 0, Init::kGlorot, seed);
  p.memory = store.add(name + ".memory", h, m, Init::kGlorot, seed);
  p.query = store.add(name + ".query", h, h, Init::kGlorot, seed);
  p.score = store.add(name + ".score", h, 1, Init::kGlorot, seed);
  p.out = store.add(name + ".out", d, h + m, options.out, seed);
  p.bias = store.add(name + ".bias", d, 1, Init::kZero, seed);
  for (std::size_t l = 1; l < options.layers; ++l)
    p.lstm.push_back(LstmParameters::add(store, name + ".lstm" + std::to_string(l + 1), h, h, seed));
  return p;
}

Decoded decode(Tape& tape, const DecoderParameters& parameters, const DecoderOptions& options, Var memory,
               Var shift, const DecodeInput& input) {
  EMPLACE_CHECK(input.chosen != nullptr || input.greedy || input.rng != nullptr,
                "devices must be given, taken or drawn");
  EMPLACE_CHECK(parameters.lstm.size() == options.layers && input.start_h.size() == input.start_c.size() &&
                    (input.start_h.empty() || input.start_h.size() == options.layers),
                "one state per layer");
  const Vars vars{tape, parameters};
  const std::shared_ptr<const Network> net = prepare(tape, vars, options, memory, shift, input);
  const Eigen::Index k = input.samples;
  auto blocks = std::make_shared<std::vector<Block>>(cut(k));
  Decoded decoded;
  decoded.devices.resize(static_cast<std::size_t>(k * net->steps));
  Matrix log_p(options.devices, k * net->steps);
  {
    const Draws draws{input, net->steps, options.devices};
    const Weights weights = Weights::forwards(tape, vars);
    for_each_block(blocks->size(), input.threads, [&](std::size_t b) {
      decode_block(*net, weights, input, draws, (*blocks)[b], decoded.devices, log_p);
    });
  }

  const auto kept = std::make_shared<const Matrix>(log_p);
  decoded.log_p =
      tape.record(std::move(log_p), [&tape, vars, net, blocks, kept, memory, shift, devices = decoded.devices,
                                     start_h = input.start_h, start_c = input.start_c,
                                     threads = input.threads](const Matrix& dy) {
        Matrix dlog_p = (kept->array() > kNoWeight).select(dy, 0.0f);
        through_log_softmax(*kept, dlog_p);
        const Eigen::Index steps = net->steps;
        Matrix& dshift = tape.gradient(shift);
        for (Eigen::Index n = 0; n < dlog_p.cols(); ++n) dshift.col(n % steps) += dlog_p.col(n);

        std::vector<Flow> flows(blocks->size());
        {
          const Weights weights = Weights::backwards(tape, vars);
          for_each_block(blocks->size(), threads,
                         [&](std::size_t b) { flow_back(*net, weights, (*blocks)[b], dlog_p, flows[b]); });
        }
        const Eigen::Index h = net->options.hidden;
        Matrix dsymbols = Matrix::Zero(4 * h, net->options.devices + 1), dgroups = Matrix::Zero(4 * h, steps),
               dkeys = Matrix::Zero(h, steps), dseen_out = Matrix::Zero(net->options.devices, steps);
        for (std::size_t b = 0; b < flows.size(); ++b) {
          collect(tape, vars, *net, (*blocks)[b], flows[b], devices, dsymbols, dgroups);
          dkeys += flows[b].dkeys.topRows(h);
          dseen_out += flows[b].dseen;
          for (std::size_t l = 0; l < start_h.size(); ++l) {
            tape.gradient(start_h[l]) += flows[b].dstart_h[l];
            tape.gradient(start_c[l]) += flows[b].dstart_c[l];
          }
        }
        const Vars::Layer& first = vars.layers.front();
        tape.gradient(first.b) += dsymbols.rowwise().sum();
        tape.gradient(first.wx).noalias() += dsymbols * tape.value(vars.embedding).transpose();
        tape.gradient(vars.embedding).noalias() += tape.value(first.wx).transpose() * dsymbols;
        const Matrix& encoded = tape.value(memory);
        Matrix& dencoded = tape.gradient(memory);
        tape.gradient(vars.out).rightCols(encoded.rows()).noalias() += dseen_out * encoded.transpose();
        dencoded.noalias() += tape.value(vars.out).rightCols(encoded.rows()).transpose() * dseen_out;
        add_product_bt(tape.gradient(vars.memory), Packed{dkeys}, encoded);
        add_product(dencoded, Packed::transposed(tape.value(vars.memory)), dkeys);
        if (!net->options.sees_group) return;
        Matrix seen = Matrix::Zero(h, steps), dseen = Matrix::Zero(h, steps);
        add_product(seen, Packed{tape.value(vars.group)}, encoded);
        add_product(dseen, Packed::transposed(tape.value(first.wx)), dgroups);
        add_product_bt(tape.gradient(first.wx), Packed{dgroups}, seen);
        add_product_bt(tape.gradient(vars.group), Packed{dseen}, encoded);
        add_product(dencoded, Packed::transposed(tape.value(vars.group)), dseen);
      });
  return decoded;
}

}  // namespace emplace::policy
