#include "actors/baseline_tracker.h"

#include <cmath>
#include <utility>

#include "actors/task.h"
#include "runtime/log.h"

namespace emplace::actors {

BaselineTracker::BaselineTracker(BaselineOptions options) : options_{std::move(options)} {}

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
  double sum = 0;
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    const bool valid = measured.valid[i] != 0;
    const bool counts = valid || measured.policy_version < options_.valid_only_after;
    scored.costs.push_back(
        policy::placement_cost(options_.reward, valid, measured.step_time_s[i], measured.bytes_over[i]));
    scored.valid.push_back(valid ? 1 : 0);
    scored.counted.push_back(counts ? 1 : 0);
    sum += scored.costs.back();
  }
  Baseline& b = baselines_[measured.controller];
  if (!b.started) {
    b.started = true;
    b.mean = options_.start_at_failing_signal ? options_.reward.failing_signal : sum / measured.count;
    for (const double cost : scored.costs) b.square += (cost - b.mean) * (cost - b.mean) / measured.count;
  }
  scored.baseline = b.mean;
  // A floor keeps a policy that has settled from being driven by the last digits of its costs.
  const double scale = options_.normalise ? 1.0 / std::sqrt(b.square + 1e-4) : 1.0;
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    scored.advantages.push_back(scored.counted[i] != 0 ? (scored.costs[i] - scored.baseline) * scale : 0.0);
  }
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    if (scored.counted[i] == 0) continue;
    const double surprise = scored.costs[i] - b.mean;
    b.square = std::lerp(surprise * surprise, b.square, 0.98);
    b.mean = std::lerp(scored.costs[i], b.mean, options_.decay);
  }
  context.send(kLearner, scored);
}

}  // namespace emplace::actors
