#pragma once
/// Time that only a test moves.

#include "base/clock.h"

namespace emplace {

/// A clock that moves only by advance(), for tests and simulated worlds. One thread.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Nanos now() const override { return now_; }
  [[nodiscard]] Nanos wall() const override { return now_; }
  void advance(Nanos by) { now_ += by; }

 private:
  Nanos now_{0};
};

}  // namespace emplace
