#pragma once

#include <cstdint>
#include <map>

#include "messages/episode_measured.h"
#include "policy/objective/reward.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

struct BaselineOptions {
  policy::RewardOptions reward;
  double decay = 0.9;                    ///< Of the exponential moving average, per placement.
  bool start_at_failing_signal = false;  ///< As ColocRL does; else at the mean cost of the first episode.
  /// After so many policy versions only valid placements count.   Paper: Hierarchical 2018, section 3.1
  std::uint64_t valid_only_after = 500;
  bool normalise =
      false;  ///< Divide advantages by a running deviation of the costs, so that one learning rate fits all.
  bool ordered = false;  ///< Take episodes by number, not by arrival: results then do not depend on timing.
};

/// What placements usually cost, so that the learner weighs surprise, not luck; one baseline per controller.
///   B <- decay B + (1 - decay) R,   advantage = R - B with B as it was before the episode
/// Paper: ColocRL 2017, section 3.1  [COL-B]. Receives MeasurementCommitted; sends EpisodeScored.
/// Thread: constructed anywhere; every handler runs on the owning loop. Holds no locks.
class BaselineTracker final : public runtime::Actor {
 public:
  explicit BaselineTracker(BaselineOptions options);
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  struct Baseline {
    double mean = 0, square = 0;
    bool started = false;
  };
  void score(runtime::Context& context, const messages::EpisodeMeasured& measured);

  const BaselineOptions options_;  // Constant after construction.

  // Owner loop only.
  std::map<std::uint32_t, Baseline> baselines_;               // By controller.
  std::map<std::uint64_t, messages::EpisodeMeasured> early_;  // Only if ordered.
  std::uint64_t next_episode_ = 0;
};

}  // namespace emplace::actors
