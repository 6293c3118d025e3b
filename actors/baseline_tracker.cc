#include "actors/baseline_tracker.h"

#include <utility>

#include "actors/task.h"
#include "messages/run_control.h"
#include "runtime/log.h"

namespace emplace::actors {
namespace {

constexpr Nanos kCheckInterval = std::chrono::milliseconds{250};

}  // namespace

BaselineTracker::BaselineTracker(TrackerOptions options) : options_{std::move(options)} {}

void BaselineTracker::on_start(runtime::Context& context) {
  begin(context);
  context.after(kCheckInterval, [this, &context] { look(context); });
}

/// Knows nothing, and reads the log from its first episode.
void BaselineTracker::begin(runtime::Context& context) {
  scoring_.emplace(options_);
  consumed_ = {};
  early_.clear();
  told_.clear();
  next_episode_ = forgotten_ = 0;
  ask(context, log_.start(1, context.now()));
}

void BaselineTracker::look(runtime::Context& context) {
  if (const auto asked = log_.due(context.now())) ask(context, *asked);
  context.after(kCheckInterval, [this, &context] { look(context); });
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
      [&](const messages::ScoresRequested& request) { tell_again(context, request.from_seq); });
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
  told_[committed.seq] = std::move(scored);
  if (told_.size() > options_.kept) {
    forgotten_ = std::max(forgotten_, told_.begin()->first);
    told_.erase(told_.begin());
  }
}

void BaselineTracker::tell_again(runtime::Context& context, std::uint64_t from_seq) {
  if (from_seq <= forgotten_) return begin(context);
  for (auto it = told_.lower_bound(from_seq); it != told_.end(); ++it) context.send(kLearner, it->second);
}

}  // namespace emplace::actors
