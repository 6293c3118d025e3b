#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "actors/scoring.h"
#include "messages/episode_measured.h"
#include "messages/log.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/consumed.h"
#include "runtime/core/follower.h"

namespace emplace::actors {

struct TrackerOptions : ScoringOptions {
  /// Number of scores kept for retransmission: at least the episodes that samplers have in flight.
  std::size_t kept = 256;
  /// Process episodes by number, not by arrival: results then do not depend on timing.
  bool ordered = false;
};

/// Maintains the baselines that advantages are measured from: one per graph and controller, run or host. Its
/// state is a function of the recorder's log, which it follows from the first episode; after a restart it
/// reads the log again. Receives EpisodeCommitted, ScoresRequested; sends LogRequested, EpisodeScored (for
/// episodes not yet learned from), ConsumedTwice. Thread: constructed anywhere; every handler runs on the
/// owning loop. Holds no locks.
class BaselineTracker final : public runtime::Actor {
 public:
  explicit BaselineTracker(TrackerOptions options);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void restart(runtime::Context& context);
  void on_timer(runtime::Context& context);
  void ask(runtime::Context& context, const runtime::LogFollower::Ask& asked);
  void take(runtime::Context& context, const messages::EpisodeCommitted& committed);
  void score(runtime::Context& context, const messages::EpisodeCommitted& committed);
  void resend_scores(runtime::Context& context, std::uint64_t from_seq);

  const TrackerOptions options_;  // Constant after construction.

  // Owner loop only.
  runtime::LogFollower log_;
  std::optional<Scoring> scoring_;
  runtime::Consumed consumed_;                                 // Placements processed by scoring_.
  std::map<std::uint64_t, messages::EpisodeCommitted> early_;  // Only used if ordered.
  std::uint64_t next_episode_ = 0;
  std::map<std::uint64_t, messages::EpisodeScored>
      sent_scores_;               // Newest scores by log number, for retransmission.
  std::uint64_t dropped_to_ = 0;  // Scores up to this log number are no longer kept.
};

}  // namespace emplace::actors
