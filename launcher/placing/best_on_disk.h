#pragma once
/// The best placement so far of a search that may be interrupted.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "graph/order.h"
#include "placement/placement.h"

namespace emplace::launcher {

/// Writes the best placement so far to disk, at most once a second: a search may improve hundreds of times in
/// its first second. Thread: any.
class BestOnDisk {
 public:
  using Write =
      std::function<void(const std::string& method, const Placement& placement, const OpOrder& order)>;
  BestOnDisk(const Clock& clock, Write write) : clock_{clock}, write_{std::move(write)} {}

  void update(const std::string& method, const Placement& placement, const OpOrder& order) {
    {
      const MutexLock lock{mutex_};
      method_ = method;
      pending_ = placement;
      order_ = order;
    }
    write_if_due();
  }
  void write_if_due() {
    const MutexLock lock{mutex_};
    if (pending_.empty()) return;
    const Nanos now = clock_.now();
    if (written_ && now - *written_ < std::chrono::seconds{1}) return;
    written_ = now;
    write_(method_, pending_, order_);
    pending_.clear();
  }

 private:
  const Clock& clock_;
  const Write write_;
  Mutex mutex_;
  std::string method_ EMPLACE_GUARDED_BY(mutex_);
  Placement pending_ EMPLACE_GUARDED_BY(mutex_);
  OpOrder order_ EMPLACE_GUARDED_BY(mutex_);
  std::optional<Nanos> written_ EMPLACE_GUARDED_BY(mutex_);
};

}  // namespace emplace::launcher
