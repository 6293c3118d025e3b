#pragma once
/// Probabilities of a run's placements under the behaviour policy, which drew them.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/replay/recorded_run.h"
#include "policy/training/trainer.h"

namespace emplace::launcher {

/// The behaviour policy of a log, reproduced update by update, with the parameters of its last versions.
/// Querying in log order bounds the versions that it keeps by the maximum staleness.   [IS-2] Thread: one.
/// The run must outlive it.
class Behaviour {
 public:
  /// `versions`: policy_version of every episode that will be queried, in order. Errors (kInvalid): a method
  /// whose placement probabilities are not computable; a missing first checkpoint.
  static Result<Behaviour> make(RecordedRun& run, std::span<const std::uint64_t> versions);

  /// Returns log q [nat] of an episode's placements, in the form of Placer::log_probabilities(): without the
  /// last one if it was not drawn (self-critic), one value for a sequence of steps. Errors: kInvalid with the
  /// reason if it is unknown for this episode; kRunFailed if the reproduced updates differ from the run.
  Result<std::vector<double>> log_q(const record::EpisodeRow& episode);

  const policy::Placer& placer() const { return *placer_; }

 private:
  struct Snapshot {
    std::uint64_t version = 0;
    Bytes parameters;
  };
  Behaviour(RecordedRun& run, std::unique_ptr<policy::Placer> placer)
      : run_{&run}, placer_{std::move(placer)} {}
  Result<Unit> update();
  void keep();

  RecordedRun* run_;
  std::unique_ptr<policy::Placer> placer_;  // Policy with the parameters of version_.
  std::optional<std::uint64_t> version_;    // Version of placer_; empty: initial parameters.
  std::optional<policy::Trainer> trainer_;  // Empty for a policy that never learned.
  std::uint64_t window_ = 0;                // Number of versions to keep in addition to the newest.
  std::deque<Snapshot> snapshots_;          // Sorted by version, without gaps.
};

}  // namespace emplace::launcher
