#include "policy/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace emplace::policy {
namespace {

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

Trainer::Trainer(TrainerOptions options, std::unique_ptr<Placer> placer)
    : options_{options}, placer_{std::move(placer)}, adam_{options_.adam} {}

Result<Unit> Trainer::load(std::span<const std::byte> parameters, std::span<const std::byte> optimizer,
                           const std::string& sha256, std::uint64_t update) {
  auto loaded = start_from(parameters, optimizer);
  if (loaded && placer_->parameters().sha256() != sha256)
    loaded = invalid("the checkpoint after update " + std::to_string(update), "checksum mismatch");
  if (loaded) updates_ = update;
  return loaded;
}

Result<Unit> Trainer::start_from(std::span<const std::byte> parameters,
                                 std::span<const std::byte> optimizer) {
  ParameterStore& store = placer_->parameters();
  auto loaded = store.load(parameters);
  if (loaded && !optimizer.empty()) loaded = adam_.load(optimizer, store.size());
  return loaded;
}

UpdateMade Trainer::update(std::span<const ScoredEpisode> batch) {
  UpdateMade made;
  made.learning_rate = options_.learning_rate.at(updates_);
  placer_->start_update(updates_);
  for (std::uint32_t step = 0; step < options_.steps_per_update; ++step) {
    placer_->parameters().clear_gradients();
    const auto parts = placer_->accumulate_gradient(batch);
    if (!parts) {
      made.error = parts.error().context;
      break;
    }
    const auto rate = static_cast<float>(made.learning_rate);
    made.gradient_norm = options_.optimizer == Optimizer::kSgd
                             ? sgd_step(placer_->parameters(), rate, options_.adam.clip_norm)
                             : adam_.step(placer_->parameters(), rate);
    made.parts = *parts;
    if (made.diverged.empty()) made.diverged = divergence(batch, made);
  }
  placer_->end_update(made.parts);
  ++updates_;
  return made;
}

std::string Trainer::divergence(std::span<const ScoredEpisode> batch, const UpdateMade& made) const {
  const std::string update = "update " + std::to_string(updates_ + 1) + ": ";
  const bool scored = std::all_of(batch.begin(), batch.end(), [](const ScoredEpisode& episode) {
    return all_finite(episode.advantages);
  });
  if (!scored) return update + "an advantage is not finite; choose smaller numbers in the section reward";
  const char* const what = !std::isfinite(made.parts.loss)               ? "the loss"
                           : !std::isfinite(made.gradient_norm)          ? "the gradient"
                           : !all_finite(placer_->parameters().values()) ? "a parameter"
                           : !std::isfinite(made.parts.entropy)          ? "the entropy"
                           : !std::isfinite(made.parts.log_probability)  ? "the probability of a placement"
                           : !std::isfinite(made.parts.divergence) ? "the divergence from the last policy"
                                                                   : nullptr;
  return what == nullptr ? "" : update + what + " is not finite; lower policy.learning_rate";
}

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
