// Goal: every layer's backward is the derivative of its forward.
// Method: central differences in each parameter and input entry, against the tape, on small seeded layers;
// the function is a fixed random weighting of the outputs, so that errors cannot cancel.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "policy/nn/attention_decoder.h"
#include "policy/nn/decoder_draws.h"
#include "policy/nn/encoder.h"
#include "policy/nn/lstm.h"
#include "policy/nn/tape.h"
#include "tests/policy/differences.h"
#include "tests/policy/matrices.h"

namespace emplace::policy {
namespace {

/// Checks d(sum of weights ∘ output)/d(parameter) for every parameter of the store.
void expect_gradients(ParameterStore& store, const std::function<Var(Tape&)>& forward,
                      float tolerance = 4e-3f) {
  const auto value = [&](const Matrix& weights) {
    Tape tape{store};
    return static_cast<double>((tape.value(forward(tape)).array() * weights.array()).sum());
  };
  Tape tape{store};
  const Var out = forward(tape);
  const Matrix weights = random_matrix(tape.value(out).rows(), tape.value(out).cols(), 99);
  store.clear_gradients();
  tape.gradient(out) = weights;
  tape.backward();
  const std::vector<float> analytic(store.gradients().begin(), store.gradients().end());
  constexpr float kStep = 4e-3f;
  float largest = 0;
  for (std::size_t i = 0; i < analytic.size(); ++i) {
    const auto numeric =
        static_cast<float>(central_difference([&] { return value(weights); }, store.values()[i], kStep));
    EXPECT_NEAR(analytic[i], numeric, tolerance * std::max(1.0f, std::abs(numeric))) << "parameter " << i;
    largest = std::max(largest, std::abs(analytic[i]));
  }
  EXPECT_GT(largest, 1e-3f) << "nothing flowed: the check would prove nothing";
}

TEST(Gradient, AffineReluTanhStackAndLookup) {
  ParameterStore store;
  const ParameterId w = store.add("w", 5, 7, Init::kGlorot, 1), b = store.add("b", 5, 1, Init::kGlorot, 1),
                    table = store.add("table", 3, 4, Init::kGlorot, 1);
  const Matrix x = random_matrix(4, 6, 2);
  const std::vector<std::uint32_t> columns{0, 3, 3, 1, 2, 0};
  expect_gradients(store, [&](Tape& tape) {
    const Var in = tape.stack(tape.lookup(tape.parameter(table), columns), tape.constant(x));
    const Var y = tape.affine(tape.parameter(w), in, tape.parameter(b));
    return tape.stack(relu(tape, y), tape.tanh(y));
  });
}

TEST(Gradient, LstmBothWays) {
  for (const bool reversed : {false, true}) {
    ParameterStore store;
    const ParameterId x =
        store.add("x", 3, 5, Init::kGlorot, 3);  // The input as a parameter, to check its gradient too.
    const LstmParameters lstm = LstmParameters::add(store, "lstm", 3, 4, 3);
    expect_gradients(store,
                     [&](Tape& tape) { return lstm_sequence(tape, lstm, tape.parameter(x), reversed); });
  }
}

TEST(Gradient, BidirectionalLstmSharesItsInput) {
  ParameterStore store;
  const ParameterId x = store.add("x", 3, 4, Init::kGlorot, 4);
  const LstmParameters forth = LstmParameters::add(store, "forth", 3, 3, 4),
                       back = LstmParameters::add(store, "back", 3, 3, 4);
  expect_gradients(store, [&](Tape& tape) {
    const Var in = tape.parameter(x);
    return tape.stack(lstm_sequence(tape, forth, in, false), lstm_sequence(tape, back, in, true));
  });
}

/// The log-probability of the choices and the entropy, each summed over the steps: [2, k].
Var log_probability_and_entropy(Tape& tape, const Decoded& decoded, Eigen::Index samples) {
  const Matrix& log_p = tape.value(decoded.log_p);
  const Eigen::Index steps = log_p.cols() / samples;
  Matrix value = Matrix::Zero(2, samples);
  for (Eigen::Index n = 0; n < log_p.cols(); ++n) {
    value(0, n / steps) += log_p(decoded.devices[static_cast<std::size_t>(n)], n);
    value(1, n / steps) -= (log_p.col(n).array().exp() * log_p.col(n).array()).sum();
  }
  return tape.record(std::move(value), [&tape, decoded, steps](const Matrix& dy) {
    const Matrix& seen = tape.value(decoded.log_p);
    Matrix& flow = tape.gradient(decoded.log_p);
    for (Eigen::Index n = 0; n < seen.cols(); ++n) {
      flow(decoded.devices[static_cast<std::size_t>(n)], n) += dy(0, n / steps);
      flow.col(n).array() -= dy(1, n / steps) * seen.col(n).array().exp() * (seen.col(n).array() + 1);
    }
  });
}

void check_decoder(bool sees_group, const std::vector<std::vector<bool>>* allowed,
                   Attention attention = Attention::kAdditive) {
  DecoderOptions options;
  options.hidden = 4;
  options.devices = 3;
  options.memory_rows = 5;
  options.tanh_constant = 2;
  options.temperature = 0.7f;
  options.sees_group = sees_group;
  options.attention = attention;
  ParameterStore store;
  const ParameterId memory = store.add("memory-in", 5, 4, Init::kGlorot, 5),
                    shift = store.add("shift", 3, 4, Init::kGlorot, 5);
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 5);
  const std::vector<std::uint8_t> chosen{0, 2, 1, 0, 2, 2, 0, 1};  // Two samples of four groups.
  expect_gradients(store, [&](Tape& tape) {
    DecodeInput input;
    input.samples = 2;
    input.chosen = &chosen;
    input.allowed = allowed;
    const Decoded decoded =
        decode(tape, decoder, options, tape.parameter(memory), tape.parameter(shift), input);
    return log_probability_and_entropy(tape, decoded, input.samples);
  });
}

TEST(Gradient, DecoderWithLogProbabilityAndEntropy) { check_decoder(false, nullptr); }
TEST(Gradient, DecoderThatSeesItsGroup) { check_decoder(true, nullptr); }
TEST(Gradient, DecoderWithDotProductAttention) {
  check_decoder(false, nullptr, Attention::kDot);
  check_decoder(true, nullptr, Attention::kDot);
}
TEST(Gradient, DecoderUnderAMask) {
  const std::vector<std::vector<bool>> allowed{
      {true, false, true}, {true, true, true}, {true, true, false}, {true, true, true}};
  check_decoder(false, &allowed);
}

// Two layers of encoder, one way or both, and of decoder, which starts where the encoder ended; plain logits.
void check_two_layers(bool bidirectional, Attention attention = Attention::kAdditive) {
  EncoderOptions encoder_options{3, 3, 2, bidirectional};
  DecoderOptions options;
  options.hidden = 3;
  options.devices = 3;
  options.memory_rows = encoder_options.memory_rows();
  options.tanh_constant = 0;
  options.layers = 2;
  options.attention = attention;
  ParameterStore store;
  const ParameterId x = store.add("x", 3, 4, Init::kGlorot, 5),
                    shift = store.add("shift", 3, 4, Init::kGlorot, 5);
  const EncoderParameters encoder = EncoderParameters::add(store, "encoder", encoder_options, 5);
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 5);
  const std::vector<std::uint8_t> chosen{0, 2, 1, 0, 2, 2, 0, 1, 1, 1, 0, 2};  // Three samples, two blocks.
  expect_gradients(store, [&](Tape& tape) {
    const Encoded encoded = encode(tape, encoder, tape.parameter(x));
    DecodeInput input;
    input.samples = 3;
    input.chosen = &chosen;
    for (std::size_t l = 0; l < 2; ++l) {
      // Reduced to H rows by a fixed product, so that the gradients of all rows are checked.
      const Var mix = tape.constant(random_matrix(3, options.memory_rows, 7 + l));
      const Var none = tape.constant(Matrix::Zero(3, 1));
      input.start_h.push_back(tape.affine(mix, encoded.last_h[l], none));
      input.start_c.push_back(tape.affine(mix, encoded.last_c[l], none));
    }
    const Decoded decoded = decode(tape, decoder, options, encoded.memory, tape.parameter(shift), input);
    return log_probability_and_entropy(tape, decoded, input.samples);
  });
}

TEST(Gradient, TwoLayersOneWay) { check_two_layers(false); }
TEST(Gradient, TwoLayersBothWays) { check_two_layers(true); }
TEST(Gradient, TwoLayersWithDotProductAttention) { check_two_layers(false, Attention::kDot); }

TEST(Decoder, NoiseIsClippedAtItsLimit) {
  DecoderOptions options;
  options.hidden = 4;
  options.devices = 3;
  options.memory_rows = 5;
  ParameterStore store;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 5);
  const auto drawn = [&](float noise, float limit) {
    Tape tape{store};
    Rng rng{3, Purpose::kPlacing};
    DecodeInput input;
    input.samples = 50;
    input.rng = &rng;
    input.noise = noise;
    input.noise_limit = limit;
    return decode(tape, decoder, options, tape.constant(random_matrix(5, 4, 6)),
                  tape.constant(Matrix::Zero(3, 4)), input)
        .devices;
  };
  EXPECT_EQ(drawn(100, 1e-7f), drawn(1e-9f, 0));
  EXPECT_NE(drawn(100, 0), drawn(1e-9f, 0));
  EXPECT_NE(drawn(100, 5), drawn(1e-9f, 0));
  EXPECT_EQ(drawn(0.5f, 50), drawn(0.5f, 0));
}

// With W = 0 the logits are the shift, so the noise is known: share · size of the logits · ε.
TEST(Decoder, RelativeNoiseIsAShareOfTheLogitsAndPartOfLogP) {
  constexpr Eigen::Index kDevices = 3, kSteps = 2000;
  constexpr float kShare = 0.5f;
  DecoderOptions options;
  options.hidden = 4;
  options.devices = kDevices;
  options.memory_rows = 5;
  options.out = Init::kZero;
  ParameterStore store;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 5);
  const Matrix memory = random_matrix(5, kSteps, 6);
  Matrix logits(kDevices, kSteps), noisy(kDevices, kSteps);
  std::vector<std::vector<bool>> allowed;
  std::vector<std::uint8_t> expected;
  double squares = 0;
  Rng noise{3, Purpose::kPlacing};
  for (Eigen::Index t = 0; t < kSteps; ++t) {
    logits.col(t) = Eigen::Vector3f{2, -1, 0.5f} * (t % 2 == 0 ? 1 : 10);
    allowed.push_back({true, true, t % 5 != 0});
    const bool all = allowed.back()[2];
    const float size = std::sqrt((4 + 1 + (all ? 0.25f : 0)) / (all ? 3.0f : 2.0f)) * (t % 2 == 0 ? 1 : 10);
    for (Eigen::Index d = 0; d < kDevices; ++d) {
      noisy(d, t) = logits(d, t) + kShare * size * noise.normal();
      if (all) squares += std::pow(static_cast<double>((noisy(d, t) - logits(d, t)) / size), 2) / kDevices;
    }
    Eigen::VectorXf of_allowed = noisy.col(t);
    if (!all) of_allowed(2) = -std::numeric_limits<float>::infinity();
    expected.push_back(drawn_device(of_allowed, noise.uniform()));
  }
  EXPECT_NEAR(std::sqrt(squares / (0.8 * kSteps)), kShare, 0.02) << "the test's own noise";

  const auto run = [&](const Matrix& shift, Rng* rng, const std::vector<std::uint8_t>* chosen, float share) {
    Tape tape{store};
    const DecodeInput input{
        .chosen = chosen, .rng = rng, .noise = share, .relative_noise = true, .allowed = &allowed};
    const Decoded decoded =
        decode(tape, decoder, options, tape.constant(memory), tape.constant(shift), input);
    tape.gradient(decoded.log_p) = random_matrix(kDevices, kSteps, 4);
    store.clear_gradients();
    tape.backward();
    return std::tuple{decoded.devices, Matrix{tape.value(decoded.log_p)},
                      std::vector<float>(store.gradients().begin(), store.gradients().end())};
  };
  Rng draws{3, Purpose::kPlacing}, again{3, Purpose::kPlacing}, others{4, Purpose::kPlacing};
  const auto [drawn, log_p, gradient] = run(logits, &draws, nullptr, kShare);
  EXPECT_EQ(drawn, expected);
  const auto [devices, log_p_of_noisy, gradient_of_noisy] = run(noisy, nullptr, &drawn, 0);
  EXPECT_LT((log_p - log_p_of_noisy).cwiseAbs().maxCoeff(), 1e-4f) << "log softmax of the noisy logits";
  for (std::size_t i = 0; i < gradient.size(); ++i)
    EXPECT_NEAR(gradient[i], gradient_of_noisy[i], 1e-3f * std::max(1.0f, std::abs(gradient[i])));
  const auto [given, log_p_of_given, gradient_of_given] = run(logits, &again, &drawn, kShare);
  EXPECT_EQ(log_p_of_given, log_p) << "the same generator gives the same noise for given devices";
  EXPECT_EQ(gradient_of_given, gradient);
  EXPECT_NE(std::get<1>(run(logits, &others, &drawn, kShare)), log_p);
}

TEST(Decoder, BitsDoNotDependOnTheNumberOfThreads) {
  DecoderOptions options;
  options.hidden = 20;
  options.devices = 3;
  options.memory_rows = 24;
  options.layers = 2;
  ParameterStore store;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 9);
  const Matrix memory = random_matrix(24, 18, 1), shift = random_matrix(3, 18, 2);
  std::vector<std::uint8_t> drawn;
  std::vector<float> gradients;
  for (const std::size_t threads : {1, 2, 3, 8}) {
    Rng rng{3, Purpose::kTest};
    Tape tape{store};
    DecodeInput input;
    input.samples = 7;
    input.rng = &rng;
    input.noise = 0.2f;
    input.threads = threads;
    const Decoded decoded =
        decode(tape, decoder, options, tape.constant(memory), tape.constant(shift), input);
    tape.gradient(decoded.log_p) = random_matrix(3, 7 * 18, 4);
    store.clear_gradients();
    tape.backward();
    const std::vector<float> now(store.gradients().begin(), store.gradients().end());
    if (threads == 1) drawn = decoded.devices, gradients = now;
    EXPECT_EQ(decoded.devices, drawn);
    EXPECT_EQ(now, gradients) << threads << " threads";
  }
}

TEST(Decoder, ForbiddenDevicesGetNoGradient) {
  DecoderOptions options;
  options.hidden = 4;
  options.devices = 3;
  options.memory_rows = 5;
  ParameterStore store;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 6);
  const std::vector<std::vector<bool>> allowed(6, {true, false, true});
  Tape tape{store};
  DecodeInput input;
  input.greedy = true;
  input.allowed = &allowed;
  const Decoded decoded = decode(tape, decoder, options, tape.constant(random_matrix(5, 6, 7)),
                                 tape.constant(Matrix::Zero(3, 6)), input);
  for (Eigen::Index n = 0; n < 6; ++n) EXPECT_EQ(tape.value(decoded.log_p)(1, n), -1e30f);
  tape.gradient(decoded.log_p).row(1).setConstant(1e6f);
  tape.backward();
  for (const float gradient : store.gradients()) EXPECT_EQ(gradient, 0.0f);
}

TEST(Decoder, ForbiddenDevicesAreNeverDrawn) {
  DecoderOptions options;
  options.hidden = 4;
  options.devices = 3;
  options.memory_rows = 5;
  ParameterStore store;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 6);
  const std::vector<std::vector<bool>> allowed(6, {true, false, true});
  Rng rng{1, Purpose::kTest};
  Tape tape{store};
  DecodeInput input;
  input.samples = 50;
  input.rng = &rng;
  input.noise = 1;
  input.allowed = &allowed;
  const Decoded decoded = decode(tape, decoder, options, tape.constant(random_matrix(5, 6, 7)),
                                 tape.constant(Matrix::Zero(3, 6)), input);
  std::size_t zeros = 0;
  for (const std::uint8_t device : decoded.devices) {
    EXPECT_NE(device, 1);
    zeros += device == 0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 50u);
  EXPECT_LT(zeros, 250u);
}

TEST(Decoder, DrawsFollowTheProbabilitiesThatItReports) {
  DecoderOptions options;
  options.hidden = 3;
  options.devices = 2;
  options.memory_rows = 2;
  ParameterStore store;
  const DecoderParameters decoder = DecoderParameters::add(store, "decoder", options, 8);
  Matrix shift(2, 1);
  shift << 1.0f, 0.0f;
  Rng rng{2, Purpose::kTest};
  Tape tape{store};
  DecodeInput input;
  input.samples = 20'000;
  input.rng = &rng;
  const Decoded decoded =
      decode(tape, decoder, options, tape.constant(Matrix::Ones(2, 1)), tape.constant(shift), input);
  double first = 0, p = 0;
  for (Eigen::Index s = 0; s < input.samples; ++s) {
    if (decoded.devices[static_cast<std::size_t>(s)] != 0) continue;
    first += 1;
    p = std::exp(tape.value(decoded.log_p)(0, s));
  }
  EXPECT_NEAR(first / static_cast<double>(input.samples), p, 0.015);
}

}  // namespace
}  // namespace emplace::policy
