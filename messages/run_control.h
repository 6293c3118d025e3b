#pragma once
/// Progress of a run, and its end.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// operator or node -> dispatcher, and dispatcher -> samplers: finish the work in flight, then stop.
struct StopRun {
  static constexpr std::uint16_t kType = number(Type::kStopRun);
  std::string reason;  ///< "budget", "signal", "failed: …"
  EMPLACE_FIELDS(reason)
};

/// Use of one executor.
struct ExecutorUse {
  std::string executor;
  double utilisation = 0;        ///< Utilisation since it joined, 0..1.
  std::uint64_t placements = 0;  ///< Placements measured and counted.
  std::uint32_t in_flight = 0;
  std::uint32_t credit = 0;  ///< Placements that it accepts beyond those in flight.
  EMPLACE_FIELDS(executor, utilisation, placements, in_flight, credit)
};

/// Lease counts of the dispatcher. Invariant: issued == counted + open + expired + refused. Refused:
/// another executor was first, or the lease was returned unfinished.
struct LeaseCounts {
  std::uint64_t issued = 0, counted = 0, open = 0, expired = 0, refused = 0;
  EMPLACE_FIELDS(issued, counted, open, expired, refused)
};

/// dispatcher -> view: progress of the dispatcher.
struct DispatchProgress {
  static constexpr std::uint16_t kType = number(Type::kDispatchProgress);
  std::uint64_t episodes = 0;      ///< Finished episodes.
  std::uint64_t measurements = 0;  ///< Placements measured, each counted once.
  std::uint64_t valid = 0;         ///< Measured placements that fit.
  /// Results that did not count: late, of another executor's lease, or invalid.
  std::uint64_t refused_results = 0;
  std::uint32_t in_flight = 0;  ///< Placements in flight.
  /// Executors in quarantine: they get no work because of their earlier answers.
  std::uint32_t quarantined = 0;
  LeaseCounts leases;
  double best_step_time_s = 0;  ///< Best step time so far [s]; 0: none yet.
  double elapsed_s = 0;
  std::string ending;  ///< Why the run ends: "budget", "episodes", "down"; empty: it does not end.
  std::vector<ExecutorUse> executors;
  std::uint32_t executors_wanted = 0;  ///< Executors that would be busy now (runtime/core/demand.h).
  EMPLACE_FIELDS(episodes, measurements, valid, refused_results, in_flight, quarantined, leases,
                 best_step_time_s, elapsed_s, ending, executors, executors_wanted)
};

/// recorder -> view, after each commit: contents of the record.
struct RecordProgress {
  static constexpr std::uint16_t kType = number(Type::kRecordProgress);
  std::uint64_t committed = 0;  ///< Episodes on disk.
  std::uint64_t updates = 0;    ///< Updates on disk.
  double staleness = 0;         ///< Mean staleness of the last update [versions].
  double disk_waits_s = 0;      ///< How long the disk has refused commits [s]; 0: it accepts them.
  std::string warning;          ///< Why the policy learns nothing, and the cure; empty: it learns.
  EMPLACE_FIELDS(committed, updates, staleness, disk_waits_s, warning)
};

/// baseline tracker and learner -> view: placements whose measurements were consumed twice. Never sent in a
/// correct run.
struct ConsumedTwice {
  static constexpr std::uint16_t kType = number(Type::kConsumedTwice);
  std::vector<std::uint64_t> placement_ids;
  EMPLACE_FIELDS(placement_ids)
};

/// view -> launcher: summary of the whole run.
struct RunProgress {
  static constexpr std::uint16_t kType = number(Type::kRunProgress);
  DispatchProgress dispatch;  ///< Latest report of the dispatcher.
  RecordProgress record;      ///< Latest report of the recorder.
  double utilisation = 0;  ///< Mean utilisation of the executors, 0..1; when all have left, of the last ones.
  std::uint64_t duplicated = 0;  ///< Measurements that the tracker or the learner consumed twice.
  EMPLACE_FIELDS(dispatch, record, utilisation, duplicated)
};

}  // namespace emplace::messages
