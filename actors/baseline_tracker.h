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
  std::size_t kept = 256;  ///< Scores kept to tell again: at least what samplers have on their way.
  bool ordered = false;    ///< Take episodes by number, not by arrival: results then do not depend on timing.
};

/// What placements usually cost, so that the learner weighs surprise, not luck; one baseline per graph and
/// controller, run or host. Its state is a function of the recorder's log, which it follows from the first
/// episode on: made anew, it reads the log again. Receives EpisodeCommitted, ScoresRequested; sends
/// LogRequested, EpisodeScored (of what nobody learned from yet), ConsumedTwice. Thread: constructed
/// anywhere; every handler runs on the owning loop. Holds no locks.
class BaselineTracker final : public runtime::Actor {
 public:
  explicit BaselineTracker(TrackerOptions options);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void begin(runtime::Context& context);
  void look(runtime::Context& context);
  void ask(runtime::Context& context, const runtime::LogFollower::Ask& asked);
  void take(runtime::Context& context, const messages::EpisodeCommitted& committed);
  void score(runtime::Context& context, const messages::EpisodeCommitted& committed);
  void tell_again(runtime::Context& context, std::uint64_t from_seq);

  const TrackerOptions options_;  // Constant after construction.

  // Owner loop only.
  runtime::LogFollower log_;
  std::optional<Scoring> scoring_;
  runtime::Consumed consumed_;                                 // What scoring_ has taken into account.
  std::map<std::uint64_t, messages::EpisodeCommitted> early_;  // Only if ordered.
  std::uint64_t next_episode_ = 0;
  std::map<std::uint64_t, messages::EpisodeScored> told_;  // By log number: the last few, to tell again.
  std::uint64_t forgotten_ = 0;  // Up to this log number they are not kept any more.
};

}  // namespace emplace::actors
