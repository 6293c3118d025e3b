#pragma once
/// How many tasks of a batch system's job array may run, by the demand for executors.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace emplace::launcher {

struct ThrottleOptions {
  std::uint32_t max_tasks = 1;
  std::uint32_t executors_per_task = 1;
  /// Shortest time between two changes: each costs the batch system's controller a request.
  Nanos between_changes = std::chrono::seconds{2};
  /// How long a demand counts after it fell: a task that leaves and comes back waits for the batch system.
  Nanos memory = std::chrono::seconds{10};
};

/// Number of tasks for the highest demand of the last `memory`: more tasks at once, fewer only after the
/// demand was lower for that long, and no two changes within `between_changes`. Pure; one thread. Times never
/// go back.
class ArrayThrottle {
 public:
  explicit ArrayThrottle(ThrottleOptions options) : options_{options} {}

  /// Returns the number of tasks to request now, or nothing if no change is due. `executors`: the demand that
  /// the tasks are to meet, beside other executors. Call it regularly.
  std::optional<std::uint32_t> change(std::uint32_t executors, Nanos now) {
    const std::uint32_t each = std::max(options_.executors_per_task, 1u);
    const std::uint32_t tasks =
        std::min(options_.max_tasks, executors / each + (executors % each > 0 ? 1 : 0));
    // The newest demand stays; a demand that a newer one reaches no longer matters.
    while (!highest_.empty() && highest_.back().second <= tasks) highest_.pop_back();
    highest_.emplace_back(now, tasks);
    while (now - highest_.front().first > options_.memory) highest_.pop_front();
    const std::uint32_t wanted = highest_.front().second;
    if (wanted == requested_ || (changed_ && now - *changed_ < options_.between_changes)) return std::nullopt;
    requested_ = wanted;
    changed_ = now;
    return wanted;
  }

  /// Call when the array was submitted again: it has its first number of tasks.
  void restart() { requested_ = kFirst, changed_.reset(); }

  static constexpr std::uint32_t kFirst = 1;  ///< Tasks of an array that was just submitted.

 private:
  const ThrottleOptions options_;
  std::deque<std::pair<Nanos, std::uint32_t>> highest_;  // Falling demands, each the highest since its time.
  std::uint32_t requested_ = kFirst;
  std::optional<Nanos> changed_;
};

}  // namespace emplace::launcher
