#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_set>
#include <vector>

#include "actors/dispatch/open_episodes.h"
#include "base/clock.h"

namespace emplace::actors {

/// Finished episodes that the recorder has not acknowledged, which are sent again until it has, and the last
/// kRemembered acknowledged ones, which a sampler may still ask about. Invariants:
///
/// - An episode that was added is kept, and due() again and again, until recorded().
/// - Only recorded() moves an episode to the remembered ones; numbers that were never added are ignored.
///
/// Pure. Owner loop only.
class UnrecordedEpisodes {
 public:
  static constexpr std::size_t kRemembered = 1024;

  /// `resend`: timeout after which an unacknowledged episode is due again.
  explicit UnrecordedEpisodes(Nanos resend) : resend_{resend} {}

  /// Adds an episode that is sent for the first time.
  void add(FinishedEpisode episode, Nanos now);
  /// Episodes that were last sent at least `resend` ago, by number; counts them as sent. Pointers are valid
  /// until recorded().
  std::vector<const FinishedEpisode*> due(Nanos now);
  /// Records that these episodes are on disk.
  void recorded(std::span<const std::uint64_t> episodes);

  /// Whether the episode is unacknowledged or remembered.
  bool contains(std::uint64_t episode) const {
    return unrecorded_.contains(episode) || on_disk_.contains(episode);
  }
  /// True if all episodes are acknowledged.
  bool empty() const { return unrecorded_.empty(); }

 private:
  struct Unrecorded {
    FinishedEpisode episode;
    Nanos sent{0};
  };

  const Nanos resend_;
  std::map<std::uint64_t, Unrecorded> unrecorded_;  ///< Keyed by episode.
  std::deque<std::uint64_t> remembered_;            ///< Recent episodes on disk, oldest first.
  std::unordered_set<std::uint64_t> on_disk_;       ///< The same episodes, as a set.
};

}  // namespace emplace::actors
