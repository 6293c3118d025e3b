// Goal: the gradients are those of the losses, and each loss matches its paper.  Method: finite differences
// through the softmax, and cases that can be computed by hand.
#include "policy/loss/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace emplace::policy {
namespace {

Matrix log_softmax(const Matrix& logits) {
  Matrix out = logits;
  for (Eigen::Index n = 0; n < logits.cols(); ++n) {
    double total = 0;
    for (Eigen::Index d = 0; d < logits.rows(); ++d) total += std::exp(static_cast<double>(logits(d, n)));
    out.col(n).array() -= static_cast<float>(std::log(total));
  }
  return out;
}

struct Case {
  Matrix logits, behaviour;
  std::vector<std::uint8_t> chosen;
  std::vector<float> advantage;
  Case() {
    Rng rng{3, Purpose::kTest};
    logits.resize(3, 6);
    behaviour.resize(3, 6);
    for (Eigen::Index i = 0; i < logits.size(); ++i) {
      logits(i) = 2 * rng.uniform() - 1;
      behaviour(i) = logits(i) + 0.4f * rng.uniform() - 0.2f;
    }
    behaviour = log_softmax(behaviour);
    for (int n = 0; n < 6; ++n) {
      chosen.push_back(static_cast<std::uint8_t>(rng.below(3)));
      advantage.push_back(4 * rng.uniform() - 2);
    }
  }
  LossParts parts(const LossOptions& options, float beta, Matrix* gradient) const {
    const Matrix log_p = log_softmax(logits);
    Matrix seed = Matrix::Zero(3, 6);
    const LossParts parts = add_loss_gradient(
        options, beta, {2, 3, &log_p, chosen, advantage, {behaviour.data(), 18}}, 1.0f, seed);
    if (gradient != nullptr) {
      through_log_softmax(log_p, seed);
      *gradient = seed;
    }
    return parts;
  }
};

void expect_gradient_of_loss(const LossOptions& options, float beta) {
  Case c;
  Matrix gradient;
  c.parts(options, beta, &gradient);
  for (Eigen::Index i = 0; i < c.logits.size(); ++i) {
    const float kept = c.logits(i), step = 1e-2f;
    c.logits(i) = kept + step;
    const double above = c.parts(options, beta, nullptr).loss;
    c.logits(i) = kept - step;
    const double below = c.parts(options, beta, nullptr).loss;
    c.logits(i) = kept;
    EXPECT_NEAR(gradient(i), (above - below) / (2 * step), 2e-4) << word_of(options.kind) << " " << i;
  }
}

TEST(Objective, GradientsAreThoseOfTheLoss) {
  expect_gradient_of_loss({.kind = LossKind::kReinforce, .entropy = 0.3f}, 1);
  expect_gradient_of_loss({.kind = LossKind::kKlPenalised, .entropy = 0.3f}, 0.7f);
  expect_gradient_of_loss({.kind = LossKind::kClippedRatio, .clip = 0.5f}, 1);
}

TEST(Objective, Eq15AtTheBehaviourPolicyIsReinforceOverTheChoices) {
  Case c;
  c.behaviour = log_softmax(c.logits);
  Matrix surrogate, reinforce;
  const LossParts parts = c.parts({.kind = LossKind::kKlPenalised}, 1, &surrogate);
  c.parts({}, 1, &reinforce);
  EXPECT_NEAR(parts.divergence, 0, 1e-6);
  EXPECT_TRUE(surrogate.isApprox(reinforce * (2.0f / 6.0f), 1e-4f));
}

TEST(Objective, KlPenaltyPullsBackToTheBehaviourPolicy) {
  Case c;
  c.advantage.assign(6, 0.0f);
  Matrix gradient;
  const double before = c.parts({.kind = LossKind::kKlPenalised}, 2, &gradient).divergence;
  ASSERT_GT(before, 1e-3);
  c.logits -= gradient;
  EXPECT_LT(c.parts({.kind = LossKind::kKlPenalised}, 2, nullptr).divergence, before);
}

TEST(Objective, ClippedRatioHasNoGradientBeyondItsLimit) {
  Case c;
  c.logits.setZero();
  c.behaviour = log_softmax(c.logits);
  c.chosen.assign(6, 0);
  c.logits.row(0).setConstant(1.0f);  // The chosen device is much likelier than at the draw.
  Matrix gradient;
  c.advantage.assign(6, -1.0f);  // Better than expected, but the ratio already exceeds 1 + c.
  c.parts({.kind = LossKind::kClippedRatio}, 1, &gradient);
  EXPECT_TRUE(gradient.isZero(0));
  c.advantage.assign(6, 1.0f);  // Worse than expected: the ratio must decrease.
  c.parts({.kind = LossKind::kClippedRatio}, 1, &gradient);
  EXPECT_GT(gradient(0, 0), 0.01f);
}

TEST(Objective, StaleTrajectoriesAreWeightedByTheNewerPolicy) {
  Case c;
  Matrix plain, weighted;
  c.parts({}, 1, &plain);
  c.parts({.max_weight = 1000}, 1, &weighted);
  const Matrix log_p = log_softmax(c.logits);
  for (Eigen::Index trajectory = 0; trajectory < 2; ++trajectory) {
    double log_weight = 0;
    for (Eigen::Index n = 3 * trajectory; n < 3 * trajectory + 3; ++n) {
      const std::uint8_t device = c.chosen[static_cast<std::size_t>(n)];
      log_weight += log_p(device, n) - c.behaviour(device, n);
    }
    const Matrix expected = plain.middleCols(3 * trajectory, 3) * static_cast<float>(std::exp(log_weight));
    EXPECT_TRUE(weighted.middleCols(3 * trajectory, 3).isApprox(expected, 1e-4f));
  }
  c.parts({.max_weight = 1e-3f}, 1, &weighted);
  EXPECT_TRUE(weighted.isApprox(plain * 1e-3f, 1e-4f)) << "truncated";
}

TEST(Objective, BetaFollowsItsTarget) {
  const LossOptions adaptive{.kl_target = 0.01f}, fixed{};
  EXPECT_EQ(adapted_beta(adaptive, 1, 0.02f), 2);
  EXPECT_EQ(adapted_beta(adaptive, 1, 0.005f), 0.5f);
  EXPECT_EQ(adapted_beta(adaptive, 1, 0.01f), 1);
  EXPECT_EQ(adapted_beta(fixed, 1, 5), 1);
}

}  // namespace
}  // namespace emplace::policy
