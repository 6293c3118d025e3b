#include "actors/baseline_tracker.h"

#include <utility>

#include "actors/task.h"
#include "runtime/log.h"

namespace emplace::actors {

BaselineTracker::BaselineTracker(TrackerOptions options) : options_{std::move(options)} {}

void BaselineTracker::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match([&](const messages::MeasurementCommitted& committed) {
    if (!committed.measured.consistent()) return;
    if (!options_.ordered) return score(context, committed.measured);
    early_.emplace(committed.measured.episode, committed.measured);
    for (auto next = early_.find(next_episode_); next != early_.end(); next = early_.find(++next_episode_)) {
      score(context, next->second);
      early_.erase(next);
    }
  });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

void BaselineTracker::score(runtime::Context& context, const messages::EpisodeMeasured& measured) {
  messages::EpisodeScored scored;
  scored.episode = measured.episode;
  scored.controller = measured.controller;
  scored.policy_version = measured.policy_version;
  scored.graph_sha256 = measured.graph_sha256;
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    const bool valid = measured.valid[i] != 0;
    const bool counts = valid || measured.policy_version < options_.valid_only_after;
    scored.costs.push_back(
        policy::placement_cost(options_.reward, valid, measured.step_time_s[i], measured.bytes_over[i]));
    scored.valid.push_back(valid ? 1 : 0);
    scored.counted.push_back(counts ? 1 : 0);
  }
  policy::Baseline& baseline =
      baselines_
          .try_emplace({measured.graph_sha256, options_.shared ? 0 : measured.controller}, options_.baseline)
          .first->second;
  scored.advantages = baseline.advantages(scored.costs, scored.counted);
  scored.baseline = baseline.used();
  context.send(kLearner, scored);
}

}  // namespace emplace::actors
