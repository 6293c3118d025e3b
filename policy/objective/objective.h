#pragma once
/// What a gradient is taken of, the same for every placer that learns: trajectories of choices of a device.
/// Signs: an advantage is cost minus baseline, and the loss is descended; the papers ascend the negative.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"
#include "policy/parameters.h"
#include "policy/placer.h"

namespace emplace::policy {

enum class ObjectiveKind : std::uint8_t {
  kReinforce,  ///< Σ_n A_n log π(a_n)                      Paper: ColocRL 2017, Eq. 4  [COL-4]
  kKlPenalised,  ///< 1/N Σ_n [π(a_n)/q(a_n) A_n + β KL(q_n ‖ π_n)]  Paper: Spotlight 2018, Eq. 15  [SPO-15]
  kClippedRatio,  ///< 1/N Σ_n max(r_n A_n, clip(r_n, 1 - c, 1 + c) A_n)   Schulman 2017, Eq. 7  [PPO-7]
};
constexpr auto enum_words(ObjectiveKind) {
  return EnumWords{"objective", std::array{EnumWord{ObjectiveKind::kReinforce, "reinforce"},
                                           EnumWord{ObjectiveKind::kKlPenalised, "kl"},
                                           EnumWord{ObjectiveKind::kClippedRatio, "clipped"}}};
}

struct ObjectiveOptions {
  ObjectiveKind kind = ObjectiveKind::kReinforce;
  float entropy = 0;    ///< Weight of the entropy bonus, per choice as the objective counts choices.
  float beta = 1;       ///< β of the KL penalty, where it starts.
  float kl_target = 0;  ///< > 0: β doubles above 1.5 times this mean KL per choice, halves below a 1.5th.
  float clip = 0.2f;    ///< c
  /// > 0: REINFORCE weighs a trajectory by min(this, Π_n π(a_n)/q(a_n)): one that was drawn by an older
  /// policy counts as much as the newer one would have drawn it.   Espeholt 2018, Eq. 1  [IS-1]
  float max_weight = 0;
  /// True if the gradient needs what the drawing policy thought of every device.
  bool needs_behaviour() const { return kind != ObjectiveKind::kReinforce || max_weight > 0; }

  void list(Settings& settings) {
    settings.add("objective", kind,
                 "What the gradient is taken of: REINFORCE, Spotlight's KL-penalised objective (Eq. 15), or "
                 "PPO's clipped one.");
    settings.add("entropy", entropy, between(0, 1e6),
                 "Weight of the entropy bonus at the first update. Papers: none but Placeto's.");
    settings.add("beta", beta, between(0, 1e6), "Weight of the KL penalty at the first update. Paper: 1.");
    settings.add("kl_target", kl_target, between(0, 1e3),
                 "Mean KL per choice that the weight of the KL penalty adapts to; 0: the weight stays.");
    settings.add("clip", clip, between(1e-3, 0.999), "Half width of the clipped objective's interval.");
    settings.add("max_weight", max_weight, between(0, 1e6),
                 "Largest importance weight of an episode that an older policy drew; 0: none is weighed.");
  }
};

/// `count` trajectories of `stages` choices each; choice n = trajectory · stages + stage is column n.
struct Trajectories {
  std::size_t count = 0, stages = 0;
  const Matrix* log_p = nullptr;         ///< [D, count · stages] of every device now; -1e30 where forbidden.
  std::span<const std::uint8_t> chosen;  ///< [count · stages] the device taken
  std::span<const float> advantage;      ///< [count · stages]
  std::span<const float> behaviour;      ///< [D, count · stages] column-major log q; empty if not needed.
};

/// Adds `scale` times the gradient of the loss with respect to log_p to `seed` [D, count · stages], means
/// taken over trajectories. `beta` is the β of now. @pre behaviour is there if needed; nothing forbidden was
/// chosen.
LossParts add_objective_gradient(const ObjectiveOptions& options, float beta, const Trajectories& seen,
                                 float scale, Matrix& seed);

/// From the gradient with respect to log-probabilities to that of the logits, in place: g - p Σ g.
/// `log_p`, `gradient` [D, n].
void through_log_softmax(const Matrix& log_p, Matrix& gradient);

}  // namespace emplace::policy
