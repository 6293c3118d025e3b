#include "policy/nn/attention_decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "base/check.h"
#include "policy/loss/loss.h"
#include "policy/nn/kernels.h"
#include "policy/nn/product.h"

namespace emplace::policy {
namespace {

constexpr float kNoWeight = -1e30f;  // Logit with a softmax weight of 0.
/// Maximum number of sample blocks. The partition depends only on the number of samples, so that sums over
/// blocks are bit-identical for any number of threads.
constexpr Eigen::Index kMaxBlocks = 4;

/// The parameters as tape variables.
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

/// Pads the rows with zeros, as the attention kernels require.
Matrix with_padding(const Matrix& m) {
  Matrix wide = Matrix::Zero(padded(m.rows()), m.cols());
  wide.topRows(m.rows()) = m;
  return wide;
}

/// Values shared by all blocks of samples, in both passes.
struct Network {
  DecoderOptions options;
  Eigen::Index steps = 0;
  Matrix keys;         // [padded H, T] M E; for kDot tanh(M E).
  Matrix score;        // [padded H, 1] v
  Matrix out_state;    // [D, H] Part of W that multiplies h_t.
  Matrix out_context;  // [D, T] Context part of W times E: W z_t = (W E) a_t, and W E is small.
  Matrix out_bias;     // [D, 1] b
  Matrix shift;        // [D, T] s; -infinity where forbidden.
  // [4H, D + 1], [4H, T] State-independent parts of the first layer's gate sums.
  Matrix symbol_sums, group_sums;
  std::vector<Matrix> bias;              // [layers] of [4H, 1]
  std::vector<Matrix> start_h, start_c;  // [layers] of [H, 1]
};

/// Activations of one block of samples for the backward pass. Column step · count + sample.
struct Block {
  Eigen::Index first = 0, count = 0;         // Range of samples.
  std::vector<std::vector<LstmCell>> cells;  // [layers][T]
  std::vector<Matrix> hidden;                // [layers] of [H, count · T]
  Matrix queries;                            // [padded H, count · T] Q h; for kDot tanh(Q h).
  std::vector<Matrix> attention;             // [T] of [padded T, count]; padding rows have weight 0.
  Matrix squashed;                           // [D, count · T] tanh(l / T); empty without squashing.
};

/// Gradients that one block computes.
struct BlockGradients {
  std::vector<Matrix> dsums;               // [layers] of [4H, count · T]
  std::vector<Matrix> dstart_h, dstart_c;  // [layers] of [H, 1]
  Matrix dlogits;                          // [D, count · T] Gradient of l.
  Matrix dqueries;                         // [padded H, count · T]
  Matrix dkeys, dscore, dout_context;      // [padded H, T], [padded H, 1], [D, T]
};

/// Random numbers for sampling, drawn before the blocks run, so that the order of the blocks does not matter.
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
    if (input.noise_limit > 0) noise = noise.cwiseMax(-input.noise_limit).cwiseMin(input.noise_limit);
  }
  Matrix uniform, noise;  // [1, T · k]; [D, T · k] or empty; column step · k + sample.
};

/// Softmax over groups of v·tanh(M E_g + q) or of <tanh(M E_g), q>, a column per sample.
void attend(const Network& net, const Eigen::Ref<const Matrix>& query, Matrix& attention) {
  attention.resize(padded(net.steps), query.cols());
  attention.bottomRows(attention.rows() - net.steps).setConstant(kNoWeight);
  for (Eigen::Index s = 0; s < query.cols(); ++s) {
    if (net.options.attention == Attention::kDot) {
      attention.col(s).head(net.steps).noalias() = net.keys.transpose() * query.col(s);
    } else {
      kernels().attend(net.keys.rows(), net.steps, net.keys.data(), query.col(s).data(), net.score.data(),
                       attention.col(s).data());
    }
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

/// Runs `work` on every block; block i runs on thread i modulo `threads`.
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

std::vector<Block> split_samples(Eigen::Index samples) {
  const Eigen::Index count = std::clamp<Eigen::Index>((samples + 1) / 2, 1, kMaxBlocks);
  std::vector<Block> blocks(static_cast<std::size_t>(count));
  for (Eigen::Index b = 0; b < count; ++b) {
    Block& block = blocks[static_cast<std::size_t>(b)];
    block.first = b * samples / count;
    block.count = (b + 1) * samples / count - block.first;
  }
  return blocks;
}

/// Weights of the matrix products of each step, packed once for all blocks.
struct Weights {
  // [layers] The input of the first layer is part of symbol_sums and group_sums.
  std::vector<Packed> input, recurrent;
  std::vector<Packed> query;  // One element.
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
  // One step t: all k samples of the block as columns.
  for (Eigen::Index t = 0; t < steps; ++t) {
    // LSTM layers: gate sums [4H, k], state h, c [H, k].
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
    // Attention: query [H, k], weights a_t [T, k].
    const Matrix& top = h_before.back();
    auto query = block.queries.middleCols(t * k, k);
    add_product(query.topRows(h), weights.query[0], top);
    if (net.options.attention == Attention::kDot) query = query.array().tanh();
    Matrix& attention = block.attention[static_cast<std::size_t>(t)];
    attend(net, query, attention);
    // Logits [D, k]: W_h h_t + (W_z E) a_t + b, squashed, plus the shift.
    logits.noalias() = net.out_state * top;
    logits.noalias() += net.out_context * attention.topRows(steps);
    logits.colwise() += net.out_bias.col(0);
    if (constant != 0) {
      auto squashed = block.squashed.middleCols(t * k, k);
      squashed = (logits / net.options.temperature).array().tanh();
      logits = constant * squashed;
    }
    logits.colwise() += net.shift.col(t);
    // Log-probabilities without noise, then the choice of each sample.
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

/// Backward pass of one block. `dlog_p` [D, k · T] of all samples is already the gradient of the logits.
/// Notation: dx is the gradient of the loss with respect to x; k columns, one per sample of the block.
void backward_block(const Network& net, const Weights& weights, const Block& block, const Matrix& dlog_p,
                    BlockGradients& gradients) {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
  const std::size_t layers = net.options.layers;
  gradients.dsums.assign(layers, Matrix(4 * h, k * steps));
  gradients.dlogits.resize(d, k * steps);
  gradients.dqueries = Matrix::Zero(padded(h), k * steps);
  gradients.dkeys = Matrix::Zero(net.keys.rows(), steps);
  gradients.dscore = Matrix::Zero(net.score.rows(), 1);
  gradients.dout_context = Matrix::Zero(d, steps);
  // Logits: gather this block's columns, then differentiate C tanh(l / T):
  //   dl [D, k · T] = dlogits · (C / T) (1 - tanh²)
  for (Eigen::Index t = 0; t < steps; ++t) {
    for (Eigen::Index s = 0; s < k; ++s)
      gradients.dlogits.col(t * k + s) = dlog_p.col((block.first + s) * steps + t);
  }
  if (net.options.tanh_constant != 0) {
    gradients.dlogits.array() *=
        (net.options.tanh_constant / net.options.temperature) * (1.0f - block.squashed.array().square());
  }
  // State gradients that step t passes to step t - 1.
  std::vector<Matrix> dh(layers, Matrix::Zero(h, k)), dc(layers, Matrix::Zero(h, k)), c_start;
  for (std::size_t l = 0; l < layers; ++l) c_start.push_back(net.start_c[l].replicate(1, k));
  Matrix dattention(steps, k);
  // Steps in reverse order, because h_t and c_t also receive gradients from step t + 1.
  for (Eigen::Index t = steps - 1; t >= 0; --t) {
    const auto dlogits = gradients.dlogits.middleCols(t * k, k);                         // [D, k]
    const auto attention = block.attention[static_cast<std::size_t>(t)].topRows(steps);  // [T, k]
    // Context part of the logits, (W_z E) a_t:
    //   d(W_z E) [D, T] += dl a_tᵀ
    //   da_t     [T, k]  = (W_z E)ᵀ dl
    gradients.dout_context.noalias() += dlogits * attention.transpose();
    dattention.noalias() = net.out_context.transpose() * dlogits;
    // Attention, per sample:
    //   softmax: dscores [T] = a ∘ (da - a·da)
    //   scores = v·tanh(keys + query): adds to dkeys [padded H, T], dquery [padded H], dv [padded H]
    //   or keysᵀ query, query = tanh(Q h): dkeys of the keys' values, dquery of Q h
    for (Eigen::Index s = 0; s < k; ++s) {
      const float mean = attention.col(s).dot(dattention.col(s));
      dattention.col(s).array() = attention.col(s).array() * (dattention.col(s).array() - mean);
      const auto query = block.queries.col(t * k + s);
      auto dquery = gradients.dqueries.col(t * k + s);
      if (net.options.attention == Attention::kDot) {
        gradients.dkeys.noalias() += query * dattention.col(s).transpose();
        dquery.noalias() = net.keys * dattention.col(s);
        dquery.array() *= 1.0f - query.array().square();
      } else {
        kernels().attend_backward(net.keys.rows(), steps, net.keys.data(), query.data(), net.score.data(),
                                  dattention.col(s).data(), gradients.dkeys.data(), dquery.data(),
                                  gradients.dscore.data());
      }
    }
    // State part of the logits, W_h h_t, and the query, Q h_t:
    //   dh_t [H, k] += W_hᵀ dl + Qᵀ dquery
    dh.back().noalias() += net.out_state.transpose() * dlogits;
    add_product(dh.back(), weights.query[0], gradients.dqueries.block(0, t * k, h, k));
    // LSTM layers from the top:
    //   dsums    [4H, k]  of the gates; dc[l] becomes the gradient of c_{t-1}
    //   dh[l]    [H, k]   = Whᵀ dsums: the gradient of h_{t-1}
    //   dh[l-1]  [H, k]  += Wxᵀ dsums: h_t of the layer below is this layer's input
    for (std::size_t l = layers; l-- > 0;) {
      const std::vector<LstmCell>& cells = block.cells[l];
      const Matrix& c_before = t == 0 ? c_start[l] : cells[static_cast<std::size_t>(t - 1)].c;
      const Matrix dsums = lstm_backward(cells[static_cast<std::size_t>(t)], c_before, dh[l], dc[l]);
      gradients.dsums[l].middleCols(t * k, k) = dsums;
      dh[l].setZero();
      add_product(dh[l], weights.recurrent[l], dsums);
      if (l > 0) add_product(dh[l - 1], weights.input[l], dsums);
    }
  }
  // The initial state is shared by all samples.
  for (std::size_t l = 0; l < layers; ++l) {
    gradients.dstart_h.push_back(dh[l].rowwise().sum());
    gradients.dstart_c.push_back(dc[l].rowwise().sum());
  }
}

/// Adds the gradients of one block to those of the tape. `chosen` [k, T] contains the devices of all samples.
/// Also sums the gradient of the first layer's gate sums by input symbol (`dsymbols` [4H, D + 1]) and by
/// group (`dgroups` [4H, T]).
void add_block_gradients(Tape& tape, const Vars& vars, const Network& net, const Block& block,
                         const BlockGradients& gradients, const std::vector<std::uint8_t>& chosen,
                         Matrix& dsymbols, Matrix& dgroups) {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
  // First layer: its input is a table lookup, so its gradient is summed by table column.
  for (Eigen::Index t = 0; t < steps; ++t) {
    for (Eigen::Index s = 0; s < k; ++s) {
      const auto dsum = gradients.dsums[0].col(t * k + s);
      dsymbols.col(t == 0 ? d : chosen[static_cast<std::size_t>((block.first + s) * steps + t - 1)]) += dsum;
      dgroups.col(t) += dsum;
    }
  }
  for (std::size_t l = 0; l < vars.layers.size(); ++l) {
    // Recurrent layers:
    //   dWh [4H, H] += dsums h_{t-1}ᵀ   over all steps
    //   dWx [4H, H] += dsums xᵀ,  x = h_t of the layer below;   db [4H, 1] += Σ dsums
    const Packed dsums{gradients.dsums[l]};
    Matrix before(h, k * steps);  // Column of step t: h_{t-1}.
    before.leftCols(k) = net.start_h[l].replicate(1, k);
    before.rightCols(k * (steps - 1)) = block.hidden[l].leftCols(k * (steps - 1));
    add_product_bt(tape.gradient(vars.layers[l].wh), dsums, before);
    if (l == 0) continue;
    add_product_bt(tape.gradient(vars.layers[l].wx), dsums, block.hidden[l - 1]);
    tape.gradient(vars.layers[l].b) += gradients.dsums[l].rowwise().sum();
  }
  // Attention and output:
  //   dQ [H, H] += dqueries h_tᵀ;   dv [H, 1];   dW_h [D, H] += dl h_tᵀ;   db [D, 1] += Σ dl
  add_product_bt(tape.gradient(vars.query), Packed{gradients.dqueries.topRows(h)}, block.hidden.back());
  if (net.options.attention == Attention::kAdditive) tape.gradient(vars.score) += gradients.dscore.topRows(h);
  tape.gradient(vars.out).leftCols(h).noalias() += gradients.dlogits * block.hidden.back().transpose();
  tape.gradient(vars.bias) += gradients.dlogits.rowwise().sum();
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
  if (options.attention == Attention::kDot) keys = keys.array().tanh();
  net->keys = with_padding(keys);
  net->score = with_padding(tape.value(vars.score));
  net->out_state = tape.value(vars.out).leftCols(h);
  net->out_context = tape.value(vars.out).rightCols(encoded.rows()) * encoded;
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
    Matrix group_inputs = Matrix::Zero(h, steps);
    add_product(group_inputs, Packed{tape.value(vars.group)}, encoded);
    add_product(net->group_sums, Packed{tape.value(first.wx)}, group_inputs);
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
  const bool additive = options.attention == Attention::kAdditive;
  p.score = store.add(name + ".score", additive ? h : 0, additive ? 1 : 0, Init::kGlorot, seed);
  p.out = store.add(name + ".out", d, h + m, options.out, seed);
  p.bias = store.add(name + ".bias", d, 1, Init::kZero, seed);
  for (std::size_t l = 1; l < options.layers; ++l)
    p.lstm.push_back(LstmParameters::add(store, name + ".lstm" + std::to_string(l + 1), h, h, seed));
  return p;
}

Decoded decode(Tape& tape, const DecoderParameters& parameters, const DecoderOptions& options, Var memory,
               Var shift, const DecodeInput& input) {
  EMPLACE_CHECK(input.chosen != nullptr || input.greedy || input.rng != nullptr,
                "decode() needs chosen devices, greedy or a random generator");
  EMPLACE_CHECK(parameters.lstm.size() == options.layers && input.start_h.size() == input.start_c.size() &&
                    (input.start_h.empty() || input.start_h.size() == options.layers),
                "one state per layer");
  const Vars vars{tape, parameters};
  const std::shared_ptr<const Network> net = prepare(tape, vars, options, memory, shift, input);
  const Eigen::Index k = input.samples;
  auto blocks = std::make_shared<std::vector<Block>>(split_samples(k));
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
        // Log-softmax: dlog_p [D, k · T] becomes the gradient of the logits. Forbidden devices get none.
        Matrix dlog_p = (kept->array() > kNoWeight).select(dy, 0.0f);
        through_log_softmax(*kept, dlog_p);
        // Shift: ds [D, T], summed over samples (column n = sample · T + step).
        const Eigen::Index steps = net->steps;
        Matrix& dshift = tape.gradient(shift);
        for (Eigen::Index n = 0; n < dlog_p.cols(); ++n) dshift.col(n % steps) += dlog_p.col(n);

        // Blocks in parallel.
        std::vector<BlockGradients> block_gradients(blocks->size());
        {
          const Weights weights = Weights::backwards(tape, vars);
          for_each_block(blocks->size(), threads, [&](std::size_t b) {
            backward_block(*net, weights, (*blocks)[b], dlog_p, block_gradients[b]);
          });
        }
        // Sum over blocks, always in the same order, so that the bits do not depend on `threads`.
        const Eigen::Index h = net->options.hidden;
        Matrix dsymbols = Matrix::Zero(4 * h, net->options.devices + 1), dgroups = Matrix::Zero(4 * h, steps),
               dkeys = Matrix::Zero(h, steps), dout_context = Matrix::Zero(net->options.devices, steps);
        for (std::size_t b = 0; b < block_gradients.size(); ++b) {
          add_block_gradients(tape, vars, *net, (*blocks)[b], block_gradients[b], devices, dsymbols, dgroups);
          dkeys += block_gradients[b].dkeys.topRows(h);
          dout_context += block_gradients[b].dout_context;
          for (std::size_t l = 0; l < start_h.size(); ++l) {
            tape.gradient(start_h[l]) += block_gradients[b].dstart_h[l];
            tape.gradient(start_c[l]) += block_gradients[b].dstart_c[l];
          }
        }
        // Input of the first layer, Wx e(symbol) with bias:
        //   db [4H, 1] = Σ dsymbols;   dWx [4H, H] += dsymbols eᵀ;   de [H, D + 1] += Wxᵀ dsymbols
        const Vars::Layer& first = vars.layers.front();
        tape.gradient(first.b) += dsymbols.rowwise().sum();
        tape.gradient(first.wx).noalias() += dsymbols * tape.value(vars.embedding).transpose();
        tape.gradient(vars.embedding).noalias() += tape.value(first.wx).transpose() * dsymbols;
        // Context part of the output, W_z E:   dW_z [D, M] += d(W_z E) Eᵀ;   dE [M, T] += W_zᵀ d(W_z E)
        const Matrix& encoded = tape.value(memory);
        Matrix& dencoded = tape.gradient(memory);
        tape.gradient(vars.out).rightCols(encoded.rows()).noalias() += dout_context * encoded.transpose();
        dencoded.noalias() += tape.value(vars.out).rightCols(encoded.rows()).transpose() * dout_context;
        // Keys, M E:   dM [H, M] += dkeys Eᵀ;   dE [M, T] += Mᵀ dkeys;   for tanh(M E) first through the
        // tanh.
        if (net->options.attention == Attention::kDot)
          dkeys.array() *= 1.0f - net->keys.topRows(h).array().square();
        add_product_bt(tape.gradient(vars.memory), Packed{dkeys}, encoded);
        add_product(dencoded, Packed::transposed(tape.value(vars.memory)), dkeys);
        if (!net->options.sees_group) return;
        // Group input, w = G E, and its gate sums, Wx w:
        //   dw [H, T] = Wxᵀ dgroups;   dWx += dgroups wᵀ;   dG [H, M] += dw Eᵀ;   dE += Gᵀ dw
        Matrix group_inputs = Matrix::Zero(h, steps), dgroup_inputs = Matrix::Zero(h, steps);
        add_product(group_inputs, Packed{tape.value(vars.group)}, encoded);
        add_product(dgroup_inputs, Packed::transposed(tape.value(first.wx)), dgroups);
        add_product_bt(tape.gradient(first.wx), Packed{dgroups}, group_inputs);
        add_product_bt(tape.gradient(vars.group), Packed{dgroup_inputs}, encoded);
        add_product(dencoded, Packed::transposed(tape.value(vars.group)), dgroup_inputs);
      });
  return decoded;
}

}  // namespace emplace::policy
