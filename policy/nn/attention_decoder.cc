#include "policy/nn/attention_decoder.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

/// What one step leaves for the backward pass; k columns each.
struct StepState {
  LstmCell cell;
  Matrix attention;    // [T, k]
  Matrix context;      // [memory_rows, k]
  Matrix squashed;     // [D, k] tanh(l / T)
  Matrix probability;  // [D, k]
  Matrix log_p;        // [D, k]
};

/// Scores v·tanh(M E_g + q) of every group; the sums are [H, T], contiguous by group.
void attend(const Matrix& keys, const Matrix& query, const Matrix& v, Matrix& attention) {
  const Eigen::Index groups = keys.cols();
  for (Eigen::Index k = 0; k < query.cols(); ++k) {
    for (Eigen::Index g = 0; g < groups; ++g) {
      attention(g, k) = ((keys.col(g) + query.col(k)).array().tanh() * v.col(0).array()).sum();
    }
    auto column = attention.col(k).array();
    column = (column - column.maxCoeff()).exp();
    column /= column.sum();
  }
}

/// Backward of attend(): adds to the gradients of keys, query and v.
void attend_backward(const Matrix& keys, const Matrix& query, const Matrix& v, const Matrix& attention, const Matrix& dattention,
                     Matrix& dkeys, Matrix& dquery, Matrix& dv) {
  Eigen::ArrayXf t(keys.rows()), flow(keys.rows());
  for (Eigen::Index k = 0; k < query.cols(); ++k) {
    const float mean = attention.col(k).dot(dattention.col(k));
    for (Eigen::Index g = 0; g < keys.cols(); ++g) {
      const float ds = attention(g, k) * (dattention(g, k) - mean);
      t = (keys.col(g) + query.col(k)).array().tanh();
      dv.col(0).array() += ds * t;
      flow = ds * v.col(0).array() * (1.0f - t.square());
      dkeys.col(g).array() += flow;
      dquery.col(k).array() += flow;
    }
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

DecoderParameters DecoderParameters::add(ParameterStore& store, const std::string& name, const DecoderOptions& options, std::uint64_t seed) {
  DecoderParameters p;
  const Eigen::Index h = options.hidden, d = options.devices, m = options.memory_rows;
  p.lstm = LstmParameters::add(store, name + ".lstm", h, h, seed);
  p.embedding = store.add(name + ".embedding", h, d + 1, Init::kGlorot, seed);
  p.group = store.add(name + ".group", options.sees_group ? h : 0, options.sees_group ? m : 0, Init::kGlorot, seed);
  p.memory = store.add(name + ".memory", h, m, Init::kGlorot, seed);
  p.query = store.add(name + ".query", h, h, Init::kGlorot, seed);
  p.score = store.add(name + ".score", h, 1, Init::kGlorot, seed);
  p.out = store.add(name + ".out", d, h + m, Init::kGlorot, seed);
  p.bias = store.add(name + ".bias", d, 1, Init::kZero, seed);
  return p;
}

Decoded decode(Tape& tape, const DecoderParameters& parameters, const DecoderOptions& options, Var memory, Var shift, const DecodeInput& input) {
  EMPLACE_CHECK(input.chosen != nullptr || input.greedy || input.rng != nullptr, "devices must be given, taken or drawn");
  const Eigen::Index steps = tape.value(memory).cols(), k = input.samples, h = options.hidden, d = options.devices;
  const Var wx = tape.parameter(parameters.lstm.wx), wh = tape.parameter(parameters.lstm.wh), b = tape.parameter(parameters.lstm.b);
  const Var embedding = tape.parameter(parameters.embedding), group = tape.parameter(parameters.group);
  const Var wm = tape.parameter(parameters.memory), wq = tape.parameter(parameters.query), v = tape.parameter(parameters.score);
  const Var out = tape.parameter(parameters.out), bias = tape.parameter(parameters.bias);
  const Matrix& encoded = tape.value(memory);
  auto keys = std::make_shared<Matrix>(tape.value(wm) * encoded);
  // The parts of an LSTM's sums that do not depend on its state: one column per symbol, one per group.
  const Matrix symbol_sums = tape.value(wx) * tape.value(embedding);
  Matrix group_sums = Matrix::Zero(4 * h, steps);
  if (options.sees_group) group_sums.noalias() = tape.value(wx) * (tape.value(group) * encoded);

  auto states = std::make_shared<std::vector<StepState>>(static_cast<std::size_t>(steps));
  auto devices = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(k * steps));
  Matrix h_before = Matrix::Zero(h, k), c_before = Matrix::Zero(h, k), value = Matrix::Zero(2, k);
  Matrix sums(4 * h, k), query(h, k), logits(d, k);
  for (Eigen::Index t = 0; t < steps; ++t) {
    StepState& state = (*states)[static_cast<std::size_t>(t)];
    for (Eigen::Index s = 0; s < k; ++s) {
      const Eigen::Index symbol = t == 0 ? d : (*devices)[static_cast<std::size_t>(s * steps + t - 1)];
      sums.col(s) = tape.value(b).col(0) + symbol_sums.col(symbol) + group_sums.col(t);
    }
    sums.noalias() += tape.value(wh) * h_before;
    lstm_forward(sums, c_before, state.cell);
    query.noalias() = tape.value(wq) * state.cell.h;
    state.attention.resize(steps, k);
    attend(*keys, query, tape.value(v), state.attention);
    state.context.noalias() = encoded * state.attention;
    logits.noalias() = tape.value(out).leftCols(h) * state.cell.h;
    logits.noalias() += tape.value(out).rightCols(encoded.rows()) * state.context;
    logits.colwise() += tape.value(bias).col(0);
    state.squashed = (logits / options.temperature).array().tanh();
    logits = options.tanh_constant * state.squashed;
    logits.colwise() += tape.value(shift).col(t);
    if (input.allowed != nullptr) {
      for (Eigen::Index i = 0; i < d; ++i) {
        if (!(*input.allowed)[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)]) logits.row(i).setConstant(-std::numeric_limits<float>::infinity());
      }
    }
    state.log_p.resize(d, k);
    for (Eigen::Index s = 0; s < k; ++s) {
      const float peak = logits.col(s).maxCoeff();
      state.log_p.col(s) = logits.col(s).array() - peak - std::log((logits.col(s).array() - peak).exp().sum());
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
    const Matrix zero = Matrix::Zero(h, k);
    Matrix dh = zero, dc = zero, dkeys = Matrix::Zero(keys->rows(), keys->cols()), dencoded = Matrix::Zero(encoded_again.rows(), steps);
    Matrix dquery(h, k), dattention(steps, k), dlogits(d, k), dsymbols = Matrix::Zero(4 * h, d + 1), dgroups = Matrix::Zero(4 * h, steps);
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
      dlogits.array() *= (options.tanh_constant / options.temperature) * (1.0f - state.squashed.array().square());
      tape.gradient(out).leftCols(h).noalias() += dlogits * state.cell.h.transpose();
      tape.gradient(out).rightCols(encoded_again.rows()).noalias() += dlogits * state.context.transpose();
      tape.gradient(bias) += dlogits.rowwise().sum();
      dh.noalias() += tape.value(out).leftCols(h).transpose() * dlogits;
      const Matrix dcontext = tape.value(out).rightCols(encoded_again.rows()).transpose() * dlogits;
      dencoded.noalias() += dcontext * state.attention.transpose();
      dattention.noalias() = encoded_again.transpose() * dcontext;
      const Matrix query_again = tape.value(wq) * state.cell.h;
      dquery.setZero();
      attend_backward(*keys, query_again, tape.value(v), state.attention, dattention, dkeys, dquery, tape.gradient(v));
      tape.gradient(wq).noalias() += dquery * state.cell.h.transpose();
      dh.noalias() += tape.value(wq).transpose() * dquery;
      const StepState* previous = t == 0 ? nullptr : &(*states)[static_cast<std::size_t>(t - 1)];
      const Matrix dsums = lstm_backward(state.cell, previous == nullptr ? zero : previous->cell.c, dh, dc);
      for (Eigen::Index s = 0; s < k; ++s) {
        dsymbols.col(t == 0 ? d : (*devices)[static_cast<std::size_t>(s * steps + t - 1)]) += dsums.col(s);
      }
      dgroups.col(t) = dsums.rowwise().sum();
      tape.gradient(b) += dgroups.col(t);
      if (previous != nullptr) tape.gradient(wh).noalias() += dsums * previous->cell.h.transpose();
      dh.noalias() = tape.value(wh).transpose() * dsums;
    }
    tape.gradient(wx).noalias() += dsymbols * tape.value(embedding).transpose();
    tape.gradient(embedding).noalias() += tape.value(wx).transpose() * dsymbols;
    if (options.sees_group) {
      const Matrix seen = tape.value(group) * encoded_again;
      const Matrix dseen = tape.value(wx).transpose() * dgroups;
      tape.gradient(wx).noalias() += dgroups * seen.transpose();
      tape.gradient(group).noalias() += dseen * encoded_again.transpose();
      dencoded.noalias() += tape.value(group).transpose() * dseen;
    }
    tape.gradient(wm).noalias() += dkeys * encoded_again.transpose();
    dencoded.noalias() += tape.value(wm).transpose() * dkeys;
    tape.gradient(memory) += dencoded;
  });
  return decoded;
}

}  // namespace emplace::policy
