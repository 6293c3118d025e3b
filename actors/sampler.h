#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <unordered_set>
#include <vector>

#include "actors/measurer.h"
#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/run_control.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

struct SamplerOptions {
  std::uint32_t controller = 0;
  std::uint32_t controllers = 1;  ///< Episodes of this one: controller, controller + controllers, …
  std::uint32_t max_outstanding =
      4;                ///< Episodes proposed and not yet learned from (or, unlearned, not yet committed).
  bool learned = true;  ///< False: nobody learns; episodes end when they are committed.
  std::uint64_t first_episode = 0;  ///< To go on with: episodes below are taken.
  std::uint64_t episodes = 0;       ///< Proposes no episode numbered so or higher; 0: no limit.
  /// Deterministic: episode e is drawn with version max(0, e / batch - lag); 0: with the newest.
  std::uint32_t batch = 0;
  std::uint32_t lag = 1;
  /// Each episode ends with the policy's likeliest placement, which its other placements are held against.
  bool self_critic = false;
  /// An episode with placements that this sampler has proposed before is drawn again, at most so often; the
  /// draw with the most new ones is proposed. A policy that has settled then looks around its mode.
  std::uint32_t redraws = 0;
};

/// A controller: draws placements from the newest parameters and keeps a bounded number of episodes on their
/// way. Receives ParametersPublished, ParametersDelivered, MeasurementCommitted, UpdateApplied, StopRun;
/// sends PlacementProposed (or MeasurementReported, if it measures itself), ParametersRequested, and, told to
/// stop, RunProgress once nothing of its own is on its way. Thread: constructed anywhere; every handler runs
/// on the owning loop, one of its own.
class Sampler final : public runtime::Actor {
 public:
  /// `local` makes the executors of a sampler that measures itself; null: executors elsewhere do.
  Sampler(TaskPtr task, SamplerOptions options, PlacerFactory factory, ExecutorFactory local = nullptr);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  void on_delivered(runtime::Context& context, const messages::ParametersDelivered& delivered,
                    const runtime::Incoming& incoming);
  void fetch(runtime::Context& context, std::uint64_t version);
  void propose_next(runtime::Context& context);
  void propose(runtime::Context& context);
  /// An episode as it will be proposed.
  struct Draw {
    policy::Actions actions;
    std::vector<Placement> placements;
    std::vector<std::uint64_t> keys;  ///< [placements] hashes, if redraws are wanted.
    std::size_t fresh = 0;            ///< Placements not proposed before.
  };
  Draw draw(std::uint64_t episode) const;
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
  Measurer measurer_;  ///< Only if `measures_`.
  std::uint64_t next_episode_ = 0;
  std::unordered_set<std::uint64_t> proposed_;  ///< Keys of placements; only if redraws are wanted.
  std::set<std::uint64_t> outstanding_;
  std::uint64_t version_ = 0;  ///< Of the parameters in use.
  bool has_parameters_ = false;
  std::uint64_t announced_ = 0;
  bool fetching_ = false;
  std::uint64_t incoming_version_ = 0;
  Bytes incoming_;          ///< Chunks so far.
  bool scheduled_ = false;  ///< propose() waits at the end of this turn.
  bool stopped_ = false;
};

}  // namespace emplace::actors
