// Goal: the Grouper draws from the softmax of its network and learns along its gradient, independently of
// blocks and padding. Method: a plain network in double for comparison; counts of draws; central differences.
#include "policy/nn/grouper.h"

#include <gtest/gtest.h>

#include <cmath>

#include "policy/nn/kernels.h"

namespace emplace::policy {
namespace {

constexpr Eigen::Index kUnits = 130, kFeatures = 5, kVocabulary = 3;  // More than one block, and a remainder.

struct GrouperNet {
  explicit GrouperNet(GrouperOptions options, bool started = false)
      : grouper{store, "g", options, units(started, options.groups), 1} {}
  static GrouperUnits units(bool started, Eigen::Index groups) {
    Rng rng{5, Purpose::kTest};
    GrouperUnits units;
    units.vocabulary = kVocabulary;
    units.numbers.resize(kFeatures, kUnits);
    for (Eigen::Index i = 0; i < units.numbers.size(); ++i) units.numbers.data()[i] = 2 * rng.uniform() - 1;
    for (Eigen::Index u = 0; u < kUnits; ++u) {
      units.types.push_back(rng.below(kVocabulary));
      if (started) units.start_group.push_back(static_cast<std::uint16_t>(u % groups));
    }
    return units;
  }
  ParameterStore store;
  Grouper grouper;
};

/// [groups] Logits of one unit, from the parameters in the store's order: types, w1, b1, w2, b2.
Eigen::VectorXd logits_of(const GrouperNet& net, const GrouperOptions& o, const GrouperUnits& units,
                          Eigen::Index unit) {
  const float* at = net.store.values().data();
  const auto take = [&](Eigen::Index rows, Eigen::Index cols) {
    const ConstMatrixMap m{at, rows, cols};
    at += rows * cols;
    return Eigen::MatrixXd{m.cast<double>()};
  };
  const auto types = take(o.type_embedding, kVocabulary), w1 = take(o.hidden, o.type_embedding + kFeatures),
             b1 = take(o.hidden, 1), w2 = take(o.groups, o.hidden), b2 = take(o.groups, 1);
  Eigen::VectorXd in(o.type_embedding + kFeatures);
  in << types.col(units.types[static_cast<std::size_t>(unit)]), units.numbers.col(unit).cast<double>();
  Eigen::VectorXd logits = w2 * (w1 * in + b1).cwiseMax(0.0) + b2;
  if (!units.start_group.empty()) logits(units.start_group[static_cast<std::size_t>(unit)]) += o.confidence;
  return logits;
}

double log_softmax(const Eigen::VectorXd& logits, std::uint16_t group) {
  return logits(group) - std::log(logits.array().exp().sum());
}

double log_probability(const GrouperNet& net, const GrouperOptions& o, const GrouperUnits& units,
                       Eigen::Index unit, std::uint16_t group) {
  return log_softmax(logits_of(net, o, units, unit), group);
}

TEST(Grouper, DrawsFollowItsNetwork) {
  const GrouperOptions options{.groups = 6, .type_embedding = 2, .hidden = 7};
  const GrouperNet net{options};
  const GrouperUnits units = GrouperNet::units(false, 6);
  constexpr int kDraws = 4000;
  constexpr std::size_t kUnit = 129;
  std::vector<int> count(6, 0);
  for (std::uint64_t e = 0; e < kDraws; ++e) {
    Rng draws{3, Purpose::kGrouping, e};
    GrouperNoise none{Rng{3, Purpose::kNoise, e}};
    ++count[net.grouper.draw(net.store, draws, none)[kUnit]];
  }
  for (std::uint16_t g = 0; g < 6; ++g) {
    EXPECT_NEAR(count[g] / static_cast<double>(kDraws),
                std::exp(log_probability(net, options, units, kUnit, g)), 0.03)
        << "group " << g;
  }
}

TEST(Grouper, LossAndGradientAreThoseOfTheWeightedLogProbability) {
  for (const bool started : {false, true}) {
    const GrouperOptions options{.groups = 6, .type_embedding = 2, .hidden = 7, .confidence = 3};
    GrouperNet net{options, started};
    const GrouperUnits units = GrouperNet::units(started, 6);
    std::vector<std::vector<std::uint16_t>> groups(2);
    for (Eigen::Index u = 0; u < kUnits; ++u) {
      groups[0].push_back(static_cast<std::uint16_t>(u * 7 % 6));
      groups[1].push_back(static_cast<std::uint16_t>(u / 3 % 6));
    }
    const std::vector<float> weights{0.5f, -0.25f};
    const auto expected = [&] {
      double loss = 0;
      for (std::size_t e = 0; e < 2; ++e) {
        for (Eigen::Index u = 0; u < kUnits; ++u) {
          loss += static_cast<double>(weights[e]) *
                  log_probability(net, options, units, u, groups[e][static_cast<std::size_t>(u)]);
        }
      }
      return loss;
    };
    net.store.clear_gradients();
    EXPECT_NEAR(net.grouper.accumulate_gradient(net.store, groups, weights), expected(), 1e-3);
    for (std::size_t i = 0; i < net.store.size(); ++i) {
      const float kept = net.store.values()[i];
      constexpr float kStep = 2e-5f;  // Small, for the kinks of relu: the values are doubles.
      net.store.values()[i] = kept + kStep;
      const double above = expected(), upper = net.store.values()[i];
      net.store.values()[i] = kept - kStep;
      const double below = expected(), lower = net.store.values()[i];
      net.store.values()[i] = kept;
      const double numeric = (above - below) / (upper - lower);
      EXPECT_NEAR(net.store.gradients()[i], numeric, 2e-2 * std::max(1.0, std::abs(numeric)))
          << "parameter " << i;
    }
  }
}

// Noise that exceeds any logit but is clipped to zero draws as without noise; a limit that is not reached
// changes no bit.
TEST(Grouper, NoiseIsClippedAtItsLimit) {
  const GrouperNet net{{.groups = 6, .type_embedding = 2, .hidden = 7}};
  const auto drawn = [&](float deviation, float limit) {
    Rng draws{4, Purpose::kGrouping};
    GrouperNoise noise{Rng{4, Purpose::kNoise}, deviation, limit};
    return net.grouper.draw(net.store, draws, noise);
  };
  EXPECT_EQ(drawn(100, 1e-7f), drawn(0, 0));
  EXPECT_NE(drawn(100, 0), drawn(0, 0));
  EXPECT_NE(drawn(100, 5), drawn(0, 0));
  EXPECT_NE(drawn(100, 5), drawn(100, 0));
  EXPECT_EQ(drawn(0.5f, 0.5f * 3.47f), drawn(0.5f, 0)) << "four bytes are at most 3.46 deviations";
}

// The noise is the share of the root mean square of all logits, whatever their scale, and part of log p.
TEST(Grouper, RelativeNoiseIsAShareOfTheLogitsAndPartOfLogP) {
  const GrouperOptions options{.groups = 6, .type_embedding = 2, .hidden = 7};
  constexpr float kShare = 0.5f;
  GrouperNet net{options};
  const GrouperUnits units = GrouperNet::units(false, 6);
  for (const float scale : {1.0f, 20.0f}) {
    for (float& value : net.store.values().last(6 * 7 + 6)) value *= scale;  // w2 and b2
    double squares = 0;
    for (Eigen::Index u = 0; u < kUnits; ++u) squares += logits_of(net, options, units, u).squaredNorm();
    const auto deviation = kShare * static_cast<float>(std::sqrt(squares / (6 * kUnits)));
    const auto drawn = [&](GrouperNoise noise) {
      Rng draws{4, Purpose::kGrouping};
      return net.grouper.draw(net.store, draws, noise);
    };
    const GrouperNoise relative{Rng{4, Purpose::kNoise}, kShare, 0, true};
    const auto groups = drawn(relative);
    EXPECT_EQ(groups, drawn({Rng{4, Purpose::kNoise}, deviation})) << "scale " << scale;
    EXPECT_NE(groups, drawn({Rng{4, Purpose::kNoise}, 0}));
    EXPECT_EQ(drawn({Rng{4, Purpose::kNoise}, kShare, 0.3f, true}),
              drawn({Rng{4, Purpose::kNoise}, deviation, deviation / kShare * 0.3f}));

    Matrix noise = Matrix::Zero(padded(6), kUnits);
    Rng words{4, Purpose::kNoise};
    for (Eigen::Index u = 0; u < kUnits; ++u) {
      const std::uint32_t key[4] = {words(), words(), words(), words()};
      kernels().add_noise(noise.rows(), noise.col(u).data(), deviation, key);
    }
    const auto loss = [&] {
      double total = 0;
      for (Eigen::Index u = 0; u < kUnits; ++u) {
        const Eigen::VectorXd noisy = logits_of(net, options, units, u) + noise.col(u).head(6).cast<double>();
        total += 0.5 * log_softmax(noisy, groups[static_cast<std::size_t>(u)]);
      }
      return total;
    };
    const float weight = 0.5f;
    net.store.clear_gradients();
    EXPECT_NEAR(net.grouper.accumulate_gradient(net.store, {&groups, 1}, {&weight, 1}, nullptr, relative),
                loss(), 1e-3 * scale);
    for (std::size_t i = net.store.size() - 6; i < net.store.size(); ++i) {  // b2
      const float kept = net.store.values()[i];
      net.store.values()[i] = kept + 1e-3f;
      const double above = loss();
      net.store.values()[i] = kept - 1e-3f;
      const double below = loss();
      net.store.values()[i] = kept;
      EXPECT_NEAR(net.store.gradients()[i], (above - below) / 2e-3, 2e-2) << "parameter " << i;
    }
  }
}

TEST(Grouper, ConfidentStartIsKept) {
  const GrouperNet net{{.groups = 6, .type_embedding = 2, .hidden = 7, .confidence = 30}, true};
  Rng draws{4, Purpose::kGrouping};
  GrouperNoise noise{Rng{4, Purpose::kNoise}, 0.1f};
  const auto drawn = net.grouper.draw(net.store, draws, noise);
  EXPECT_EQ(drawn, GrouperNet::units(true, 6).start_group);
  EXPECT_EQ(net.grouper.likeliest(net.store), drawn);
}

}  // namespace
}  // namespace emplace::policy
