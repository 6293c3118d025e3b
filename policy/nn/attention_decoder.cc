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
#include "policy/nn/decoder_draws.h"
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

/// Weights of the matrix products of each step, packed once for all blocks; transposed for the backward pass.
struct Weights {
  Weights(const Tape& tape, const Vars& vars, bool transposed)
      : query{packed(tape.value(vars.query), transposed)} {
    for (const Vars::Layer& layer : vars.layers) {
      input.push_back(packed(tape.value(layer.wx), transposed));
      recurrent.push_back(packed(tape.value(layer.wh), transposed));
    }
  }
  static Packed packed(const Matrix& m, bool transposed) {
    return transposed ? Packed::transposed(m) : Packed{m};
  }
  // [layers] The input of the first layer is part of symbol_sums and group_sums.
  std::vector<Packed> input, recurrent;
  Packed query;
};

/// One pass over a block of samples: k samples as columns, a step after the other.
class BlockDecoder {
 public:
  BlockDecoder(const Network& net, const Weights& weights, const DecodeInput& input,
               const DecoderDraws& draws, Block& block)
      : net_{net}, weights_{weights}, input_{input}, draws_{draws}, block_{block} {
    const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
    const std::size_t layers = net.options.layers;
    block.cells.assign(layers, std::vector<LstmCell>(static_cast<std::size_t>(steps)));
    block.hidden.assign(layers, Matrix(h, k * steps));
    block.queries = Matrix::Zero(padded(h), k * steps);
    block.attention.resize(static_cast<std::size_t>(steps));
    if (net.options.tanh_constant != 0) block.squashed.resize(d, k * steps);
    for (std::size_t l = 0; l < layers; ++l) {
      h_before_.push_back(net.start_h[l].replicate(1, k));
      c_before_.push_back(net.start_c[l].replicate(1, k));
    }
    sums_.resize(4 * h, k);
    logits_.resize(d, k);
  }

  /// Writes the devices and the log-probabilities of the block's samples.
  void run(std::vector<std::uint8_t>& devices, Matrix& log_p) {
    for (Eigen::Index t = 0; t < net_.steps; ++t) {
      step_layers(t, devices);
      attend_groups(t);
      step_logits(t);
      choose(t, devices, log_p);
    }
  }

 private:
  /// Index of a sample's step among those of all samples.
  std::size_t place(Eigen::Index s, Eigen::Index t) const {
    return static_cast<std::size_t>((block_.first + s) * net_.steps + t);
  }

  /// LSTM layers: gate sums [4H, k], state h, c [H, k].
  void step_layers(Eigen::Index t, const std::vector<std::uint8_t>& devices) {
    const Eigen::Index d = net_.options.devices, k = block_.count;
    for (std::size_t l = 0; l < net_.options.layers; ++l) {
      LstmCell& cell = block_.cells[l][static_cast<std::size_t>(t)];
      if (l == 0) {
        for (Eigen::Index s = 0; s < k; ++s) {
          const Eigen::Index symbol = t == 0 ? d : devices[place(s, t - 1)];
          sums_.col(s) = net_.bias[0].col(0) + net_.symbol_sums.col(symbol) + net_.group_sums.col(t);
        }
      } else {
        sums_.colwise() = net_.bias[l].col(0);
        add_product(sums_, weights_.input[l], h_before_[l - 1]);
      }
      add_product(sums_, weights_.recurrent[l], h_before_[l]);
      lstm_forward(sums_, c_before_[l], cell);
      h_before_[l] = cell.h;
      c_before_[l] = cell.c;
      block_.hidden[l].middleCols(t * k, k) = cell.h;
    }
  }

  /// Attention: query [H, k], weights a_t [T, k].
  void attend_groups(Eigen::Index t) {
    const Eigen::Index k = block_.count;
    auto query = block_.queries.middleCols(t * k, k);
    add_product(query.topRows(net_.options.hidden), weights_.query, h_before_.back());
    if (net_.options.attention == Attention::kDot) query = query.array().tanh();
    attend(net_, query, block_.attention[static_cast<std::size_t>(t)]);
  }

  /// Logits [D, k]: W_h h_t + (W_z E) a_t + b, squashed, plus the shift.
  void step_logits(Eigen::Index t) {
    const Eigen::Index k = block_.count;
    const Matrix& attention = block_.attention[static_cast<std::size_t>(t)];
    logits_.noalias() = net_.out_state * h_before_.back();
    logits_.noalias() += net_.out_context * attention.topRows(net_.steps);
    logits_.colwise() += net_.out_bias.col(0);
    if (const float constant = net_.options.tanh_constant; constant != 0) {
      auto squashed = block_.squashed.middleCols(t * k, k);
      squashed = (logits_ / net_.options.temperature).array().tanh();
      logits_ = constant * squashed;
    }
    logits_.colwise() += net_.shift.col(t);
  }

  /// Log-probabilities, then the choice of each sample. Noise of a fixed size comes between them.
  void choose(Eigen::Index t, std::vector<std::uint8_t>& devices, Matrix& log_p) {
    const bool noisy = draws_.noise.size() > 0;
    for (Eigen::Index s = 0; s < block_.count; ++s) {
      const std::size_t at = place(s, t);
      const Eigen::Index number = t * input_.samples + block_.first + s;
      if (noisy && input_.relative_noise)
        logits_.col(s) += logit_size(logits_.col(s)) * draws_.noise.col(number);
      const float peak = logits_.col(s).maxCoeff();
      const float total = std::log((logits_.col(s).array() - peak).exp().sum());
      log_p.col(static_cast<Eigen::Index>(at)) = (logits_.col(s).array() - peak - total).max(kNoWeight);
      if (input_.chosen != nullptr) {
        devices[at] = (*input_.chosen)[at];
      } else if (input_.greedy) {
        devices[at] = likeliest_device(logits_.col(s));
      } else {
        if (noisy && !input_.relative_noise) logits_.col(s) += draws_.noise.col(number);
        devices[at] = drawn_device(logits_.col(s), draws_.uniform(number));
      }
    }
  }

  const Network& net_;
  const Weights& weights_;
  const DecodeInput& input_;
  const DecoderDraws& draws_;
  Block& block_;
  std::vector<Matrix> h_before_, c_before_;  // [layers] of [H, k] State after the last step.
  Matrix sums_, logits_;                     // [4H, k], [D, k]
};

/// Sizes the gradients, and gathers the block's columns of the logits' gradient.
void start_gradients(const Network& net, const Block& block, const Matrix& dlog_p,
                     BlockGradients& gradients) {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, k = block.count, steps = net.steps;
  gradients.dsums.assign(net.options.layers, Matrix(4 * h, k * steps));
  gradients.dlogits.resize(d, k * steps);
  gradients.dqueries = Matrix::Zero(padded(h), k * steps);
  gradients.dkeys = Matrix::Zero(net.keys.rows(), steps);
  gradients.dscore = Matrix::Zero(net.score.rows(), 1);
  gradients.dout_context = Matrix::Zero(d, steps);
  for (Eigen::Index t = 0; t < steps; ++t) {
    for (Eigen::Index s = 0; s < k; ++s)
      gradients.dlogits.col(t * k + s) = dlog_p.col((block.first + s) * steps + t);
  }
  // Differentiate C tanh(l / T):
  //   dl [D, k · T] = dlogits · (C / T) (1 - tanh²)
  if (net.options.tanh_constant != 0) {
    gradients.dlogits.array() *=
        (net.options.tanh_constant / net.options.temperature) * (1.0f - block.squashed.array().square());
  }
}

/// Attention of step t, per sample; `dattention` [T, k] is da_t, and becomes dscores.
///   softmax: dscores [T] = a ∘ (da - a·da)
///   scores = v·tanh(keys + query): adds to dkeys [padded H, T], dquery [padded H], dv [padded H]
///   or keysᵀ query, query = tanh(Q h): dkeys of the keys' values, dquery of Q h
void backward_attention(const Network& net, const Block& block, Eigen::Index t, Matrix& dattention,
                        BlockGradients& gradients) {
  const Eigen::Index k = block.count, steps = net.steps;
  const auto attention = block.attention[static_cast<std::size_t>(t)].topRows(steps);  // [T, k]
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
}

/// State gradients that step t passes to step t - 1.    dh, dc, c_start [layers] of [H, k]
struct StateGradients {
  StateGradients(const Network& net, Eigen::Index k)
      : dh(net.options.layers, Matrix::Zero(net.options.hidden, k)), dc{dh} {
    for (const Matrix& c : net.start_c) c_start.push_back(c.replicate(1, k));
  }
  std::vector<Matrix> dh, dc;
  std::vector<Matrix> c_start;  // State before step 0.
};

/// LSTM layers of step t from the top:
///   dsums    [4H, k]  of the gates; dc[l] becomes the gradient of c_{t-1}
///   dh[l]    [H, k]   = Whᵀ dsums: the gradient of h_{t-1}
///   dh[l-1]  [H, k]  += Wxᵀ dsums: h_t of the layer below is this layer's input
void backward_layers(const Network& net, const Weights& weights, const Block& block, Eigen::Index t,
                     StateGradients& state, BlockGradients& gradients) {
  const Eigen::Index k = block.count;
  for (std::size_t l = net.options.layers; l-- > 0;) {
    const std::vector<LstmCell>& cells = block.cells[l];
    const Matrix& c_before = t == 0 ? state.c_start[l] : cells[static_cast<std::size_t>(t - 1)].c;
    const Matrix dsums =
        lstm_backward(cells[static_cast<std::size_t>(t)], c_before, state.dh[l], state.dc[l]);
    gradients.dsums[l].middleCols(t * k, k) = dsums;
    state.dh[l].setZero();
    add_product(state.dh[l], weights.recurrent[l], dsums);
    if (l > 0) add_product(state.dh[l - 1], weights.input[l], dsums);
  }
}

/// Backward pass of one block. `dlog_p` [D, k · T] of all samples is already the gradient of the logits.
/// Notation: dx is the gradient of the loss with respect to x; k columns, one per sample of the block.
void backward_block(const Network& net, const Weights& weights, const Block& block, const Matrix& dlog_p,
                    BlockGradients& gradients) {
  const Eigen::Index h = net.options.hidden, k = block.count, steps = net.steps;
  start_gradients(net, block, dlog_p, gradients);
  StateGradients state{net, k};
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
    backward_attention(net, block, t, dattention, gradients);
    // State part of the logits, W_h h_t, and the query, Q h_t:
    //   dh_t [H, k] += W_hᵀ dl + Qᵀ dquery
    Matrix& dh = state.dh.back();
    dh.noalias() += net.out_state.transpose() * dlogits;
    add_product(dh, weights.query, gradients.dqueries.block(0, t * k, h, k));
    backward_layers(net, weights, block, t, state, gradients);
  }
  // The initial state is shared by all samples.
  for (std::size_t l = 0; l < net.options.layers; ++l) {
    gradients.dstart_h.push_back(state.dh[l].rowwise().sum());
    gradients.dstart_c.push_back(state.dc[l].rowwise().sum());
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

Network prepare(const Tape& tape, const Vars& vars, const DecoderOptions& options, Var memory, Var shift,
                const DecodeInput& input) {
  Network net;
  const Matrix& encoded = tape.value(memory);
  const Eigen::Index h = options.hidden, steps = encoded.cols();
  net.options = options;
  net.steps = steps;
  Matrix keys = Matrix::Zero(h, steps);
  add_product(keys, Packed{tape.value(vars.memory)}, encoded);
  if (options.attention == Attention::kDot) keys = keys.array().tanh();
  net.keys = with_padding(keys);
  net.score = with_padding(tape.value(vars.score));
  net.out_state = tape.value(vars.out).leftCols(h);
  net.out_context = tape.value(vars.out).rightCols(encoded.rows()) * encoded;
  net.out_bias = tape.value(vars.bias);
  net.shift = tape.value(shift);
  for (Eigen::Index t = 0; t < steps && input.allowed != nullptr; ++t) {
    for (Eigen::Index i = 0; i < options.devices; ++i) {
      if (!(*input.allowed)[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)])
        net.shift(i, t) = -std::numeric_limits<float>::infinity();
    }
  }
  const Vars::Layer& first = vars.layers.front();
  net.symbol_sums = tape.value(first.wx) * tape.value(vars.embedding);
  net.group_sums = Matrix::Zero(4 * h, steps);
  if (options.sees_group) {
    Matrix group_inputs = Matrix::Zero(h, steps);
    add_product(group_inputs, Packed{tape.value(vars.group)}, encoded);
    add_product(net.group_sums, Packed{tape.value(first.wx)}, group_inputs);
  }
  for (std::size_t l = 0; l < options.layers; ++l) {
    net.bias.push_back(tape.value(vars.layers[l].b));
    net.start_h.push_back(input.start_h.empty() ? Matrix::Zero(h, 1) : tape.value(input.start_h[l]));
    net.start_c.push_back(input.start_c.empty() ? Matrix::Zero(h, 1) : tape.value(input.start_c[l]));
  }
  return net;
}

/// What the backward pass of decode() needs of the forward pass.
struct Pass {
  Vars vars;
  Network net;
  std::vector<Block> blocks;
  Matrix log_p;  // [D, k · T]
  Var memory, shift;
  std::vector<std::uint8_t> devices;  // [k, T]
  std::vector<Var> start_h, start_c;  // [layers] of [H, 1], or empty.
  std::size_t threads = 1;

  /// `dy` [D, k · T]: the gradient of log π.
  void backward(Tape& tape, const Matrix& dy) const;

 private:
  /// Gradients that are summed over blocks.
  struct Sums {
    Matrix dsymbols, dgroups, dkeys, dout_context;  // [4H, D + 1], [4H, T], [H, T], [D, T]
  };
  Sums sum_of_blocks(Tape& tape, const std::vector<BlockGradients>& gradients) const;
  void backward_symbols(Tape& tape, const Matrix& dsymbols) const;
  void backward_memory(Tape& tape, const Matrix& dout_context, Matrix& dkeys) const;
  void backward_groups(Tape& tape, const Matrix& dgroups) const;
};

void Pass::backward(Tape& tape, const Matrix& dy) const {
  // Log-softmax: dlog_p [D, k · T] becomes the gradient of the logits. Forbidden devices get none.
  Matrix dlog_p = (log_p.array() > kNoWeight).select(dy, 0.0f);
  through_log_softmax(log_p, dlog_p);
  // Shift: ds [D, T], summed over samples (column n = sample · T + step).
  Matrix& dshift = tape.gradient(shift);
  for (Eigen::Index n = 0; n < dlog_p.cols(); ++n) dshift.col(n % net.steps) += dlog_p.col(n);

  // Blocks in parallel.
  std::vector<BlockGradients> gradients(blocks.size());
  {
    const Weights weights{tape, vars, true};
    for_each_block(blocks.size(), threads,
                   [&](std::size_t b) { backward_block(net, weights, blocks[b], dlog_p, gradients[b]); });
  }
  Sums sums = sum_of_blocks(tape, gradients);
  backward_symbols(tape, sums.dsymbols);
  backward_memory(tape, sums.dout_context, sums.dkeys);
  if (net.options.sees_group) backward_groups(tape, sums.dgroups);
}

/// Always in the same order, so that the bits do not depend on `threads`.
Pass::Sums Pass::sum_of_blocks(Tape& tape, const std::vector<BlockGradients>& gradients) const {
  const Eigen::Index h = net.options.hidden, d = net.options.devices, steps = net.steps;
  Sums sums{Matrix::Zero(4 * h, d + 1), Matrix::Zero(4 * h, steps), Matrix::Zero(h, steps),
            Matrix::Zero(d, steps)};
  for (std::size_t b = 0; b < gradients.size(); ++b) {
    add_block_gradients(tape, vars, net, blocks[b], gradients[b], devices, sums.dsymbols, sums.dgroups);
    sums.dkeys += gradients[b].dkeys.topRows(h);
    sums.dout_context += gradients[b].dout_context;
    for (std::size_t l = 0; l < start_h.size(); ++l) {
      tape.gradient(start_h[l]) += gradients[b].dstart_h[l];
      tape.gradient(start_c[l]) += gradients[b].dstart_c[l];
    }
  }
  return sums;
}

/// Input of the first layer, Wx e(symbol) with bias:
///   db [4H, 1] = Σ dsymbols;   dWx [4H, H] += dsymbols eᵀ;   de [H, D + 1] += Wxᵀ dsymbols
void Pass::backward_symbols(Tape& tape, const Matrix& dsymbols) const {
  const Vars::Layer& first = vars.layers.front();
  tape.gradient(first.b) += dsymbols.rowwise().sum();
  tape.gradient(first.wx).noalias() += dsymbols * tape.value(vars.embedding).transpose();
  tape.gradient(vars.embedding).noalias() += tape.value(first.wx).transpose() * dsymbols;
}

/// The two products with E. `dkeys` is of tanh(M E) for kDot, and becomes that of M E.
///   context part of the output, W_z E:   dW_z [D, M] += d(W_z E) Eᵀ;   dE [M, T] += W_zᵀ d(W_z E)
///   keys, M E:                           dM [H, M] += dkeys Eᵀ;        dE [M, T] += Mᵀ dkeys
void Pass::backward_memory(Tape& tape, const Matrix& dout_context, Matrix& dkeys) const {
  const Matrix& encoded = tape.value(memory);
  Matrix& dencoded = tape.gradient(memory);
  tape.gradient(vars.out).rightCols(encoded.rows()).noalias() += dout_context * encoded.transpose();
  dencoded.noalias() += tape.value(vars.out).rightCols(encoded.rows()).transpose() * dout_context;
  if (net.options.attention == Attention::kDot)
    dkeys.array() *= 1.0f - net.keys.topRows(net.options.hidden).array().square();
  add_product_bt(tape.gradient(vars.memory), Packed{dkeys}, encoded);
  add_product(dencoded, Packed::transposed(tape.value(vars.memory)), dkeys);
}

/// Group input, w = G E, and its gate sums, Wx w:
///   dw [H, T] = Wxᵀ dgroups;   dWx += dgroups wᵀ;   dG [H, M] += dw Eᵀ;   dE += Gᵀ dw
void Pass::backward_groups(Tape& tape, const Matrix& dgroups) const {
  const Eigen::Index h = net.options.hidden, steps = net.steps;
  const Vars::Layer& first = vars.layers.front();
  const Matrix& encoded = tape.value(memory);
  Matrix group_inputs = Matrix::Zero(h, steps), dgroup_inputs = Matrix::Zero(h, steps);
  add_product(group_inputs, Packed{tape.value(vars.group)}, encoded);
  add_product(dgroup_inputs, Packed::transposed(tape.value(first.wx)), dgroups);
  add_product_bt(tape.gradient(first.wx), Packed{dgroups}, group_inputs);
  add_product_bt(tape.gradient(vars.group), Packed{dgroup_inputs}, encoded);
  add_product(tape.gradient(memory), Packed::transposed(tape.value(vars.group)), dgroup_inputs);
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
  EMPLACE_CHECK(input.greedy || input.rng != nullptr ||
                    (input.chosen != nullptr && !(input.relative_noise && input.noise > 0)),
                "decode() needs chosen devices, greedy or a random generator");
  EMPLACE_CHECK(parameters.lstm.size() == options.layers && input.start_h.size() == input.start_c.size() &&
                    (input.start_h.empty() || input.start_h.size() == options.layers),
                "one state per layer");
  const Vars vars{tape, parameters};
  const auto pass = std::make_shared<Pass>(
      Pass{vars, prepare(tape, vars, options, memory, shift, input), split_samples(input.samples), Matrix{},
           memory, shift, std::vector<std::uint8_t>{}, input.start_h, input.start_c, input.threads});
  const Eigen::Index choices = input.samples * pass->net.steps;
  pass->devices.resize(static_cast<std::size_t>(choices));
  pass->log_p.resize(options.devices, choices);
  {
    const DecoderDraws draws{input, pass->net.steps, options.devices};
    const Weights weights{tape, vars, false};
    for_each_block(pass->blocks.size(), input.threads, [&](std::size_t b) {
      BlockDecoder{pass->net, weights, input, draws, pass->blocks[b]}.run(pass->devices, pass->log_p);
    });
  }
  return {pass->devices,
          tape.record(pass->log_p, [&tape, pass](const Matrix& dy) { pass->backward(tape, dy); })};
}

}  // namespace emplace::policy
