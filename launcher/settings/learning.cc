#include "launcher/settings/learning.h"

#include <algorithm>
#include <limits>

#include "heuristics/method.h"

namespace emplace::launcher {
namespace {

/// [10^9 B] Of the smallest GPU, or of the smallest device where there is none.
double smallest_memory_gb(const DeviceSet& devices) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const DeviceId device : fast_devices(devices))
    smallest = std::min(smallest, devices[device].memory_bytes);
  return static_cast<double>(smallest) * 1e-9;
}

policy::RewardOptions reward_options(const RunConfig& config, const DeviceSet& devices) {
  const RunConfig::Reward& r = config.reward;
  return {policy::parse_transform(r.transform).value(), r.failing_signal, r.graded_memory, r.penalty_base,
          r.penalty_per_gb + r.penalty_per_memory / smallest_memory_gb(devices)};
}

}  // namespace

actors::ScoringOptions scoring_options(const RunConfig& config, const DeviceSet& devices) {
  const RunConfig::Reward& r = config.reward;
  actors::ScoringOptions options;
  options.reward = reward_options(config, devices);
  options.per = r.baseline_per == "host"  ? actors::BaselinePer::kHost
                : r.baseline_per == "run" ? actors::BaselinePer::kRun
                                          : actors::BaselinePer::kController;
  options.outlier = r.outlier;
  options.valid_target = r.valid_target;
  options.fits_first = r.fits_first;
  options.valid_only_after = r.valid_only_after;
  options.baseline = {policy::parse_baseline(r.baseline).value(),
                      r.returns == "final"          ? policy::Returns::kFinal
                      : r.returns == "intermediate" ? policy::Returns::kIntermediate
                                                    : policy::Returns::kPlacement,
                      r.discount,
                      r.baseline_decay,
                      r.failing_signal,
                      r.baseline_from_failing_signal,
                      r.baseline_window,
                      r.normalise};
  return options;
}

policy::TrainerOptions trainer_options(const RunConfig& config) {
  const RunConfig::Policy& p = config.policy;
  policy::TrainerOptions options;
  options.steps_per_update = p.steps_per_update;
  options.learning_rate = {static_cast<float>(p.learning_rate),
                           static_cast<float>(p.learning_rate_decay),
                           p.decay_every,
                           p.decay_from,
                           p.linear_over,
                           static_cast<float>(p.learning_rate_end)};
  options.adam.clip_norm = static_cast<float>(p.clip_norm);
  return options;
}

}  // namespace emplace::launcher
