#pragma once
/// Starting, watching and ending a run.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// launcher -> every actor: finish what is in flight, then stop.
struct StopRun {
  static constexpr std::uint16_t kType = number(Type::kStopRun);
  std::string reason;          ///< "budget", "signal", "failed: …"
  std::uint32_t drain_ms = 0;  ///< Time left to drain.
  EMPLACE_FIELDS(reason, drain_ms)
};

/// node -> launcher's view: an actor threw; the runtime restarts it or ends the node.
struct ActorFailed {
  static constexpr std::uint16_t kType = number(Type::kActorFailed);
  std::string actor;
  std::string host;
  std::string error;
  std::uint32_t restarts = 0;  ///< Within the last minute.
  EMPLACE_FIELDS(actor, host, error, restarts)
};

/// How busy one executor has been.
struct ExecutorUse {
  std::string executor;
  double utilisation = 0;        ///< 0..1 since it joined.
  std::uint64_t placements = 0;  ///< Measured and counted.
  std::uint32_t in_flight = 0;
  EMPLACE_FIELDS(executor, utilisation, placements, in_flight)
};

/// dispatcher, recorder and learner -> launcher's view. Each fills what it knows; 0 elsewhere.
struct RunProgress {
  static constexpr std::uint16_t kType = number(Type::kRunProgress);
  std::string from;                ///< Actor name.
  std::uint64_t episodes = 0;      ///< Finished.
  std::uint64_t measurements = 0;  ///< Counted once each.
  std::uint64_t valid = 0;
  std::uint64_t updates = 0;
  std::uint64_t policy_version = 0;
  std::uint64_t lost = 0;         ///< Leases that expired.
  std::uint64_t duplicated = 0;   ///< Results that did not count: too late, of another's lease, or wrong.
  std::uint64_t committed = 0;    ///< Episodes on disk.
  std::uint32_t in_flight = 0;    ///< Placements.
  double best_step_time_s = 0;    ///< 0: none yet.
  double recent_step_time_s = 0;  ///< Median of the last ones.
  double elapsed_s = 0;
  std::vector<ExecutorUse> executors;
  /// Of the dispatcher's leases: issued == counted + open + expired + refused, always. Refused: another
  /// executor was first, or it was given back undone.
  std::uint64_t issued = 0, counted = 0, open = 0, expired = 0, refused = 0;
  std::string ending;    ///< Why the run ends, once it does: "budget", "episodes", "down".
  double staleness = 0;  ///< Of the last update on disk: versions between drawing and learning, on average.
  std::vector<std::uint32_t>
      credits;                    ///< [executors] Placements that each may be given beyond those in flight.
  std::uint32_t quarantined = 0;  ///< Executors that get no work now, for what they answered.
  double disk_waits_s = 0;        ///< The recorder could not commit for so long; 0: it can.
  EMPLACE_FIELDS(from, episodes, measurements, valid, updates, policy_version, lost, duplicated, committed,
                 in_flight, best_step_time_s, recent_step_time_s, elapsed_s, executors, issued, counted, open,
                 expired, refused, ending, staleness, credits, quarantined, disk_waits_s)
};

}  // namespace emplace::messages
