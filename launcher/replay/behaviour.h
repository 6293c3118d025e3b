#pragma once
/// How likely a run's placements were to the policy that drew them.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/replay/logged_run.h"
#include "policy/training/trainer.h"

namespace emplace::launcher {

/// The log's policy, made again update by update, with the parameters of its last versions. Asked in the
/// order of the log it holds no more of them than its episodes were late.   [IS-2] Thread: one. The run must
/// outlive it.
class Behaviour {
 public:
  /// `versions`: policy_version of every episode that will be asked for, in order. Errors (kInvalid): a
  /// policy of which nobody knows how likely a placement was; its first checkpoint is gone.
  static Result<Behaviour> make(LoggedRun& run, std::span<const std::uint64_t> versions);

  /// log q [nat] of an episode's placements, as Placer::log_probabilities() has them: fewer than measured
  /// where the last one was not drawn (self-critic), one for a sequence of steps. Errors (kInvalid): this
  /// one's is not known, with the reason; kRunFailed: the updates made again are not those of the run.
  Result<std::vector<double>> log_q(const record::EpisodeRow& episode);

  const policy::Placer& placer() const { return *placer_; }

 private:
  struct Snapshot {
    std::uint64_t version = 0;
    Bytes parameters;
  };
  Behaviour(LoggedRun& run, std::unique_ptr<policy::Placer> placer)
      : run_{&run}, placer_{std::move(placer)} {}
  Result<Unit> update();
  void keep();

  LoggedRun* run_;
  std::unique_ptr<policy::Placer> placer_;  // With the parameters of version_.
  std::optional<std::uint64_t> version_;    // None: as it was made.
  std::optional<policy::Trainer> trainer_;  // None for a policy that never learned.
  std::uint64_t window_ = 0;                // Versions kept beside the newest.
  std::deque<Snapshot> snapshots_;          // Rising, without gaps.
};

}  // namespace emplace::launcher
