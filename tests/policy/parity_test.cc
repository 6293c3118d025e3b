// Goal: encoder and decoder match the equations, and are not merely consistent with themselves.
// Method: values and gradients from an independent float64 implementation
// (tests/parity/make_hierarchical_fixture.py) and, for ColocRL and Spotlight with their losses, from
// PyTorch (tests/parity/make_sequence_fixture.py).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "policy/placers/group_placer.h"
#include "tests/policy/matrices.h"

namespace emplace::policy {
namespace {

using Rows = std::map<std::string, std::vector<std::vector<double>>>;

Rows read_fixture(const std::string& name) {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/" + name};
  Rows rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in{line};
    std::string key;
    in >> key;
    auto& row = rows[key].emplace_back();
    for (double value = 0; in >> value;) row.push_back(value);
  }
  return rows;
}

TEST(Parity, EncoderAndDecoderEqualTheIndependentImplementation) {
  const Rows rows = read_fixture("hierarchical_parity.txt");
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

/// Largest |ours - theirs| / max(1, |theirs|).
double worst(std::span<const float> ours, const std::vector<std::vector<double>>& theirs) {
  double worst = 0;
  std::size_t at = 0;
  for (const auto& row : theirs) {
    for (const double value : row) {
      if (at == ours.size()) return 1e9;
      worst =
          std::max(worst, std::abs(static_cast<double>(ours[at++]) - value) / std::max(1.0, std::abs(value)));
    }
  }
  return worst;
}

void check_network(const std::string& name, const LossOptions& loss,
                   Attention attention = Attention::kAdditive) {
  const Rows all = read_fixture("sequence_parity.txt");
  const auto row = [&](const std::string& key) -> const std::vector<double>& {
    return all.at(name + "." + key).front();
  };
  const auto size = [&](std::size_t i) { return static_cast<Eigen::Index>(row("sizes")[i]); };
  const Eigen::Index devices = size(1), groups = size(2), samples = size(3), embedded = size(5),
                     known = size(6);
  const bool by_type = all.contains(name + ".types");
  const Eigen::Index fixed = by_type ? static_cast<Eigen::Index>(row("fixed").size()) / groups : 0;

  ParameterStore store;
  const ParameterId input = store.add("input", embedded, known, Init::kZero, 1);
  GroupPlacerOptions options;
  options.hidden = size(0);
  options.layers = static_cast<std::size_t>(size(4));
  options.bidirectional = false;
  options.start_from_encoder = true;
  options.tanh_constant = 0;
  options.attention = attention;
  options.table_scale = 1;
  CommonPlacerOptions common;
  common.loss = loss;
  const GroupPlacer placer{store,
                           options,
                           common,
                           embedded + fixed,
                           static_cast<std::size_t>(groups),
                           static_cast<std::size_t>(devices),
                           {},
                           1};
  std::size_t at = 0;
  for (const auto& parameter : all.at(name + ".parameter")) {
    for (const double value : parameter) store.values()[at++] = static_cast<float>(value);
  }
  ASSERT_EQ(at, store.size() - (loss.kind == LossKind::kKlPenalised ? 1 : 0));

  Tape tape{store};
  Var x = tape.parameter(input);
  if (by_type) {
    x = tape.stack(tape.affine(x, tape.constant(matrix(row("types"), known, groups)),
                               tape.constant(Matrix::Zero(embedded, 1))),
                   tape.constant(matrix(row("fixed"), fixed, groups)));
  }
  Decisions chosen;
  for (const double device : row("chosen")) chosen.devices.push_back(static_cast<std::uint8_t>(device));
  for (const double log_q : row("behaviour")) chosen.log_q.push_back(static_cast<float>(log_q));
  std::vector<float> advantages;
  for (const double advantage : row("advantage")) advantages.push_back(static_cast<float>(advantage));
  DecodeInput decode_input;
  decode_input.samples = samples;
  decode_input.chosen = &chosen.devices;
  const Decoded decoded = placer.place(tape, x, decode_input);
  const Matrix& log_p = tape.value(decoded.log_p);
  EXPECT_LT(worst({log_p.data(), static_cast<std::size_t>(log_p.size())}, {row("log_p")}), 1e-5);
  const auto parts = placer.seed_loss(tape, decoded, chosen, advantages, 1);
  ASSERT_TRUE(parts.ok());
  EXPECT_NEAR(parts->loss, row("loss")[0], 1e-5 * std::max(1.0, std::abs(row("loss")[0])));
  tape.backward();
  EXPECT_LT(worst(store.gradients(), all.at(name + ".gradient")), 1e-5);
}

TEST(Parity, ColocRlEqualsPyTorch) { check_network("colocrl", {}); }
TEST(Parity, SpotlightEqualsPyTorch) {
  check_network("spotlight", {.kind = LossKind::kKlPenalised, .beta = 0.7f});
}
TEST(Parity, SpotlightWithTheAttentionOfChanEqualsPyTorch) {
  check_network("chan", {.kind = LossKind::kKlPenalised, .beta = 0.7f}, Attention::kDot);
}

}  // namespace
}  // namespace emplace::policy
