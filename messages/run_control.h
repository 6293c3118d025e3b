#pragma once
/// How a run goes, and its end.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// operator or node -> dispatcher, and dispatcher -> samplers: finish what is in flight, then stop.
struct StopRun {
  static constexpr std::uint16_t kType = number(Type::kStopRun);
  std::string reason;  ///< "budget", "signal", "failed: …"
  EMPLACE_FIELDS(reason)
};

/// How busy one executor has been.
struct ExecutorUse {
  std::string executor;
  double utilisation = 0;        ///< 0..1 since it joined.
  std::uint64_t placements = 0;  ///< Measured and counted.
  std::uint32_t in_flight = 0;
  std::uint32_t credit = 0;  ///< Placements that it may be given beyond those in flight.
  EMPLACE_FIELDS(executor, utilisation, placements, in_flight, credit)
};

/// The dispatcher's account of its leases: issued == counted + open + expired + refused, always. Refused:
/// another executor was first, or it was given back undone.
struct LeaseCounts {
  std::uint64_t issued = 0, counted = 0, open = 0, expired = 0, refused = 0;
  EMPLACE_FIELDS(issued, counted, open, expired, refused)
};

/// dispatcher -> view.
struct DispatchProgress {
  static constexpr std::uint16_t kType = number(Type::kDispatchProgress);
  std::uint64_t episodes = 0;         ///< Finished.
  std::uint64_t measurements = 0;     ///< Placements measured, each counted once.
  std::uint64_t valid = 0;            ///< Measured placements that fit.
  std::uint64_t refused_results = 0;  ///< Results that did not count: late, of another's lease, or wrong.
  std::uint32_t in_flight = 0;        ///< Placements.
  std::uint32_t quarantined = 0;      ///< Executors that get no work now, for what they answered.
  LeaseCounts leases;
  double best_step_time_s = 0;  ///< 0: none yet.
  double elapsed_s = 0;
  std::string ending;  ///< Why the run ends, once it does: "budget", "episodes", "down".
  std::vector<ExecutorUse> executors;
  EMPLACE_FIELDS(episodes, measurements, valid, refused_results, in_flight, quarantined, leases,
                 best_step_time_s, elapsed_s, ending, executors)
};

/// recorder -> view, after each commit.
struct RecordProgress {
  static constexpr std::uint16_t kType = number(Type::kRecordProgress);
  std::uint64_t committed = 0;  ///< Episodes on disk.
  std::uint64_t updates = 0;    ///< Updates on disk.
  double staleness = 0;         ///< [versions] Of the last update: between drawing and learning, on average.
  double disk_waits_s = 0;      ///< Time since which the disk refuses commits; 0: it takes them.
  EMPLACE_FIELDS(committed, updates, staleness, disk_waits_s)
};

/// baseline tracker and learner -> view: placements whose measurements it has consumed twice. In a sound run
/// it is never sent.
struct ConsumedTwice {
  static constexpr std::uint16_t kType = number(Type::kConsumedTwice);
  std::vector<std::uint64_t> placement_ids;
  EMPLACE_FIELDS(placement_ids)
};

/// view -> launcher: the whole run at a glance.
struct RunProgress {
  static constexpr std::uint16_t kType = number(Type::kRunProgress);
  DispatchProgress dispatch;     ///< The dispatcher's latest.
  RecordProgress record;         ///< The recorder's latest.
  double utilisation = 0;        ///< 0..1, mean of the executors; of the last ones that there were.
  std::uint64_t duplicated = 0;  ///< Measurements that tracker or learner consumed twice.
  EMPLACE_FIELDS(dispatch, record, utilisation, duplicated)
};

}  // namespace emplace::messages
