#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "messages/episode_measured.h"
#include "messages/log.h"
#include "policy/objective/baseline.h"
#include "policy/objective/outlier.h"
#include "policy/objective/reward.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/follower.h"

namespace emplace::actors {

/// Whose placements share a baseline, on one graph.
enum class BaselinePer : std::uint8_t {
  kController,  ///< Each sampler's its own, as ColocRL has it.
  kRun,         ///< All of a run, as Placeto's workers do.
  kHost,        ///< Those that were measured on the same host: where hosts are not equally fast.
};

struct TrackerOptions {
  policy::RewardOptions reward;
  policy::BaselineOptions baseline;
  BaselinePer per = BaselinePer::kController;
  /// > 0: a valid placement whose cost is an outlier of its baseline's (policy::OutlierFilter) does not
  /// count.
  double outlier = 0;
  /// After so many policy versions only valid placements count.   Paper: Hierarchical 2018, section 3.1
  std::uint64_t valid_only_after = 500;
  std::size_t kept = 256;  ///< Scores kept to tell again: at least what samplers have on their way.
  bool ordered = false;    ///< Take episodes by number, not by arrival: results then do not depend on timing.
};

/// What placements usually cost, so that the learner weighs surprise, not luck; one baseline per graph and
/// controller, run or host. Its state is a function of the recorder's log, which it follows from the first
/// episode on: made anew, it reads the log again. Receives MeasurementCommitted, ScoresRequested; sends
/// LogRequested, EpisodeScored (of what nobody learned from yet). Thread: constructed anywhere; every handler
/// runs on the owning loop. Holds no locks.
class BaselineTracker final : public runtime::Actor {
 public:
  explicit BaselineTracker(TrackerOptions options);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void begin(runtime::Context& context);
  void look(runtime::Context& context);
  void ask(runtime::Context& context, const runtime::LogFollower::Ask& asked);
  void take(runtime::Context& context, const messages::MeasurementCommitted& committed);
  void score(runtime::Context& context, const messages::MeasurementCommitted& committed);
  void tell_again(runtime::Context& context, std::uint64_t from_seq);

  /// Graph; then a controller or a host, whatever baselines are kept per.
  using Key = std::tuple<std::string, std::uint32_t, std::string>;
  struct Usual {
    policy::Baseline baseline;
    policy::OutlierFilter outliers;
  };
  Key key_of(const messages::EpisodeMeasured& measured, std::uint32_t placement) const;

  static void hold_against(Usual& usual, std::span<const std::uint32_t> numbers,
                           messages::EpisodeScored& scored);

  const TrackerOptions options_;  // Constant after construction.

  // Owner loop only.
  runtime::LogFollower log_;
  std::map<Key, Usual> usual_;
  std::map<std::uint64_t, messages::MeasurementCommitted> early_;  // Only if ordered.
  std::uint64_t next_episode_ = 0;
  std::map<std::uint64_t, messages::EpisodeScored> told_;  // By log number: the last few, to tell again.
  std::uint64_t forgotten_ = 0;  // Up to this log number they are not kept any more.
};

}  // namespace emplace::actors
