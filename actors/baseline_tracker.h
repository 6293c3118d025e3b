#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "messages/episode_measured.h"
#include "policy/objective/baseline.h"
#include "policy/objective/reward.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

struct TrackerOptions {
  policy::RewardOptions reward;
  policy::BaselineOptions baseline;
  bool shared = false;  ///< One baseline per graph for all controllers, as Placeto's workers have.
  /// After so many policy versions only valid placements count.   Paper: Hierarchical 2018, section 3.1
  std::uint64_t valid_only_after = 500;
  bool ordered = false;  ///< Take episodes by number, not by arrival: results then do not depend on timing.
};

/// What placements usually cost, so that the learner weighs surprise, not luck; one baseline per graph and
/// controller. Receives MeasurementCommitted; sends EpisodeScored.
/// Thread: constructed anywhere; every handler runs on the owning loop. Holds no locks.
class BaselineTracker final : public runtime::Actor {
 public:
  explicit BaselineTracker(TrackerOptions options);
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void score(runtime::Context& context, const messages::EpisodeMeasured& measured);

  const TrackerOptions options_;  // Constant after construction.

  // Owner loop only.
  std::map<std::pair<std::string, std::uint32_t>, policy::Baseline> baselines_;  // By graph and controller.
  std::map<std::uint64_t, messages::EpisodeMeasured> early_;                     // Only if ordered.
  std::uint64_t next_episode_ = 0;
};

}  // namespace emplace::actors
