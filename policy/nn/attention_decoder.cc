#include "policy/nn/attention_decoder.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"
#include "policy/nn/kernels.h"
#include "policy/nn/product.h"

namespace emplace::policy {
namespace {

constexpr float kNever = -1e30f;  // A logit that softmax gives no weight.

/// What one step leaves for the backward pass; k columns each.
struct StepState {
  LstmCell cell;
  Matrix attention;    // [T, k], rows padded with weight 0
  Matrix squashed;     // [D, k] tanh(l / T)
  Matrix probability;  // [D, k]
  Matrix log_p;        // [D, k]
};

/// What the attention kernels read: rows padded with zeros.
Matrix with_padding(const Matrix& m) {
  Matrix wide = Matrix::Zero(padded(m.rows()), m.cols());
  wide.topRows(m.rows()) = m;
  return wide;
}

/// Softmax over groups of v·tanh(M E_g + q), a column per sample.
void attend(const Matrix& keys, const Matrix& query, const Matrix& v, Matrix& attention) {
  const Eigen::Index groups = keys.cols();
  attention.resize(padded(groups), query.cols());
  attention.bottomRows(attention.rows() - groups).setConstant(kNever);
  for (Eigen::Index k = 0; k < query.cols(); ++k) {
    kernels().attend(keys.rows(), groups, keys.data(), query.col(k).data(), v.data(),
                     attention.col(k).data());
    float peak = 0;
    const float total = kernels().exponentials(attention.rows(), attention.col(k).data(), &peak);
    attention.col(k) /= total;
  }
}

std::uint8_t draw(const Eigen::Ref<const Eigen::VectorXf>& logits, Rng& rng) {
  const Eigen::VectorXf weight = (logits.array() - logits.maxCoeff()).exp();
  float at = rng.uniform() * weight.sum();
  Eigen::Index device = 0, last = 0;
  for (; device < weight.size(); ++device) {
    if (weight(device) > 0) last = device;
    at -= weight(device);
    if (at < 0 && weight(device) > 0) break;
  }
  return static_cast<std::uint8_t>(device < weight.size() ? device : last);
}

}  // namespace

DecoderParameters DecoderParameters::add(ParameterStore& store, const std::string& name,
                                         const DecoderOptions& options, std::uint64_t seed) {
  DecoderParameters p;
  const Eigen::Index h = options.hidden, d = options.devices, m = options.memory_rows;
  p.lstm = LstmParameters::add(store, name + ".lstm", h, h, seed);
  p.embedding = store.add(name + ".embedding", h, d + 1, Init::kGlorot, seed);
  p.group =
      store.add(name + ".group", options.sees_group ? h : 0, options.sees_group ? m : 0, Init::kGlorot, seed);
  p.memory = store.add(name + ".memory", h, m, Init::kGlorot, seed);
  p.query = store.add(name + ".query", h, h, Init::kGlorot, seed);
  p.score = store.add(name + ".score", h, 1, Init::kGlorot, seed);
  p.out = store.add(name + ".out", d, h + m, Init::kGlorot, seed);
  p.bias = store.add(name + ".bias", d, 1, Init::kZero, seed);
  return p;
}

Decoded decode(Tape& tape, const DecoderParameters& parameters, const DecoderOptions& options, Var memory,
               Var shift, const DecodeInput& input) {
  EMPLACE_CHECK(input.chosen != nullptr || input.greedy || input.rng != nullptr,
                "devices must be given, taken or drawn");
  const Eigen::Index steps = tape.value(memory).cols(), k = input.samples, h = options.hidden,
                     d = options.devices;
  const Var wx = tape.parameter(parameters.lstm.wx), wh = tape.parameter(parameters.lstm.wh),
            b = tape.parameter(parameters.lstm.b);
  const Var embedding = tape.parameter(parameters.embedding), group = tape.parameter(parameters.group);
  const Var wm = tape.parameter(parameters.memory), wq = tape.parameter(parameters.query),
            v = tape.parameter(parameters.score);
  const Var out = tape.parameter(parameters.out), bias = tape.parameter(parameters.bias);
  const Matrix& encoded = tape.value(memory);
  Matrix unpadded_keys = Matrix::Zero(h, steps);
  add_product(unpadded_keys, Packed{tape.value(wm)}, encoded);
  auto keys = std::make_shared<Matrix>(with_padding(unpadded_keys));
  const Matrix score = with_padding(tape.value(v));
  // z_t enters the logits only: W z_t = (W E) a_t, and W E is small.
  auto seen_out = std::make_shared<Matrix>(tape.value(out).rightCols(encoded.rows()) * encoded);
  // The parts of an LSTM's sums that do not depend on its state: one column per symbol, one per group.
  const Matrix symbol_sums = tape.value(wx) * tape.value(embedding);
  Matrix group_sums = Matrix::Zero(4 * h, steps);
  if (options.sees_group) {
    Matrix seen = Matrix::Zero(h, steps);
    add_product(seen, Packed{tape.value(group)}, encoded);
    add_product(group_sums, Packed{tape.value(wx)}, seen);
  }

  auto states = std::make_shared<std::vector<StepState>>(static_cast<std::size_t>(steps));
  auto devices = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(k * steps));
  auto queries = std::make_shared<Matrix>(Matrix::Zero(padded(h), k * steps));
  const Packed recurrent{tape.value(wh)}, to_query{tape.value(wq)};
  Matrix h_before = Matrix::Zero(h, k), c_before = Matrix::Zero(h, k), value = Matrix::Zero(2, k);
  Matrix sums(4 * h, k), query(padded(h), k), logits(d, k);
  for (Eigen::Index t = 0; t < steps; ++t) {
    StepState& state = (*states)[static_cast<std::size_t>(t)];
    for (Eigen::Index s = 0; s < k; ++s) {
      const Eigen::Index symbol = t == 0 ? d : (*devices)[static_cast<std::size_t>(s * steps + t - 1)];
      sums.col(s) = tape.value(b).col(0) + symbol_sums.col(symbol) + group_sums.col(t);
    }
    add_product(sums, recurrent, h_before);
    lstm_forward(sums, c_before, state.cell);
    query.setZero();
    add_product(query.topRows(h), to_query, state.cell.h);
    queries->middleCols(t * k, k) = query;
    attend(*keys, query, score, state.attention);
    logits.noalias() = tape.value(out).leftCols(h) * state.cell.h;
    logits.noalias() += *seen_out * state.attention.topRows(steps);
    logits.colwise() += tape.value(bias).col(0);
    state.squashed = (logits / options.temperature).array().tanh();
    logits = options.tanh_constant * state.squashed;
    logits.colwise() += tape.value(shift).col(t);
    if (input.allowed != nullptr) {
      for (Eigen::Index i = 0; i < d; ++i) {
        if (!(*input.allowed)[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)])
          logits.row(i).setConstant(-std::numeric_limits<float>::infinity());
      }
    }
    state.log_p.resize(d, k);
    for (Eigen::Index s = 0; s < k; ++s) {
      const float peak = logits.col(s).maxCoeff();
      state.log_p.col(s) =
          logits.col(s).array() - peak - std::log((logits.col(s).array() - peak).exp().sum());
    }
    state.probability = state.log_p.array().exp();
    for (Eigen::Index s = 0; s < k; ++s) {
      std::uint8_t& device = (*devices)[static_cast<std::size_t>(s * steps + t)];
      if (input.chosen != nullptr) {
        device = (*input.chosen)[static_cast<std::size_t>(s * steps + t)];
      } else if (input.greedy) {
        Eigen::Index likeliest = 0;
        logits.col(s).maxCoeff(&likeliest);
        device = static_cast<std::uint8_t>(likeliest);
      } else {
        Eigen::VectorXf noisy = logits.col(s);
        for (Eigen::Index i = 0; i < d && input.noise > 0; ++i) noisy(i) += input.noise * input.rng->normal();
        device = draw(noisy, *input.rng);
      }
      value(0, s) += state.log_p(device, s);
      for (Eigen::Index i = 0; i < d; ++i) {
        if (state.probability(i, s) > 0) value(1, s) -= state.probability(i, s) * state.log_p(i, s);
      }
    }
    h_before = state.cell.h;
    c_before = state.cell.c;
  }

  Decoded decoded;
  decoded.devices = *devices;
  decoded.log_probability = value.row(0);
  decoded.entropy = value.row(1);
  decoded.steps = tape.record(std::move(value), [=, &tape](const Matrix& dy) {
    const Matrix& encoded_again = tape.value(memory);
    const auto out_left = tape.value(out).leftCols(h);
    const Matrix zero = Matrix::Zero(h, k), score_again = with_padding(tape.value(v));
    const Packed recurrent_back = Packed::transposed(tape.value(wh)),
                 query_back = Packed::transposed(tape.value(wq));
    Matrix dh = zero, dc = zero, dkeys = Matrix::Zero(keys->rows(), steps),
           dscore = Matrix::Zero(score_again.rows(), 1);
    Matrix dattention(steps, k), dlogits(d, k), dseen_out = Matrix::Zero(d, steps);
    // What each step sends into the weights, a column per step and sample: their products are taken at once
    // in the end.
    Matrix dsums(4 * h, k * steps), dqueries = Matrix::Zero(padded(h), k * steps),
                                    before = Matrix::Zero(h, k * steps), after(h, k * steps);
    for (Eigen::Index t = steps - 1; t >= 0; --t) {
      const StepState& state = (*states)[static_cast<std::size_t>(t)];
      for (Eigen::Index s = 0; s < k; ++s) {
        const std::uint8_t device = (*devices)[static_cast<std::size_t>(s * steps + t)];
        float entropy = 0;
        for (Eigen::Index i = 0; i < d; ++i) {
          if (state.probability(i, s) > 0) entropy -= state.probability(i, s) * state.log_p(i, s);
        }
        for (Eigen::Index i = 0; i < d; ++i) {
          const float p = state.probability(i, s);
          const float log_p = p > 0 ? state.log_p(i, s) : 0.0f;
          dlogits(i, s) = dy(0, s) * ((i == device ? 1.0f : 0.0f) - p) - dy(1, s) * p * (log_p + entropy);
        }
      }
      tape.gradient(shift).col(t) += dlogits.rowwise().sum();
      dlogits.array() *=
          (options.tanh_constant / options.temperature) * (1.0f - state.squashed.array().square());
      tape.gradient(out).leftCols(h).noalias() += dlogits * state.cell.h.transpose();
      tape.gradient(bias) += dlogits.rowwise().sum();
      const auto attention = state.attention.topRows(steps);
      dseen_out.noalias() += dlogits * attention.transpose();
      dattention.noalias() = seen_out->transpose() * dlogits;
      for (Eigen::Index s = 0; s < k; ++s) {
        const float mean = attention.col(s).dot(dattention.col(s));
        dattention.col(s).array() = attention.col(s).array() * (dattention.col(s).array() - mean);
        const Eigen::Index column = t * k + s;
        kernels().attend_backward(keys->rows(), steps, keys->data(), queries->col(column).data(),
                                  score_again.data(), dattention.col(s).data(), dkeys.data(),
                                  dqueries.col(column).data(), dscore.data());
      }
      dh.noalias() += out_left.transpose() * dlogits;
      add_product(dh, query_back, dqueries.block(0, t * k, h, k));
      const StepState* previous = t == 0 ? nullptr : &(*states)[static_cast<std::size_t>(t - 1)];
      const Matrix d_sums = lstm_backward(state.cell, previous == nullptr ? zero : previous->cell.c, dh, dc);
      dsums.middleCols(t * k, k) = d_sums;
      after.middleCols(t * k, k) = state.cell.h;
      if (previous != nullptr) before.middleCols(t * k, k) = previous->cell.h;
      dh.setZero();
      add_product(dh, recurrent_back, d_sums);
    }
    Matrix dsymbols = Matrix::Zero(4 * h, d + 1), dgroups = Matrix::Zero(4 * h, steps);
    for (Eigen::Index t = 0; t < steps; ++t) {
      for (Eigen::Index s = 0; s < k; ++s) {
        dsymbols.col(t == 0 ? d : (*devices)[static_cast<std::size_t>(s * steps + t - 1)]) +=
            dsums.col(t * k + s);
        dgroups.col(t) += dsums.col(t * k + s);
      }
    }
    tape.gradient(b) += dsymbols.rowwise().sum();
    add_product_bt(tape.gradient(wh), Packed{dsums}, before);
    add_product_bt(tape.gradient(wq), Packed{dqueries.topRows(h)}, after);
    tape.gradient(v) += dscore.topRows(h);
    tape.gradient(wx).noalias() += dsymbols * tape.value(embedding).transpose();
    tape.gradient(embedding).noalias() += tape.value(wx).transpose() * dsymbols;
    tape.gradient(out).rightCols(encoded_again.rows()).noalias() += dseen_out * encoded_again.transpose();
    Matrix& dencoded = tape.gradient(memory);
    dencoded.noalias() += tape.value(out).rightCols(encoded_again.rows()).transpose() * dseen_out;
    const Matrix dkey = dkeys.topRows(h);
    add_product_bt(tape.gradient(wm), Packed{dkey}, encoded_again);
    add_product(dencoded, Packed::transposed(tape.value(wm)), dkey);
    if (options.sees_group) {
      Matrix seen = Matrix::Zero(h, steps), dseen = Matrix::Zero(h, steps);
      add_product(seen, Packed{tape.value(group)}, encoded_again);
      add_product(dseen, Packed::transposed(tape.value(wx)), dgroups);
      add_product_bt(tape.gradient(wx), Packed{dgroups}, seen);
      add_product_bt(tape.gradient(group), Packed{dseen}, encoded_again);
      add_product(dencoded, Packed::transposed(tape.value(group)), dseen);
    }
  });
  return decoded;
}

}  // namespace emplace::policy
