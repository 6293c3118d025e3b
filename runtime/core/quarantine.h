#pragma once
/// Quarantine of executors by their results. One bad executor must not end a run, and one bad range of work
/// must not be retried for ever.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "messages/envelope.h"
#include "runtime/core/restart.h"

namespace emplace::runtime {

struct QuarantineOptions {
  double strikes = 3;          ///< Failures, less forgiveness, at which an executor is quarantined.
  double forgiveness = 0.125;  ///< Amount that a good result takes off the strikes.
  Nanos first = std::chrono::seconds{1};    ///< Duration of the first quarantine; each further one doubles.
  Nanos longest = std::chrono::minutes{5};  ///< Upper bound of the duration.
  std::uint32_t redeemed = 100;             ///< Good results in a row that reset the duration.
  std::uint32_t attempts = 5;               ///< Failures of one range after which the run may end.
  Nanos hopeless_after = std::chrono::seconds{10};  ///< Time over which these failures must have occurred.
  std::size_t remembered = 4'096;  ///< Capacity for absent executors with strikes or quarantines.
};

/// Keyed by executor and by range of work. Rules:
///
/// - An executor with `strikes` failures is quarantined: it gets no work. Afterwards it is on probation and
///   gets one range at a time. A good result makes it a full member again; a failure quarantines it for twice
///   as long. Leaving and joining again does not change this.
/// - A failed range goes to other executors at once, and to the same one after a pause that doubles each
///   time.
/// - The run ends, by hopeless(), if for `hopeless_after` no present executor was a full member and all have
///   failed on probation, or if every full member failed the same range, over at least `hopeless_after` and
///   `attempts` times in all. So one executor that works keeps a run alive, however many others fail.
///
/// Pure; one thread. Times never go back.
class Quarantine {
 public:
  using Id = messages::ActorId;

  explicit Quarantine(QuarantineOptions options = {}) : options_{options} {}

  void join(Id id, Nanos now) {
    Standing& standing = standings_[id];
    if (std::exchange(standing.present, true)) return;
    absent_.erase(standing.left);
    count(now);
  }
  void leave(Id id, Nanos now) {
    const auto found = standings_.find(id);
    if (found == standings_.end() || !found->second.present) return;
    Standing& standing = found->second;
    standing.present = false;
    if (standing.strikes == 0 && standing.level == 0) {
      standings_.erase(found);
    } else {
      remember(id, standing);
    }
    count(now);
  }

  /// Returns false if the executor is quarantined, on probation with work in hand (`idle` is false), or
  /// failed this range recently.
  bool may_take(std::uint64_t range, Id id, bool idle, Nanos now) const {
    const auto found = standings_.find(id);
    if (found != standings_.end() && found->second.suspect && (now < found->second.until || !idle))
      return false;
    const auto failed = ranges_.find(range);
    if (failed == ranges_.end()) return true;
    const auto by = failed->second.by.find(id);
    return by == failed->second.by.end() || now >= by->second.again;
  }

  /// Records a failure of the range, or an invalid result. Returns true if this starts a quarantine.
  bool failed(std::uint64_t range, Id id, std::string why, Nanos now) {
    Range& one = ranges_.try_emplace(range, Range{.first = now}).first->second;
    ++one.failures;
    By& by = one.by[id];
    by.again = now + pause(by.failures++);
    one.why = last_failure_ = std::move(why);
    Standing& standing = standing_of(id);
    standing.good = 0;
    standing.strikes += 1;
    if (standing.suspect && now < standing.until) return false;  // Left over from before the quarantine.
    if (!standing.suspect && standing.strikes < options_.strikes) return false;
    standing.relapsed = standing.suspect;
    standing.suspect = true;
    standing.strikes = 0;
    standing.until = now + pause(standing.level++);
    count(now);
    return true;
  }
  /// Records a result that counts.
  void succeeded(std::uint64_t range, Id id, Nanos now) {
    ranges_.erase(range);
    const auto found = standings_.find(id);
    if (found == standings_.end()) return;
    Standing& standing = found->second;
    standing.strikes = std::max(standing.strikes - options_.forgiveness, 0.0);
    if (++standing.good >= options_.redeemed) standing.level = 0;
    if (!standing.suspect || now < standing.until) return;
    standing.suspect = standing.relapsed = false;
    standing.strikes = 0;
    count(now);
  }

  /// Number of present executors in quarantine.
  std::size_t quarantined(Nanos now) const {
    return static_cast<std::size_t>(std::count_if(standings_.begin(), standings_.end(), [&](const auto& one) {
      return one.second.present && one.second.suspect && now < one.second.until;
    }));
  }
  /// End of the quarantine or start of probation of this executor; empty if it is a full member.
  std::optional<Nanos> until(Id id) const {
    const auto found = standings_.find(id);
    if (found == standings_.end() || !found->second.suspect) return std::nullopt;
    return found->second.until;
  }
  /// Last failure if the run must end (rules above); empty if it continues.
  std::optional<std::string> hopeless(Nanos now) const {
    if (without_members_ && now - *without_members_ >= options_.hopeless_after && !recoverable_)
      return last_failure_;
    for (const auto& [number, range] : ranges_)
      if (range.failures >= options_.attempts && now - range.first >= options_.hopeless_after &&
          every_member_failed(range))
        return range.why;
    return std::nullopt;
  }

 private:
  struct Standing {
    double strikes = 0;
    std::uint32_t level = 0;  ///< Quarantines so far.
    std::uint32_t good = 0;   ///< Good results in a row.
    bool suspect = false;     ///< Quarantined until `until`, then on probation.
    bool relapsed = false;    ///< Failed on probation, without a good result since.
    bool present = false;
    Nanos until{0};
    std::uint64_t left = 0;  ///< Its key in absent_.
  };
  struct By {
    std::uint32_t failures = 0;
    Nanos again{0};
  };
  struct Range {
    Nanos first{0};
    std::uint32_t failures = 0;
    std::map<Id, By> by = {};
    std::string why = {};
  };

  Nanos pause(std::uint32_t before) const {
    return doubled(options_.first, static_cast<int>(std::min(before, 64u)), options_.longest);
  }
  /// Standing of an executor, present or absent.
  Standing& standing_of(Id id) {
    const auto [found, added] = standings_.try_emplace(id);
    if (added) remember(id, found->second);
    return standings_[id];
  }
  /// Remembers an absent executor; forgets the one that left first if there are too many.
  void remember(Id id, Standing& standing) {
    standing.left = ++turn_;
    absent_.emplace(standing.left, id);
    if (absent_.size() <= std::max<std::size_t>(options_.remembered, 1)) return;
    standings_.erase(absent_.begin()->second);
    absent_.erase(absent_.begin());
  }
  bool every_member_failed(const Range& range) const {
    bool any = false;
    for (const auto& [id, standing] : standings_) {
      if (!standing.present || standing.suspect) continue;
      if (!range.by.contains(id)) return false;
      any = true;
    }
    return any;
  }
  /// Updates without_members_ and recoverable_. An executor quarantined only once may still recover.
  void count(Nanos now) {
    bool any = false, member = false;
    recoverable_ = false;
    for (const auto& [id, standing] : standings_) {
      if (!standing.present) continue;
      any = true;
      member |= !standing.suspect;
      recoverable_ |= !standing.relapsed;
    }
    if (!any || member) return without_members_.reset();
    if (!without_members_) without_members_ = now;
  }

  QuarantineOptions options_;
  std::map<Id, Standing> standings_;
  std::map<std::uint64_t, Id> absent_;  ///< Absent executors with strikes or quarantines, oldest first.
  std::map<std::uint64_t, Range> ranges_;
  std::optional<Nanos> without_members_;  ///< Time since which no present executor is a full member.
  bool recoverable_ = false;              ///< A present executor has not failed on probation.
  std::string last_failure_;
  std::uint64_t turn_ = 0;
};

}  // namespace emplace::runtime
