#pragma once
/// Fault injection for tests: every Nth measurement of an executor crashes, hangs, runs out of memory or
/// loses its device.

#include <memory>
#include <string_view>

#include "base/result.h"
#include "executor/real_executor.h"

namespace emplace::launcher {

/// Intervals of the failures; 0: never. If several are due, the first in this order happens.
struct ChaosPlan {
  std::uint64_t crash_every = 0, hang_every = 0, poison_every = 0, oom_every = 0;
  bool any() const { return crash_every + hang_every + poison_every + oom_every > 0; }
};

/// Parses "crash-every=7,hang-every=31,poison-every=11,oom-every=5"; empty: no failures. Errors (kInvalid):
/// an unknown word, or not a whole number.
Result<ChaosPlan> parse_chaos(std::string_view text);

/// A real executor that injects the failures of a plan. Thread: as Executor.
class ChaosExecutor final : public RealExecutor {
 public:
  ChaosExecutor(std::unique_ptr<RealExecutor> inner, ChaosPlan plan, const OpGraph& graph,
                const DeviceSet& devices);
  /// Sets the number of the next measurement, from 1. The parent counts across restarts, so that a restarted
  /// process does not start at 1 again.
  void set_number(std::uint64_t number) { number_ = number; }

  std::string_view kind() const override { return inner_->kind(); }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override {
    return inner_->trace(placement, out, schedule);
  }
  Result<Verification> verify(std::span<const DeviceId> placement) override {
    return inner_->verify(placement);
  }
  Result<ExecutorProfile> profile() override { return inner_->profile(); }
  std::vector<std::string> notes() const override { return inner_->notes(); }
  void expect(std::span<const DeviceId> placement) override { inner_->expect(placement); }
  std::vector<std::string> synthetic_types() const override { return inner_->synthetic_types(); }

 private:
  const std::unique_ptr<RealExecutor> inner_;
  const ChaosPlan plan_;
  const OpGraph& graph_;
  const DeviceSet& devices_;
  std::uint64_t number_ = 0;
};

}  // namespace emplace::launcher
