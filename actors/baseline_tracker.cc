#include "actors/baseline_tracker.h"

#include <utility>

#include "actors/task.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

constexpr Nanos kLook = std::chrono::milliseconds{250};

}  // namespace

BaselineTracker::BaselineTracker(TrackerOptions options) : options_{std::move(options)} {}

void BaselineTracker::on_start(runtime::Context& context) {
  begin(context);
  context.after(kLook, [this, &context] { look(context); });
}

/// Knows nothing, and reads the log from its first episode.
void BaselineTracker::begin(runtime::Context& context) {
  usual_.clear();
  early_.clear();
  told_.clear();
  next_episode_ = forgotten_ = 0;
  ask(context, log_.start(1, context.now()));
}

void BaselineTracker::look(runtime::Context& context) {
  if (const auto asked = log_.due(context.now())) ask(context, *asked);
  context.after(kLook, [this, &context] { look(context); });
}

void BaselineTracker::ask(runtime::Context& context, const runtime::LogFollower::Ask& asked) {
  context.send(kRecorder, messages::LogRequested{asked.from, asked.until, asked.again, false});
}

void BaselineTracker::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const messages::MeasurementCommitted& committed) {
        if (log_.take(committed.seq, context.now())) take(context, committed);
        if (const auto asked = log_.due(context.now())) ask(context, *asked);
      },
      [&](const messages::ScoresRequested& request) { tell_again(context, request.from_seq); });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

void BaselineTracker::take(runtime::Context& context, const messages::MeasurementCommitted& committed) {
  if (!committed.measured.consistent()) return;
  if (!options_.ordered) return score(context, committed);
  early_.emplace(committed.measured.episode, committed);
  for (auto next = early_.find(next_episode_); next != early_.end(); next = early_.find(++next_episode_)) {
    score(context, next->second);
    early_.erase(next);
  }
}

void BaselineTracker::score(runtime::Context& context, const messages::MeasurementCommitted& committed) {
  const messages::EpisodeMeasured& measured = committed.measured;
  messages::EpisodeScored scored;
  scored.seq = committed.seq;
  scored.episode = measured.episode;
  scored.controller = measured.controller;
  scored.policy_version = measured.policy_version;
  scored.graph_sha256 = measured.graph_sha256;
  std::map<Key, std::vector<std::uint32_t>> placements;  // Of one key with each other.
  for (std::uint32_t i = 0; i < measured.count; ++i) {
    const bool valid = measured.valid[i] != 0;
    const bool counts = valid || measured.policy_version < options_.valid_only_after;
    scored.costs.push_back(
        policy::placement_cost(options_.reward, valid, measured.step_time_s[i], measured.bytes_over[i]));
    scored.valid.push_back(valid ? 1 : 0);
    scored.counted.push_back(counts ? 1 : 0);
    placements[key_of(measured, i)].push_back(i);
  }
  scored.advantages.resize(measured.count);
  for (const auto& [key, numbers] : placements) {
    Usual& usual = usual_
                       .try_emplace(key, Usual{policy::Baseline{options_.baseline},
                                               policy::OutlierFilter{options_.outlier}})
                       .first->second;
    hold_against(usual, numbers, scored);
  }
  // Of a self-critical episode the last placement is the baseline, and has no advantage.
  if (options_.baseline.kind == policy::BaselineKind::kSelfCritic) scored.advantages.pop_back();
  if (!committed.learned) context.send(kLearner, scored);
  told_[committed.seq] = std::move(scored);
  if (told_.size() > options_.kept) {
    forgotten_ = std::max(forgotten_, told_.begin()->first);
    told_.erase(told_.begin());
  }
}

BaselineTracker::Key BaselineTracker::key_of(const messages::EpisodeMeasured& measured,
                                             std::uint32_t placement) const {
  switch (options_.per) {
    case BaselinePer::kController:
      return {measured.graph_sha256, measured.controller, ""};
    case BaselinePer::kHost:
      return {measured.graph_sha256, 0, measured.hosts[measured.executor_of[placement]]};
    case BaselinePer::kRun:
      break;
  }
  return {measured.graph_sha256, 0, ""};
}

/// The advantages of these placements of an episode; `scored.baseline` becomes the mean over all of them.
void BaselineTracker::hold_against(Usual& usual, std::span<const std::uint32_t> numbers,
                                   messages::EpisodeScored& scored) {
  std::vector<double> costs;
  std::vector<std::uint8_t> counted;
  for (const std::uint32_t i : numbers) {
    // By the costs before this episode, so that the order within it says nothing.
    if (scored.valid[i] != 0 && usual.outliers.is_outlier(scored.costs[i])) scored.counted[i] = 0;
    costs.push_back(scored.costs[i]);
    counted.push_back(scored.counted[i]);
  }
  for (const std::uint32_t i : numbers)
    if (scored.valid[i] != 0) usual.outliers.learn(scored.costs[i]);
  const std::vector<double> advantages = usual.baseline.advantages(costs, counted);
  for (std::size_t i = 0; i < advantages.size(); ++i) scored.advantages[numbers[i]] = advantages[i];
  const double share = static_cast<double>(numbers.size()) / static_cast<double>(scored.costs.size());
  scored.baseline += share * usual.baseline.used();
}

void BaselineTracker::tell_again(runtime::Context& context, std::uint64_t from_seq) {
  if (from_seq <= forgotten_) return begin(context);
  for (auto it = told_.lower_bound(from_seq); it != told_.end(); ++it) context.send(kLearner, it->second);
}

}  // namespace emplace::actors
