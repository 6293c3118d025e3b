#pragma once
/// Losses, shared by all learned placers: losses over trajectories of device choices. Sign: an
/// advantage is cost minus baseline and the loss is minimised; the papers maximise its negative.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"
#include "policy/parameters.h"
#include "policy/placer.h"

namespace emplace::policy {

enum class LossKind : std::uint8_t {
  kReinforce,  ///< Σ_n A_n log π(a_n)                      Paper: ColocRL 2017, Eq. 3  [COL-3]
  kKlPenalised,  ///< 1/N Σ_n [π(a_n)/q(a_n) A_n + β KL(q_n ‖ π_n)]  Paper: Spotlight 2018, Eq. 15  [SPO-15]
  kClippedRatio,  ///< 1/N Σ_n max(r_n A_n, clip(r_n, 1 - c, 1 + c) A_n)   Schulman 2017, Eq. 7  [PPO-7]
};
constexpr auto enum_words(LossKind) {
  return EnumWords{
      "loss", std::array{EnumWord{LossKind::kReinforce, "reinforce"}, EnumWord{LossKind::kKlPenalised, "kl"},
                         EnumWord{LossKind::kClippedRatio, "clipped"}}};
}

struct LossOptions {
  LossKind kind = LossKind::kReinforce;
  /// Weight of the entropy bonus per choice, with the loss's own normalisation over choices.
  float entropy = 0;
  float beta = 1;  ///< Initial β of the KL penalty.
  /// Target of the mean KL per choice; 0: constant β. β doubles above 1.5 times the target and halves below
  /// 1/1.5 of it.
  float kl_target = 0;
  float clip = 0.2f;  ///< Half width c of the clipping interval.
  /// Cap of the importance weight min(max_weight, Π_n π(a_n)/q(a_n)) with which REINFORCE weighs a trajectory
  /// from an older policy; 0: no weights.   Espeholt 2018, Eq. 1  [IS-1]
  float max_weight = 0;
  /// True if the gradient needs the full distribution of the behaviour policy.
  bool needs_behaviour() const { return kind != LossKind::kReinforce || max_weight > 0; }

  void list(Settings& settings) {
    settings.add("loss", kind,
                 "REINFORCE, Spotlight's KL-penalised objective (Eq. 15), or "
                 "PPO's clipped one.");
    settings.add("entropy", entropy, between(0, 1e6),
                 "Initial weight of the entropy bonus. Papers: only Placeto has one.");
    settings.add("beta", beta, between(0, 1e6), "Initial weight of the KL penalty. Paper: 1.");
    settings.add("kl_target", kl_target, between(0, 1e3),
                 "Target of the mean KL per choice, reached by adapting the weight of the KL penalty; 0: "
                 "constant weight.");
    settings.add("clip", clip, between(1e-3, 0.999),
                 "Half width of the clipping interval of the clipped loss.");
    settings.add(
        "max_weight", max_weight, between(0, 1e6),
        "Maximum importance weight of an episode that an older policy drew; 0 disables importance weights.");
  }
};

/// `count` trajectories of `stages` choices each; column n is choice n = trajectory · stages + stage.
struct Trajectories {
  std::size_t count = 0, stages = 0;
  /// [D, count · stages] Current log-probability of every device; -1e30 where forbidden.
  const Matrix* log_p = nullptr;
  std::span<const std::uint8_t> chosen;  ///< [count · stages] Chosen device.
  std::span<const float> advantage;      ///< [count · stages]
  std::span<const float> behaviour;      ///< [D, count · stages] Column-major log q; empty if not needed.
};

/// Adds `scale` times the gradient of the loss (a mean over trajectories) with respect to log_p to `seed` [D,
/// count · stages]. `beta` is the current β. @pre `behaviour` is set if needed; no chosen device is
/// forbidden.
LossParts add_loss_gradient(const LossOptions& options, float beta, const Trajectories& seen, float scale,
                            Matrix& seed);

/// Converts in place the gradient with respect to log-probabilities into that of the logits: g - p Σ g.
/// `log_p`, `gradient` [D, n].
void through_log_softmax(const Matrix& log_p, Matrix& gradient);

/// Returns β after an update whose mean KL per choice was `kl`.
float adapted_beta(const LossOptions& options, float beta, float kl);

/// Holds β as the parameter "objective.beta" [1, 1], which no gradient changes. As a parameter it is saved,
/// hashed, resumed and replayed bit-identically.   [SPO-BETA]
/// Thread: const members from any thread while no thread writes the store.
class AdaptiveBeta {
 public:
  /// Constant β from `options`; adds no parameter.
  explicit AdaptiveBeta(const LossOptions& options) : options_{options} {}
  AdaptiveBeta(ParameterStore& store, const LossOptions& options);

  /// Current β. @pre `store` is the one passed to the constructor, if any, or a copy; also for follow().
  float value(const ParameterStore& store) const { return kept_ ? store.value(id_)(0, 0) : options_.beta; }
  /// Adapts β after an update with a mean KL of `divergence` per choice.
  void follow(ParameterStore& store, double divergence) const;

 private:
  LossOptions options_;
  bool kept_ = false;
  ParameterId id_{};  // Valid if kept_.
};

}  // namespace emplace::policy
