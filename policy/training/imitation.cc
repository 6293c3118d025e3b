#include "policy/training/imitation.h"

#include <cmath>

#include "policy/optim/adam.h"

namespace emplace::policy {

Result<double> imitate(Placer& placer, const ImitationOptions& options) {
  Imitating* const imitating = placer.imitating();
  if (imitating == nullptr) return invalid("policy", "cannot imitate a placement", "start from scratch");
  Adam adam;
  for (std::uint64_t step = 0;; ++step) {
    placer.parameters().clear_gradients();
    const auto parts = imitating->accumulate_imitation(options.placement);
    if (!parts) return parts.error();
    const double probability = std::exp(-parts->loss);
    if (probability >= options.probability || step == options.max_steps) return probability;
    adam.step(placer.parameters(), options.learning_rate);
  }
}

}  // namespace emplace::policy
