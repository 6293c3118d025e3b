// Goal: encoder and decoder are the network of the equations, not merely consistent with themselves.
// Method: values and gradients from an independent float64 implementation
// (tests/parity/make_hierarchical_fixture.py).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "policy/nn/attention_decoder.h"

namespace emplace::policy {
namespace {

using Rows = std::map<std::string, std::vector<std::vector<double>>>;

Rows read_fixture() {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/hierarchical_parity.txt"};
  Rows rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in{line};
    std::string name;
    in >> name;
    auto& row = rows[name].emplace_back();
    for (double value = 0; in >> value;) row.push_back(value);
  }
  return rows;
}

Matrix matrix(const std::vector<double>& values, Eigen::Index rows, Eigen::Index cols) {
  Matrix m(rows, cols);
  for (Eigen::Index i = 0; i < m.size(); ++i)
    m.data()[i] = static_cast<float>(values[static_cast<std::size_t>(i)]);
  return m;
}

TEST(Parity, EncoderAndDecoderEqualTheIndependentImplementation) {
  const Rows rows = read_fixture();
  ASSERT_TRUE(rows.contains("gradient"));
  const auto size = [&](std::size_t i) { return static_cast<Eigen::Index>(rows.at("sizes")[0][i]); };
  const Eigen::Index in = size(0), hidden = size(1), devices = size(2), groups = size(3), samples = size(4);
  ParameterStore store;
  const LstmParameters forth = LstmParameters::add(store, "forth", in, hidden, 1),
                       back = LstmParameters::add(store, "back", in, hidden, 1);
  DecoderOptions options;
  options.hidden = hidden;
  options.devices = devices;
  options.memory_rows = 2 * hidden;
  options.tanh_constant = static_cast<float>(rows.at("constants")[0][0]);
  options.temperature = static_cast<float>(rows.at("constants")[0][1]);
  options.sees_group = true;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 1);
  std::size_t at = 0;
  for (const auto& parameter : rows.at("parameter")) {
    for (const double value : parameter) store.values()[at++] = static_cast<float>(value);
  }
  ASSERT_EQ(at, store.size());

  Tape tape{store};
  const Var x = tape.constant(matrix(rows.at("x")[0], in, groups));
  const Var memory = tape.stack(lstm_sequence(tape, forth, x, false), lstm_sequence(tape, back, x, true));
  std::vector<std::uint8_t> chosen;
  for (const double device : rows.at("chosen")[0]) chosen.push_back(static_cast<std::uint8_t>(device));
  DecodeInput input;
  input.samples = samples;
  input.chosen = &chosen;
  const Decoded decoded = decode(tape, decoder, options, memory,
                                 tape.constant(matrix(rows.at("shift")[0], devices, groups)), input);
  const Matrix expected = matrix(rows.at("value")[0], 2, samples),
               weights = matrix(rows.at("weights")[0], 2, samples);
  const Matrix& log_p = tape.value(decoded.log_p);
  Matrix value = Matrix::Zero(2, samples), &seed = tape.gradient(decoded.log_p);
  for (Eigen::Index n = 0; n < log_p.cols(); ++n) {
    const Eigen::Index s = n / groups, device = chosen[static_cast<std::size_t>(n)];
    value(0, s) += log_p(device, n);
    seed(device, n) += weights(0, s);
    for (Eigen::Index d = 0; d < devices; ++d) {
      value(1, s) -= std::exp(log_p(d, n)) * log_p(d, n);
      seed(d, n) -= weights(1, s) * std::exp(log_p(d, n)) * (log_p(d, n) + 1);
    }
  }
  EXPECT_LT((value - expected).cwiseAbs().maxCoeff(), 2e-5f);
  tape.backward();
  at = 0;
  for (const auto& gradient : rows.at("gradient")) {
    for (const double derivative : gradient) {
      EXPECT_NEAR(store.gradients()[at], derivative, 5e-5 * std::max(1.0, std::abs(derivative)))
          << "parameter " << at;
      ++at;
    }
  }
}

}  // namespace
}  // namespace emplace::policy
