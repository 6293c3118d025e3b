#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "messages/log.h"
#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

/// Episode that was proposed and has not ended.
struct Outstanding {
  policy::Actions actions;          ///< Empty if an earlier incarnation of the sampler drew it.
  std::optional<Placement> critic;  ///< Likeliest placement at that time, if it is measured too.
  std::uint64_t version = 0;        ///< Version of the parameters that drew it.
  Nanos since{0};                   ///< Time of the proposal or of the last question about it.
  bool recorded = false;            ///< On disk; waits to be learned from.
};

/// Episode numbers of a sampler: the next one, the outstanding ones, and lost ones of earlier incarnations,
/// which are drawn again. Controller c of n proposes c, c + n, c + 2n, … Pure; one thread.
class OwnEpisodes {
 public:
  /// `limit`: first number that is not proposed; 0: no limit.
  OwnEpisodes(std::uint32_t controllers, std::uint32_t max_outstanding, std::uint64_t limit)
      : controllers_{controllers}, max_outstanding_{max_outstanding}, limit_{limit} {}

  /// Restores the state from the recorder's answer. Nothing may be proposed before.
  void start(const messages::EpisodesKnown& known, Nanos now);
  bool started() const { return started_; }

  std::uint64_t next() const { return again_.empty() ? next_ : again_.front(); }
  bool may_propose() const {
    return started_ && outstanding_.size() < max_outstanding_ && (limit_ == 0 || next() < limit_);
  }
  /// Records that next() was proposed.
  void proposed(Outstanding drawn);
  /// Ends an episode that was learned from (or, without learning, committed). Returns false if not
  /// outstanding.
  bool end(std::uint64_t episode) { return outstanding_.erase(episode) > 0; }
  /// Marks an outstanding episode as on disk.
  void recorded(std::uint64_t episode);
  /// Outstanding episode that is not known to be on disk, or null.
  const Outstanding* unrecorded(std::uint64_t episode) const;
  bool is_outstanding(std::uint64_t episode) const { return outstanding_.contains(episode); }
  bool none_outstanding() const { return outstanding_.empty(); }
  /// Outstanding episodes without news for `timeout`, each reported once per timeout.
  std::vector<std::uint64_t> late(Nanos now, Nanos timeout);
  /// Whether an earlier incarnation may have proposed this episode with other actions.
  bool may_be_drawn_before(std::uint64_t episode) const { return episode < own_from_; }

 private:
  const std::uint32_t controllers_, max_outstanding_;
  const std::uint64_t limit_;
  bool started_ = false;
  std::uint64_t next_ = 0;
  std::uint64_t own_from_ = 0;
  std::deque<std::uint64_t> again_;  // Lost episodes of earlier incarnations.
  std::map<std::uint64_t, Outstanding> outstanding_;
};

}  // namespace emplace::actors
