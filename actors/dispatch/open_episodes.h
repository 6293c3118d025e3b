#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/dispatch/range.h"
#include "messages/episode_measured.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/shared_bytes.h"
#include "runtime/core/lease.h"

namespace emplace::actors {

/// An episode whose placements are all measured.
struct FinishedEpisode {
  messages::EpisodeReported reported;
  messages::SharedBytes bulk;  ///< Frame that the sections of `reported` point into.
};

/// Episodes from their proposal to their last result. An episode is cut into ranges; each range takes one
/// result, and the last result finishes the episode. Invariants:
///
/// - The ranges of an episode are its placements: each placement is in one range, in order.
/// - Placements added == placements merged + placements open. An episode is finished once.
///
/// Pure. Owner loop only.
class OpenEpisodes {
 public:
  /// `placements_per_range`: maximum, >= 1.
  explicit OpenEpisodes(std::uint32_t placements_per_range) : placements_per_range_{placements_per_range} {}

  /// Adds an episode and returns its ranges, in order. `bulk`: frame of the sections of `proposal`. @pre
  /// The episode is not open, and fault_in() finds nothing (actors/dispatch/checks.h).
  std::vector<Range> add(const messages::PlacementProposed& proposal, messages::SharedBytes bulk);
  bool contains(std::uint64_t episode) const { return episodes_.contains(episode); }
  /// The range that this lease is for, as sent to its holder. @pre The range is open.
  messages::LeaseGranted message_for(const runtime::Lease& lease, std::uint64_t executor_epoch) const;
  /// Placements of an open range: [count, num_ops] device of each op, one byte each.
  messages::SharedBytes placements_of(std::uint64_t range) const;
  /// Merges the result of a range, which is no longer open. Returns its episode if that is finished, and
  /// forgets it. `attempt`: the attempt at the range that produced the result. @pre The range is open, and
  /// fault_in() finds nothing (actors/dispatch/checks.h).
  std::optional<FinishedEpisode> merge(std::uint64_t range, const messages::PlacementMeasured& measured,
                                       std::uint32_t attempt);

  /// Number of open ranges and of open episodes.
  std::size_t ranges() const { return ranges_.size(); }
  std::size_t episodes() const { return episodes_.size(); }

 private:
  struct Episode {
    messages::PlacementProposed proposal;
    messages::SharedBytes bulk;
    messages::EpisodeMeasured measured;
    std::uint32_t missing = 0;  ///< Placements without a result.
  };

  const std::uint32_t placements_per_range_;
  std::unordered_map<std::uint64_t, Episode> episodes_;  ///< Keyed by episode.
  std::unordered_map<std::uint64_t, Range> ranges_;      ///< Keyed by number.
  std::uint64_t next_range_ = 1;
};

}  // namespace emplace::actors
