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
#include "runtime/core/lease.h"
#include "runtime/core/quarantine.h"
#include "runtime/core/recent.h"
#include "runtime/core/roster.h"

namespace emplace::actors {

struct DispatcherOptions {
  std::vector<std::string> kinds;          ///< Executors of other kinds get no work; empty: all get some.
  std::uint32_t placements_per_lease = 4;  ///< The most that one lease asks of an executor.
  std::uint32_t window = 512;              ///< Placements in flight at one executor, at most.
  std::uint64_t window_bytes = 64u << 20;
  /// Beyond two leases an executor is given work for so long, by its measured rate.
  Nanos horizon = std::chrono::milliseconds{250};
  runtime::LeaseOptions lease;
  Nanos evaluation_limit = std::chrono::seconds{30};  ///< At least; past it a second executor may try.
  /// A lease that takes longer than `straggles` times what this share of recent ones took is also given to an
  /// executor that has nothing to do, while nothing else waits; 0: never.
  double speculate = 0.99;
  double straggles = 2;
  std::size_t speculate_from = 50;  ///< Once so many durations are known.
  runtime::QuarantineOptions quarantine;
  Nanos progress_every = std::chrono::milliseconds{500};
  std::uint64_t episodes = 0;  ///< Ends the run after so many; 0: never.
  Nanos budget{0};             ///< Ends the run after so long; 0: never.
  Nanos started{0};            ///< When the run began, by Context::now(); 0: with the dispatcher.
  Nanos transit = std::chrono::seconds{5};  ///< A lease that its holder has not seen yet is kept for so long.
  Nanos resend = std::chrono::seconds{1};   ///< To a recorder that has not said that it has it.
  Nanos drain = std::chrono::seconds{5};    ///< How long the end waits for what is in flight.
  std::vector<std::string> samplers;        ///< Told to stop when the run ends.
};

/// The one who knows the executors: cuts proposals into leases, gives them to whoever has credit, sends them
/// again when an executor is lost, counts each placement once, and hands finished episodes to the recorder,
/// again and again until they are on disk. It also ends the run. Executors are not trusted: a result is
/// checked before it counts (messages/measured_values.h), and who fails is quarantined
/// (runtime/core/quarantine.h). Receives PlacementProposed,
/// EpisodeReported (of a sampler that measures itself), PlacementMeasured, ExecutorJoined, CreditGranted,
/// Heartbeat, ExecutorLeft, EpisodesRecorded, EpisodesCounted, EpisodesAsked, SamplerDrained, StopRun; sends
/// LeaseGranted, EpisodeReported, EpisodesWanted, CountRequested, ExecutorUnknown, DispatchProgress, StopRun.
/// A dispatcher made anew knows nothing: samplers propose again what they miss, and executors join again.
/// Conservation: placements proposed == reported + waiting + leased; leases as LeaseTable says. Thread:
/// constructed anywhere; every handler runs on the owning loop (the I/O loop: they take microseconds).
class Dispatcher final : public runtime::Actor {
 public:
  Dispatcher(TaskPtr task, DispatcherOptions options);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_directory(runtime::Context& context, std::string_view actor, bool reachable) override;

  struct Counters {
    std::uint64_t proposed = 0, reported = 0;  ///< Placements.
    std::uint64_t episodes = 0, refused = 0;   ///< Episodes finished; proposals of another graph or shape.
    std::uint64_t refused_results = 0;         ///< Results that did not count.
    std::uint64_t quarantines = 0;             ///< Of executors, in all.
    std::uint64_t speculated = 0;              ///< Leases given to a second executor because of their age.
    std::uint64_t committed = 0;               ///< Episodes of the run on disk, as the recorder said.
  };
  const Counters& counters() const { return counters_; }
  std::uint64_t in_flight() const { return counters_.proposed - counters_.reported; }
  const runtime::LeaseTable& leases() const { return leases_; }

 private:
  /// A proposal on its way through the executors.
  struct Episode {
    messages::PlacementProposed proposal;
    messages::SharedBytes bulk;
    messages::EpisodeMeasured measured;
    std::uint32_t missing = 0;  ///< Placements without a result.
  };
  /// A piece of an episode: one lease at a time, or two when the first is overdue or straggles.
  struct Piece {
    std::uint64_t episode = 0;
    std::uint32_t begin = 0, count = 0;
    bool failed = false;  ///< Some executor could not do it.
    bool queued = false;
    std::vector<runtime::ActorId> missed =
        {};  ///< Who had it and did not answer, the last few: others first.
  };
  /// A finished episode that the recorder has not said to have.
  struct Unrecorded {
    messages::EpisodeReported reported;
    messages::SharedBytes bulk;
    Nanos sent{0};
  };
  struct Held {
    runtime::Credit credit;
    Nanos arrives_until{0};  ///< Until then it may be on its way.
  };
  struct Peer {
    std::string name;
    runtime::ActorId id{};
    std::uint64_t epoch = 0;
    runtime::CreditAccount credit;
    /// What it may still be working on, by lease: returned with its result, however late, or once a lease
    /// that has ended is no longer in its heartbeats.
    std::map<std::uint64_t, Held> held;
    std::uint64_t measured = 0;
    double busy_s = 0;                  ///< Since it joined here, as far as its heartbeats said.
    std::optional<double> busy_before;  ///< [s] Of what it counts itself.
    Nanos joined{0};
    Nanos answered{0};  ///< When a result of it came last.
  };

  void on_proposed(runtime::Context& context, const messages::PlacementProposed& proposal,
                   const runtime::Incoming& incoming);
  void on_measured(runtime::Context& context, const messages::PlacementMeasured& measured,
                   runtime::ActorId from);
  /// What is wrong with a result of this piece, and who says it; empty: it may count.
  std::string fault_of(const messages::PlacementMeasured& measured, const Piece& piece,
                       runtime::ActorId from) const;
  void refuse(runtime::Context& context, const runtime::Lease& lease, const std::string& why);
  void end_if_hopeless(runtime::Context& context);
  /// The executor of that name, if it is `from` who speaks for it; null: nobody, or another.
  Peer* peer_of(const std::string& name, runtime::ActorId from);
  void on_joined(runtime::Context& context, const messages::ExecutorJoined& joined, runtime::ActorId from);
  void on_left(runtime::Context& context, const messages::ExecutorLeft& left, runtime::ActorId from);
  void remove(runtime::Context& context, runtime::ActorId executor);
  void pump(runtime::Context& context);
  bool may_take(std::uint64_t piece, runtime::ActorId executor, Nanos now) const;
  bool place(runtime::Context& context, std::uint64_t piece);
  bool lease(runtime::Context& context, Peer& peer, std::uint64_t piece);
  void give_back(runtime::Context& context, Peer& peer, std::uint64_t epoch);
  void requeue(const std::vector<runtime::Lease>& ended);
  void enqueue(std::uint64_t piece, std::deque<std::uint64_t>& queue);
  void overtake_stragglers(runtime::Context& context);
  void on_reported(runtime::Context& context, const messages::EpisodeReported& reported,
                   const runtime::Incoming& incoming);
  bool is_of_this_run(const messages::EpisodeReported& reported, const runtime::Incoming& incoming) const;
  void count_valid(std::span<const std::uint8_t> valid, std::span<const double> step_time_s);
  void report(runtime::Context& context, messages::EpisodeReported reported,
              const messages::SharedBytes& bulk);
  void on_committed(runtime::Context& context, std::uint64_t episodes);
  void on_recorded(runtime::Context& context, const messages::EpisodesRecorded& recorded);
  void on_asked(runtime::Context& context, const messages::EpisodesAsked& asked, runtime::ActorId from);
  void on_heartbeat(runtime::Context& context, const messages::Heartbeat& heartbeat, runtime::ActorId from);
  bool known(std::uint64_t episode) const;
  void tick(runtime::Context& context);
  void progress(runtime::Context& context);
  void progress_now(runtime::Context& context);
  void end_run(runtime::Context& context, const std::string& reason);
  void tell_samplers(runtime::Context& context);
  void end_if_drained(runtime::Context& context);

  const TaskPtr task_;
  const DispatcherOptions options_;

  // Owner loop only.
  runtime::LeaseTable leases_;
  std::unordered_map<std::uint64_t, Episode> episodes_;
  std::unordered_map<std::uint64_t, Piece> pieces_;
  std::map<std::uint64_t, Unrecorded> unrecorded_;  ///< By episode.
  std::deque<std::uint64_t> recorded_;              ///< The last few episodes that are on disk,
  std::unordered_set<std::uint64_t> on_disk_;       ///< and the same to look up.
  std::set<std::string> strangers_;                 ///< Executors of another task or kind.
  std::deque<std::uint64_t> waiting_;               ///< Pieces without an open lease, oldest first.
  std::deque<std::uint64_t> overdue_;               ///< Those whose leases are all overdue: they go first.
  std::deque<std::uint64_t> failed_;                ///< Those that not everybody may take now.
  runtime::RecentDurations durations_;              ///< Of leases, from grant to result.
  std::map<std::string, Peer*> by_name_;            ///< As RunProgress lists them.
  std::unordered_map<runtime::ActorId, Peer> peers_;
  runtime::Roster roster_;
  runtime::Quarantine quarantine_;
  std::uint64_t next_piece_ = 1;
  Counters counters_;
  std::uint64_t valid_ = 0;
  double best_step_time_s_ = 0;
  Nanos started_{0};
  Nanos slowest_{0};
  std::set<std::string> drained_;  ///< Samplers that have nothing on its way any more, at the end.
  bool heard_of_recorder_ = false;
  /// Episodes on disk that no update on disk has consumed, as the recorder said last.
  std::optional<std::uint64_t> unlearned_;
  bool ending_ = false, stopping_ = false;
  std::string end_reason_;
  Nanos ended_at_{0};
};

}  // namespace emplace::actors
