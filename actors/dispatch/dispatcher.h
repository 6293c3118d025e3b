#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/dispatch/dispatch_counters.h"
#include "actors/dispatch/lease_scheduler.h"
#include "actors/dispatch/open_episodes.h"
#include "actors/dispatch/refused_executors.h"
#include "actors/dispatch/run_end.h"
#include "actors/dispatch/unrecorded_episodes.h"
#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/executor_control.h"
#include "messages/log.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/shared_bytes.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/lease.h"

namespace emplace::actors {

struct DispatcherOptions : LeaseSchedulerOptions, RunEndOptions {
  std::vector<std::string> kinds;          ///< Executor kinds that get work; empty: all.
  std::uint32_t placements_per_lease = 4;  ///< Maximum placements of a lease.
  Nanos progress_every = std::chrono::milliseconds{500};
  Nanos budget{0};   ///< Ends the run after this time; 0: no limit.
  Nanos started{0};  ///< Start of the run, by Context::now(); 0: start of the dispatcher.
  /// Timeout after which an unacknowledged episode is sent again to the recorder.
  Nanos resend = std::chrono::seconds{1};
};

/// Cuts proposals into leases, gives them to executors with credit, reassigns the leases of lost executors,
/// counts each placement once, and sends finished episodes to the recorder until they are on disk. Ends the
/// run. Executors are not trusted: results are validated (messages/measured_values.h), and executors that
/// fail are quarantined (runtime/core/quarantine.h). Receives PlacementProposed, EpisodeReported (from a
/// sampler that measures itself), PlacementMeasured, ExecutorJoined, CreditGranted, Heartbeat, ExecutorLeft,
/// EpisodesRecorded, EpisodesCounted, EpisodesAsked, SamplerDrained, StopRun; sends LeaseGranted,
/// EpisodeReported, EpisodesWanted, CountRequested, ExecutorUnknown, DispatchProgress, StopRun. A restarted
/// dispatcher has no state: samplers propose again what is missing, and executors rejoin. Its parts are pure;
/// an episode passes them in this order:
///
///   PlacementProposed     OpenEpisodes cuts it into ranges
///   LeaseGranted          LeaseScheduler gives a range to an executor
///   PlacementMeasured     checked; LeaseScheduler accepts it, OpenEpisodes merges it
///   EpisodeReported       all ranges are measured: UnrecordedEpisodes, until
///   EpisodesRecorded      it is on disk; RunEnd ends the run after enough of them
///
/// Invariant: placements proposed == reported + open; for ranges and leases see LeaseScheduler. Thread:
/// constructed anywhere; every handler runs on the owning loop (the I/O loop: handlers take microseconds).
class Dispatcher final : public runtime::Actor {
 public:
  using Counters = DispatchCounters;

  Dispatcher(TaskPtr task, DispatcherOptions options);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_directory(runtime::Context& context, std::string_view actor, bool reachable) override;

  const Counters& counters() const { return counters_; }
  std::uint64_t in_flight() const { return counters_.in_flight(); }  ///< [placements]
  const runtime::LeaseTable& leases() const { return scheduler_.leases(); }

 private:
  // Episodes.
  void on_proposed(runtime::Context& context, const messages::PlacementProposed& proposal,
                   const messages::SharedBytes& bulk);
  void refuse(runtime::Context& context, std::uint64_t episode, const std::string& why);
  void on_measured(runtime::Context& context, const messages::PlacementMeasured& result,
                   runtime::ActorId from);
  void reject(runtime::Context& context, const runtime::Lease& lease, const std::string& why);
  void on_reported(runtime::Context& context, const messages::EpisodeReported& reported,
                   const messages::SharedBytes& bulk);
  void report(runtime::Context& context, FinishedEpisode finished);
  void on_episodes_asked(runtime::Context& context, const messages::EpisodesAsked& asked,
                         runtime::ActorId from);
  /// Whether the episode is in progress or was recorded recently.
  bool is_known(std::uint64_t episode) const {
    return open_.contains(episode) || unrecorded_.contains(episode);
  }
  // Executors.
  void on_joined(runtime::Context& context, const messages::ExecutorJoined& joined, runtime::ActorId from);
  void on_left(runtime::Context& context, const messages::ExecutorLeft& left, runtime::ActorId from);
  void on_heartbeat(runtime::Context& context, const messages::Heartbeat& heartbeat, runtime::ActorId from);
  void remove(runtime::Context& context, runtime::ActorId executor);
  void assign(runtime::Context& context);
  LeaseScheduler::Send sender(runtime::Context& context) const;
  // Time.
  void tick(runtime::Context& context);
  void progress(runtime::Context& context);
  void send_progress(runtime::Context& context);
  // End of the run.
  void on_committed(runtime::Context& context, std::uint64_t episodes);
  void end_run(runtime::Context& context, const std::string& reason);
  void stop_samplers(runtime::Context& context) const;
  void stop_if_drained(runtime::Context& context);
  void stop_if_hopeless(runtime::Context& context);

  const TaskPtr task_;
  const DispatcherOptions options_;

  // Owner loop only.
  OpenEpisodes open_;
  LeaseScheduler scheduler_;
  RefusedExecutors refused_executors_;
  UnrecordedEpisodes unrecorded_;
  RunEnd run_end_;
  Counters counters_;
  Nanos started_{0};
};

}  // namespace emplace::actors
