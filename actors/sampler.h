#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "actors/measurer.h"
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

/// What is known of the best placement of a graph: one that fits before one that does not, then the faster.
struct BestKnown {
  bool known = false;
  std::int64_t bytes_over = 0;
  double step_time_s = 0;
  bool beats(const BestKnown& other) const {
    if (known != other.known) return known;
    return bytes_over != other.bytes_over ? bytes_over < other.bytes_over : step_time_s < other.step_time_s;
  }
};

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
  /// An episode with placements that this sampler has proposed before is drawn again, at most so often; the
  /// draw with the most new ones is proposed. A policy that has settled then looks around its mode.
  std::uint32_t redraws = 0;
  Nanos patience = std::chrono::seconds{1};  ///< Then it asks what became of an episode, or asks again.
};

/// A controller: draws placements from the newest parameters and keeps a bounded number of episodes on their
/// way. Before it begins, and whenever an episode takes long, it asks the recorder what became of its
/// episodes; those that neither recorder nor dispatcher has are proposed again, as they were drawn. Receives
/// ParametersPublished, ParametersDelivered, MeasurementCommitted, UpdateApplied, EpisodesKnown,
/// EpisodesWanted, StopRun; sends PlacementProposed (or MeasurementReported, if it measures itself),
/// ParametersRequested, EpisodesAsked, LogRequested (if the policy starts at the best), and, told to stop,
/// RunProgress once nothing of its own is on its way. Thread: constructed anywhere; every handler runs on the
/// owning loop, one of its own.
class Sampler final : public runtime::Actor {
 public:
  /// `local` makes the executors of a sampler that measures itself; null: executors elsewhere do.
  Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local = nullptr);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  /// An episode as it was drawn.
  struct Draw {
    policy::Actions actions;
    std::vector<Placement> placements;
    std::vector<std::uint64_t> keys;  ///< [placements] hashes, if redraws are wanted.
    std::size_t fresh = 0;            ///< Placements not proposed before.
  };
  /// An episode on its way.
  struct Outstanding {
    policy::Actions actions;          ///< Empty: drawn by an earlier life.
    std::optional<Placement> critic;  ///< The likeliest placement then, if it is measured too.
    std::uint64_t version = 0;        ///< Of the parameters that drew it.
    Nanos since{0};                   ///< When it was proposed, or asked about.
    bool recorded = false;            ///< On disk, and waits to be learned from.
  };
  void look(runtime::Context& context);
  void ask(runtime::Context& context, std::vector<std::uint64_t> episodes);
  void on_known(runtime::Context& context, const messages::EpisodesKnown& known);
  void on_wanted(runtime::Context& context, const messages::EpisodesWanted& wanted);
  void on_published(runtime::Context& context, const messages::ParametersPublished& published);
  void on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                    const runtime::Incoming& incoming);
  void fetch(runtime::Context& context, std::uint64_t version);
  void request_parameters(runtime::Context& context, std::uint64_t version);
  void end(runtime::Context& context, std::uint64_t episode);
  std::uint64_t next_episode() const { return again_.empty() ? next_episode_ : again_.front(); }
  void propose_next(runtime::Context& context);
  void propose(runtime::Context& context);
  bool send(runtime::Context& context, std::uint64_t episode, const Outstanding& drawn,
            const std::vector<Placement>& placements);
  Draw draw(std::uint64_t episode) const;
  bool reads_log() const { return log_.next() <= log_end_; }
  void read_until(runtime::Context& context, std::uint64_t end);
  void read_on(runtime::Context& context);
  void ask_log(runtime::Context& context, const runtime::LogFollower::Ask& asked);
  struct Sent;
  static void take_costs(Sent& sent, const messages::EpisodeMeasured& measured);
  void on_committed(runtime::Context& context, const messages::MeasurementCommitted& committed,
                    const runtime::Incoming& incoming);
  /// Moves what is measured to best_. False if an episode that the next one must know of is not measured yet.
  bool take_best();
  bool measure_and_report(runtime::Context& context, const messages::PlacementProposed& proposal,
                          messages::SharedBytes bulk);
  void say_if_drained(runtime::Context& context);
  std::uint64_t wanted_version() const;

  const TaskPtr task_;
  const SamplerOptions options_;
  const PlacerFactory factory_;
  const bool measures_;

  // Owner loop only.
  std::unique_ptr<policy::Placer> placer_;
  Measurer measurer_;   ///< Only if `measures_`.
  bool knows_ = false;  ///< What its earlier lives did.
  Nanos asked_{0};      ///< For that.
  std::uint64_t next_episode_ = 0;
  std::uint64_t own_from_ = 0;       ///< Only episodes below it may have been proposed by earlier lives too.
  std::deque<std::uint64_t> again_;  ///< Episodes of earlier lives that were lost.
  std::unordered_set<std::uint64_t> proposed_;  ///< Keys of placements; only if redraws are wanted.
  std::map<std::uint64_t, Outstanding> outstanding_;
  // Only if the policy starts at the best.
  /// An episode of its own that best_ does not know of.
  struct Sent {
    policy::Actions actions;
    BestKnown best;            ///< Once it is measured,
    std::uint32_t number = 0;  ///< and which of its placements that is.
  };
  std::map<std::uint64_t, Sent> sent_;  ///< By episode.
  std::vector<BestKnown> best_known_;   ///< By graph,
  std::vector<Placement> best_;         ///< and the placements.
  std::uint64_t log_end_ = 0;           ///< The log is read up to this number:
  runtime::LogFollower log_;            ///< what earlier lives did, and what nobody told.
  std::uint64_t version_ = 0;           ///< Of the parameters in use,
  std::string sha256_;                  ///< and their hash.
  bool has_parameters_ = false;
  std::uint64_t announced_ = 0;
  bool fetching_ = false;
  Nanos requested_{0};   ///< When parameters were asked for last.
  Nanos refetch_at_{0};  ///< Not before, after a version that was not the one asked for.
  std::uint64_t requested_version_ = 0, incoming_version_ = 0;
  Bytes incoming_;          ///< Chunks so far.
  bool scheduled_ = false;  ///< propose() waits at the end of this turn.
  bool stopped_ = false;
};

}  // namespace emplace::actors
