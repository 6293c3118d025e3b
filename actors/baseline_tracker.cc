#include "actors/baseline_tracker.h"

#include <utility>

#include "actors/task.h"
#include "messages/run_control.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

constexpr Nanos kResendInterval = std::chrono::milliseconds{250};

}  // namespace

BaselineTracker::BaselineTracker(TrackerOptions options) : options_{std::move(options)} {}

void BaselineTracker::on_start(runtime::Context& context) {
  restart(context);
  context.after(kResendInterval, [this, &context] { on_timer(context); });
}

/// Resets the state and reads the log from its first episode.
void BaselineTracker::restart(runtime::Context& context) {
  scoring_.emplace(options_);
  consumed_ = {};
  early_.clear();
  sent_scores_.clear();
  next_episode_ = dropped_to_ = 0;
  ask(context, log_.start(1, context.now()));
}

void BaselineTracker::on_timer(runtime::Context& context) {
  if (const auto asked = log_.due(context.now())) ask(context, *asked);
  context.after(kResendInterval, [this, &context] { on_timer(context); });
}

void BaselineTracker::ask(runtime::Context& context, const runtime::LogFollower::Ask& asked) {
  context.send(kRecorder, messages::LogRequested{asked.from, asked.until, asked.again, false});
}

void BaselineTracker::on_message(runtime::Context& context, const runtime::Incoming& incoming) {
  const auto handled = incoming.match(
      [&](const messages::EpisodeCommitted& committed) {
        if (log_.take(committed.seq, context.now())) take(context, committed);
        if (const auto asked = log_.due(context.now())) ask(context, *asked);
      },
      [&](const messages::ScoresRequested& request) { resend_scores(context, request.from_seq); });
  if (!handled) runtime::log(runtime::LogLevel::kWarning, context.name(), handled.error().context);
}

void BaselineTracker::take(runtime::Context& context, const messages::EpisodeCommitted& committed) {
  if (!committed.measured.consistent()) return;
  if (!options_.ordered) return score(context, committed);
  early_.emplace(committed.measured.episode, committed);
  for (auto next = early_.find(next_episode_); next != early_.end(); next = early_.find(++next_episode_)) {
    score(context, next->second);
    early_.erase(next);
  }
}

void BaselineTracker::score(runtime::Context& context, const messages::EpisodeCommitted& committed) {
  const messages::EpisodeMeasured& m = committed.measured;
  if (auto twice = consumed_.add(m.placement_id, m.count); !twice.empty())
    context.send(kView, messages::ConsumedTwice{std::move(twice)});
  messages::EpisodeScored scored = scoring_->score(committed);
  if (!committed.learned) context.send(kLearner, scored);
  sent_scores_[committed.seq] = std::move(scored);
  if (sent_scores_.size() > options_.kept) {
    dropped_to_ = std::max(dropped_to_, sent_scores_.begin()->first);
    sent_scores_.erase(sent_scores_.begin());
  }
}

void BaselineTracker::resend_scores(runtime::Context& context, std::uint64_t from_seq) {
  if (from_seq <= dropped_to_) return restart(context);
  for (auto it = sent_scores_.lower_bound(from_seq); it != sent_scores_.end(); ++it)
    context.send(kLearner, it->second);
}

}  // namespace emplace::actors
