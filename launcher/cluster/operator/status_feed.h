#pragma once
/// The status of a run, requested from its head while it is wanted.

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "launcher/cluster/operator/operator.h"
#include "messages/status.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// Requests the status of a run once a second, on a thread of its own, and survives every end of the head: a
/// later head at the same endpoint is asked in the same way. Sends no request while the status is not wanted.
class StatusFeed {
 public:
  /// Receives each status. Thread: the feed's.
  using Show = std::function<void(const messages::StatusDelivered&)>;
  /// `on_over` is called once the head has announced that no other head follows. Thread: the feed's.
  StatusFeed(HeadAccess head, Show show, std::function<void()> on_over);
  ~StatusFeed();
  StatusFeed(const StatusFeed&) = delete;
  StatusFeed& operator=(const StatusFeed&) = delete;

  /// Wants the status for the next kWanted. Thread: any.
  void want() { wanted_until_ = clock_.now() + kWanted; }

 private:
  static constexpr std::chrono::seconds kWanted{5};
  void run();
  bool wanted() const { return clock_.now() < wanted_until_.load(); }

  const HeadAccess head_;
  const Show show_;
  const std::function<void()> on_over_;
  const SystemClock clock_;
  std::atomic<Nanos> wanted_until_{Nanos{0}};
  Mutex mutex_;
  runtime::Node* node_ EMPLACE_GUARDED_BY(mutex_) = nullptr;
  bool ending_ EMPLACE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace emplace::launcher
