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
  std::uint32_t controllers = 1;  ///< Proposes episodes controller, controller + controllers, …
  /// Limit of episodes proposed and not yet learned from (without learning: not yet committed).
  std::uint32_t max_outstanding = 4;
  bool learned = true;         ///< False: there is no learner; episodes end when committed.
  std::uint64_t episodes = 0;  ///< First episode number that is not proposed; 0: no limit.
  /// Deterministic runs: episode e is drawn with version max(0, e / batch - lag); 0: with the newest.
  std::uint32_t batch = 0;
  std::uint32_t lag = 1;
  /// Each episode ends with the policy's likeliest placement, the baseline of its other placements.
  bool self_critic = false;
  std::uint32_t redraws = 0;  ///< Maximum redraws of an episode that repeats placements (actors/drawer.h).
  Nanos timeout = std::chrono::seconds{1};  ///< Timeout after which unanswered requests are repeated.
};

/// Controller: draws placements from the newest parameters and keeps a bounded number of episodes in flight.
/// At start, and for late episodes, it asks the recorder for their state; episodes that neither recorder nor
/// dispatcher has are proposed again with the same actions. Receives ParametersPublished,
/// ParametersDelivered, EpisodeCommitted, UpdateApplied, EpisodesKnown, EpisodesWanted, StopRun; sends
/// PlacementProposed (or EpisodeReported, if it measures itself), ParametersRequested, EpisodesAsked,
/// LogRequested (if the policy starts at the best), and, after StopRun, SamplerDrained once no episode is
/// outstanding. Its parts are pure: the next episode (OwnEpisodes), the draw (Drawer), its starting point
/// (BestSoFar), the parameters (ParameterFetch). Thread: constructed anywhere; every handler runs on the
/// owning loop, one of its own.
class Sampler final : public runtime::Actor {
 public:
  /// `local`: makes executors for a sampler that measures itself; null: other nodes measure.
  Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local = nullptr);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void on_timer(runtime::Context& context);
  void ask_about(runtime::Context& context, std::vector<std::uint64_t> episodes);
  void on_known(runtime::Context& context, const messages::EpisodesKnown& known);
  void on_first_known(runtime::Context& context, const messages::EpisodesKnown& known);
  void on_episodes_wanted(runtime::Context& context, const messages::EpisodesWanted& wanted);
  void on_committed(runtime::Context& context, const messages::EpisodeCommitted& committed,
                    const runtime::Incoming& incoming);
  void on_published(runtime::Context& context, const messages::ParametersPublished& published);
  void on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                    const runtime::Incoming& incoming);
  bool has_incumbent() const { return placer_->incumbent() != policy::Incumbent::kNone; }
  /// Version to draw the next episode with. Returns 0 (newest) unless the run is deterministic.
  std::uint64_t wanted_version() const;
  void fetch(runtime::Context& context, std::uint64_t version);
  void request_parameters(runtime::Context& context);
  void end(runtime::Context& context, std::uint64_t episode);
  void report_if_drained(runtime::Context& context);
  void propose_next(runtime::Context& context);
  void propose(runtime::Context& context);
  /// Returns false if a full queue refused it.
  bool send(runtime::Context& context, std::uint64_t episode, const Outstanding& drawn,
            const std::vector<Placement>& placements);
  bool measure_and_report(runtime::Context& context, const messages::PlacementProposed& proposal,
                          messages::SharedBytes bulk);
  // Log reading, if episodes start from an incumbent: the sampler's own episodes of earlier incarnations.
  bool reads_log() const { return log_.next() <= log_end_; }
  void read_log_until(runtime::Context& context, std::uint64_t end);
  void continue_reading_log(runtime::Context& context);
  void request_log(runtime::Context& context, const runtime::LogFollower::Ask& asked);

  const TaskPtr task_;
  const SamplerOptions options_;
  const PlacerFactory factory_;
  const bool measures_;

  // Owner loop only.
  std::unique_ptr<policy::Placer> placer_;
  Measurer measurer_;  ///< Only used if `measures_`.
  OwnEpisodes episodes_;
  Drawer drawer_;
  BestSoFar best_;
  ParameterFetch fetch_;
  runtime::LogFollower log_;   ///< Reads episodes of earlier incarnations, and results that were lost.
  std::uint64_t log_end_ = 0;  ///< The log is read up to this number.
  std::uint64_t version_ = 0;  ///< Version of the parameters in use.
  std::string sha256_;         ///< Hash of the parameters in use.
  bool has_parameters_ = false;
  std::uint64_t announced_ = 0;  ///< Newest published version.
  Nanos refetch_at_{0};          ///< Earliest next fetch after an unexpected version was delivered.
  Nanos last_asked_{0};          ///< Time of the last request about episodes.
  bool scheduled_ = false;       ///< propose() is scheduled at the end of this turn.
  bool stopped_ = false;
};

}  // namespace emplace::actors
