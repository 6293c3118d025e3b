#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/executor_control.h"
#include "messages/log.h"
#include "messages/placement_proposed.h"
#include "messages/run_control.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/credit.h"
#include "runtime/core/demand.h"
#include "runtime/core/lease.h"
#include "runtime/core/quarantine.h"
#include "runtime/core/recent.h"
#include "runtime/core/roster.h"

namespace emplace::actors {

struct DispatcherOptions {
  std::vector<std::string> kinds;          ///< Executor kinds that get work; empty: all.
  std::uint32_t placements_per_lease = 4;  ///< Maximum placements of a lease.
  std::uint32_t window = 512;              ///< Maximum placements in flight at one executor.
  std::uint64_t window_bytes = 64u << 20;
  /// Work given to an executor beyond two leases, by its measured rate.
  Nanos horizon = std::chrono::milliseconds{250};
  runtime::LeaseOptions lease;
  runtime::DemandOptions demand;
  /// Lower bound of the limit after which a second executor may try.
  Nanos evaluation_limit = std::chrono::seconds{30};
  /// Speculative execution, while no other work waits: an idle executor also gets a lease that is older than
  /// `straggler_factor` × the `speculate` quantile of recent durations. 0 disables it.
  double speculate = 0.99;
  double straggler_factor = 2;
  std::size_t speculate_from = 50;  ///< Number of known durations from which it is used.
  runtime::QuarantineOptions quarantine;
  Nanos progress_every = std::chrono::milliseconds{500};
  std::uint64_t episodes = 0;  ///< Ends the run after this many episodes; 0: no limit.
  Nanos budget{0};             ///< Ends the run after this time; 0: no limit.
  Nanos started{0};            ///< Start of the run, by Context::now(); 0: start of the dispatcher.
  /// Time during which a lease may still be in flight to its holder.
  Nanos transit = std::chrono::seconds{5};
  /// Timeout after which an unacknowledged episode is sent again to the recorder.
  Nanos resend = std::chrono::seconds{1};
  Nanos drain = std::chrono::seconds{5};  ///< How long the end of the run waits for work in flight.
  std::vector<std::string> samplers;      ///< Samplers to stop when the run ends.
};

/// Cuts proposals into leases, gives them to executors with credit, reassigns the leases of lost executors,
/// counts each placement once, and sends finished episodes to the recorder until they are on disk. Ends the
/// run. Executors are not trusted: results are validated (messages/measured_values.h), and executors that
/// fail are quarantined (runtime/core/quarantine.h). Receives PlacementProposed, EpisodeReported (from a
/// sampler that measures itself), PlacementMeasured, ExecutorJoined, CreditGranted, Heartbeat, ExecutorLeft,
/// EpisodesRecorded, EpisodesCounted, EpisodesAsked, SamplerDrained, StopRun; sends LeaseGranted,
/// EpisodeReported, EpisodesWanted, CountRequested, ExecutorUnknown, DispatchProgress, StopRun. A restarted
/// dispatcher has no state: samplers propose again what is missing, and executors rejoin. Invariant:
/// placements proposed == reported + waiting + leased; for leases see LeaseTable. Thread: constructed
/// anywhere; every handler runs on the owning loop (the I/O loop: handlers take microseconds).
class Dispatcher final : public runtime::Actor {
 public:
  Dispatcher(TaskPtr task, DispatcherOptions options);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_directory(runtime::Context& context, std::string_view actor, bool reachable) override;

  struct Counters {
    std::uint64_t proposed = 0, reported = 0;  ///< Counted in placements.
    std::uint64_t episodes = 0,
                  refused = 0;          ///< Finished episodes; refused proposals (other graph or shape).
    std::uint64_t refused_results = 0;  ///< Results that did not count.
    std::uint64_t quarantines = 0;      ///< Quarantines of executors in total.
    std::uint64_t speculated = 0;       ///< Speculative leases.
    std::uint64_t committed = 0;        ///< Episodes of the run on disk, as reported by the recorder.
  };
  const Counters& counters() const { return counters_; }
  std::uint64_t in_flight() const { return counters_.proposed - counters_.reported; }
  const runtime::LeaseTable& leases() const { return leases_; }

 private:
  /// Episode in progress.
  struct Episode {
    messages::PlacementProposed proposal;
    messages::SharedBytes bulk;
    messages::EpisodeMeasured measured;
    std::uint32_t missing = 0;  ///< Placements without a result.
  };
  /// Part of an episode: one lease at a time, or two if the first is overdue or a straggler.
  struct Range {
    std::uint64_t episode = 0;
    std::uint32_t begin = 0, count = 0;
    bool failed = false;  ///< An executor has failed it.
    bool queued = false;
    /// The last few executors whose lease of it ended without a result; they are tried last.
    std::vector<runtime::ActorId> tried_by = {};
  };
  /// Finished episode that the recorder has not acknowledged.
  struct Unrecorded {
    messages::EpisodeReported reported;
    messages::SharedBytes bulk;
    Nanos sent{0};
  };
  struct Held {
    runtime::Credit credit;
    Nanos arrives_until{0};  ///< Time until which it may be in flight.
  };
  struct Peer {
    std::string name;
    runtime::ActorId id{};
    std::uint64_t epoch = 0;
    runtime::CreditAccount credit;
    /// Leases that it may still be working on. Their credit is returned with the result, however late, or
    /// once an ended lease is no longer in the heartbeats.
    std::map<std::uint64_t, Held> held;
    std::uint64_t measured = 0;
    double busy_s = 0;                  ///< Busy time since it joined, according to its heartbeats.
    std::optional<double> busy_before;  ///< Its busy time at the moment it joined [s].
    Nanos joined{0};
    Nanos answered{0};  ///< Time of its last result.
  };

  void on_proposed(runtime::Context& context, const messages::PlacementProposed& proposal,
                   const runtime::Incoming& incoming);
  void on_measured(runtime::Context& context, const messages::PlacementMeasured& measured,
                   runtime::ActorId from);
  /// What is wrong with a result of this range; empty if it counts.
  std::string fault_in(const messages::PlacementMeasured& measured, const Range& range,
                       runtime::ActorId from) const;
  void refuse(runtime::Context& context, const runtime::Lease& lease, const std::string& why);
  void end_if_hopeless(runtime::Context& context);
  /// Peer `name`, provided the message came from its owner; else null.
  Peer* peer_of(const std::string& name, runtime::ActorId from);
  void on_joined(runtime::Context& context, const messages::ExecutorJoined& joined, runtime::ActorId from);
  void on_left(runtime::Context& context, const messages::ExecutorLeft& left, runtime::ActorId from);
  void remove(runtime::Context& context, runtime::ActorId executor);
  void pump(runtime::Context& context);
  bool may_take(std::uint64_t range, runtime::ActorId executor, Nanos now) const;
  bool place(runtime::Context& context, std::uint64_t range);
  bool lease(runtime::Context& context, Peer& peer, std::uint64_t range);
  void give_back(runtime::Context& context, Peer& peer, std::uint64_t epoch);
  void requeue(const std::vector<runtime::Lease>& ended);
  void enqueue(std::uint64_t range, std::deque<std::uint64_t>& queue);
  void speculate(runtime::Context& context);
  void on_reported(runtime::Context& context, const messages::EpisodeReported& reported,
                   const runtime::Incoming& incoming);
  bool is_of_this_run(const messages::EpisodeReported& reported, const runtime::Incoming& incoming) const;
  void count_valid(std::span<const std::uint8_t> valid, std::span<const double> step_time_s);
  void report(runtime::Context& context, messages::EpisodeReported reported,
              const messages::SharedBytes& bulk);
  void on_committed(runtime::Context& context, std::uint64_t episodes);
  void on_recorded(runtime::Context& context, const messages::EpisodesRecorded& recorded);
  void on_episodes_asked(runtime::Context& context, const messages::EpisodesAsked& asked,
                         runtime::ActorId from);
  void on_heartbeat(runtime::Context& context, const messages::Heartbeat& heartbeat, runtime::ActorId from);
  bool known(std::uint64_t episode) const;
  void tick(runtime::Context& context);
  void progress(runtime::Context& context);
  void progress_now(runtime::Context& context);
  std::uint32_t executors_wanted(Nanos now);
  void end_run(runtime::Context& context, const std::string& reason);
  void stop_samplers(runtime::Context& context);
  void end_if_drained(runtime::Context& context);

  const TaskPtr task_;
  const DispatcherOptions options_;

  // Owner loop only.
  runtime::LeaseTable leases_;
  std::unordered_map<std::uint64_t, Episode> episodes_;
  std::unordered_map<std::uint64_t, Range> ranges_;
  std::map<std::uint64_t, Unrecorded> unrecorded_;  ///< Keyed by episode.
  std::deque<std::uint64_t> recorded_;              ///< Recent episodes on disk, oldest first.
  std::unordered_set<std::uint64_t> on_disk_;       ///< The same episodes, as a set.
  std::set<std::string> refused_executors_;         ///< Refused executors: another task or kind.
  std::deque<std::uint64_t> waiting_;               ///< Ranges without an open lease, oldest first.
  std::deque<std::uint64_t> overdue_;               ///< Ranges whose leases are all overdue; have priority.
  std::deque<std::uint64_t> failed_;                ///< Failed ranges, which some executors may not take now.
  runtime::RecentDurations durations_;              ///< Lease durations, from grant to result.
  std::map<std::string, Peer*> by_name_;            ///< Peers in the order of DispatchProgress.
  std::unordered_map<runtime::ActorId, Peer> peers_;
  runtime::Roster roster_;
  runtime::Quarantine quarantine_;
  runtime::Demand demand_;
  std::uint64_t next_range_ = 1;
  Counters counters_;
  std::uint64_t valid_ = 0;
  double best_step_time_s_ = 0;
  Nanos started_{0};
  Nanos slowest_{0};
  std::set<std::string> drained_;  ///< Samplers without work in flight, at the end of the run.
  bool recorder_answered_ = false;
  /// Episodes on disk that no update on disk has consumed, as last reported by the recorder.
  std::optional<std::uint64_t> unlearned_;
  bool ending_ = false, stopping_ = false;
  std::string end_reason_;
  Nanos ended_at_{0};
};

}  // namespace emplace::actors
