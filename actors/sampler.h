#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/best_so_far.h"
#include "actors/drawer.h"
#include "actors/measurer.h"
#include "actors/own_episodes.h"
#include "actors/parameter_fetch.h"
#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/log.h"
#include "messages/run_control.h"
#include "placement/placement.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/follower.h"

namespace emplace::actors {

struct SamplerOptions {
  std::uint32_t controller = 0;
  std::uint32_t controllers = 1;  ///< Episodes of this one: controller, controller + controllers, …
  std::uint32_t max_outstanding =
      4;                ///< Episodes proposed and not yet learned from (or, unlearned, not yet committed).
  bool learned = true;  ///< False: nobody learns; episodes end when they are committed.
  std::uint64_t episodes = 0;  ///< Proposes no episode numbered so or higher; 0: no limit.
  /// Deterministic: episode e is drawn with version max(0, e / batch - lag); 0: with the newest.
  std::uint32_t batch = 0;
  std::uint32_t lag = 1;
  /// Each episode ends with the policy's likeliest placement, which its other placements are held against.
  bool self_critic = false;
  std::uint32_t redraws = 0;  ///< Most redraws of an episode that repeats placements (actors/drawer.h).
  Nanos patience = std::chrono::seconds{1};  ///< Then it asks what became of an episode, or asks again.
};

/// A controller: draws placements from the newest parameters and keeps a bounded number of episodes on their
/// way. Before it begins, and whenever an episode takes long, it asks the recorder what became of its
/// episodes; those that neither recorder nor dispatcher has are proposed again, as they were drawn. Receives
/// ParametersPublished, ParametersDelivered, EpisodeCommitted, UpdateApplied, EpisodesKnown,
/// EpisodesWanted, StopRun; sends PlacementProposed (or EpisodeReported, if it measures itself),
/// ParametersRequested, EpisodesAsked, LogRequested (if the policy starts at the best), and, told to stop,
/// SamplerDrained once none of its episodes is outstanding. Its rules are pure: which episode is next
/// (OwnEpisodes), what is drawn (Drawer), where it starts (BestSoFar), with which parameters
/// (ParameterFetch). Thread: constructed anywhere; every handler runs on the owning loop, one of its own.
class Sampler final : public runtime::Actor {
 public:
  /// `local` makes the executors of a sampler that measures itself; null: executors elsewhere do.
  Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local = nullptr);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void on_timer(runtime::Context& context);
  void ask_about(runtime::Context& context, std::vector<std::uint64_t> episodes);
  void on_known(runtime::Context& context, const messages::EpisodesKnown& known);
  void on_first_known(runtime::Context& context, const messages::EpisodesKnown& known);
  void on_wanted(runtime::Context& context, const messages::EpisodesWanted& wanted);
  void on_committed(runtime::Context& context, const messages::EpisodeCommitted& committed,
                    const runtime::Incoming& incoming);
  void on_published(runtime::Context& context, const messages::ParametersPublished& published);
  void on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                    const runtime::Incoming& incoming);
  /// The version that the next episode is drawn with. 0: the newest, unless the run is deterministic.
  std::uint64_t wanted_version() const;
  void fetch(runtime::Context& context, std::uint64_t version);
  void request_parameters(runtime::Context& context);
  void end(runtime::Context& context, std::uint64_t episode);
  void report_if_drained(runtime::Context& context);
  void propose_next(runtime::Context& context);
  void propose(runtime::Context& context);
  /// False: refused by a full queue.
  bool send(runtime::Context& context, std::uint64_t episode, const Outstanding& drawn,
            const std::vector<Placement>& placements);
  bool measure_and_report(runtime::Context& context, const messages::PlacementProposed& proposal,
                          messages::SharedBytes bulk);
  // Only if the policy starts at the best: reading its own episodes in the log.
  bool reads_log() const { return log_.next() <= log_end_; }
  void read_log_until(runtime::Context& context, std::uint64_t end);
  void read_log_on(runtime::Context& context);
  void request_log(runtime::Context& context, const runtime::LogFollower::Ask& asked);

  const TaskPtr task_;
  const SamplerOptions options_;
  const PlacerFactory factory_;
  const bool measures_;

  // Owner loop only.
  std::unique_ptr<policy::Placer> placer_;
  Measurer measurer_;  ///< Only if `measures_`.
  OwnEpisodes episodes_;
  Drawer drawer_;
  BestSoFar best_;
  ParameterFetch fetch_;
  runtime::LogFollower log_;   ///< Reads what earlier incarnations did, and results that did not arrive.
  std::uint64_t log_end_ = 0;  ///< The log is read up to this number.
  std::uint64_t version_ = 0;  ///< Version of the parameters in use.
  std::string sha256_;         ///< Hash of the parameters in use.
  bool has_parameters_ = false;
  std::uint64_t announced_ = 0;  ///< The newest version that was published.
  Nanos refetch_at_{0};          ///< Earliest next fetch, after a version that was not the one requested.
  Nanos asked_{0};               ///< Time of the last question about episodes.
  bool scheduled_ = false;       ///< propose() waits at the end of this turn.
  bool stopped_ = false;
};

}  // namespace emplace::actors
