#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "messages/log.h"

namespace emplace::actors {

struct RunEndOptions {
  std::uint64_t episodes = 0;             ///< Ends the run after this many episodes; 0: no limit.
  Nanos drain = std::chrono::seconds{5};  ///< How long the end of the run waits for work in flight.
  std::vector<std::string> samplers;      ///< Samplers to stop when the run ends.
};

/// End of a run: from the reason to end it, over the end of the work in flight, to the stop of the node. The
/// node stops once every episode has been learned from, or after `drain` (the last episodes may not fill a
/// batch). Invariants:
///
/// - The first reason counts, and the end is never revoked.
/// - The node stops once.
///
/// Pure. Owner loop only.
class RunEnd {
 public:
  explicit RunEnd(RunEndOptions options) : options_{std::move(options)} {}

  /// Starts the end of the run. Returns false if it had started before.
  bool start(std::string reason, Nanos now);
  bool started() const { return started_; }
  const std::string& reason() const { return reason_; }  ///< Empty before start().

  /// Records a number of episodes on disk from the recorder; a smaller one is outdated. Returns whether the
  /// requested number of episodes is reached.
  bool committed(std::uint64_t episodes);
  /// Records the recorder's answer to CountRequested; committed() comes first.
  void counted(const messages::EpisodesCounted& counted);
  /// Records that a sampler has no work in flight. What has been learned must be counted again after it.
  void drained(const std::string& sampler);

  std::uint64_t episodes_on_disk() const { return committed_; }
  /// Whether the recorder must be asked for its counts: they are unknown, or decide about the end.
  bool needs_counts() const { return !recorder_answered_ || started_; }
  /// Samplers that may have work in flight.
  std::vector<std::string> samplers_to_drain() const;
  /// Returns true, once, when the node is to be stopped because the run has ended. `idle`: no placement is in
  /// flight and every finished episode is recorded.
  bool stops(bool idle, Nanos now);
  /// Stops without an end of the run: it cannot continue. Returns false if the run ends or has stopped.
  bool abort();
  bool stopped() const { return stopped_; }

 private:
  const RunEndOptions options_;
  std::uint64_t committed_ = 0;
  bool recorder_answered_ = false;
  /// Episodes on disk that no update on disk has consumed, as last reported by the recorder.
  std::optional<std::uint64_t> unlearned_;
  std::set<std::string> drained_;  ///< Samplers without work in flight.
  bool started_ = false, stopped_ = false;
  std::string reason_;
  Nanos started_at_{0};
};

}  // namespace emplace::actors
