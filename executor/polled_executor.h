#pragma once
/// Measuring that takes seconds, for those who must not wait: begun, and then looked after.

#include <span>

#include "base/result.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// One evaluation at a time. Thread: one; no call blocks.
class PolledExecutor {
 public:
  virtual ~PolledExecutor() = default;
  /// @pre nothing is under way. `placement` [ops] is copied.
  virtual void begin(std::span<const DeviceId> placement) = 0;
  /// True: it is over, and `out` has what it cost; false: it goes on. Errors, which end it too: those of
  /// Executor::measure.
  virtual Result<bool> poll(Measurement& out) = 0;
  /// Nothing will be measured here any more; the last error said why.
  virtual bool broken() const = 0;
};

}  // namespace emplace
