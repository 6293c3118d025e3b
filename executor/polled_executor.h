#pragma once
/// Asynchronous measurement for callers that must not block.

#include <span>

#include "base/result.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// One evaluation at a time. Thread: one; no call blocks.
class PolledExecutor {
 public:
  virtual ~PolledExecutor() = default;
  /// Starts a measurement of `placement` [ops]. `next` [ops] is the placement that is probably measured after
  /// it, which may be prepared meanwhile; empty: unknown. Both are copied. @pre no measurement is in
  /// progress.
  virtual void start(std::span<const DeviceId> placement, std::span<const DeviceId> next) = 0;
  /// Returns true and fills `out` when the measurement is complete; false while it is running. Errors end the
  /// measurement; they are those of Executor::measure.
  virtual Result<bool> poll(Measurement& out) = 0;
  /// True if no further measurement is possible; the last error states the reason.
  virtual bool broken() const = 0;
};

}  // namespace emplace
