#pragma once
/// The event-driven simulator: one training step of a placed graph, exact about dispatch order, per-device
/// queues, links and memory by lifetime.

#include <cstdint>
#include <memory>
#include <span>

#include "base/settings.h"
#include "executor/executor.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace {

/// Which of a device's ready ops runs first.
enum class Dispatch : std::uint8_t {
  kProgram,  ///< The lowest id: the order in which the framework issued them. Decides memory, so it is the
             ///< default.
  kFifo,     ///< The one that became ready first.
};
constexpr auto enum_words(Dispatch) {
  return EnumWords{"dispatch",
                   std::array{EnumWord{Dispatch::kProgram, "program"}, EnumWord{Dispatch::kFifo, "fifo"}}};
}

struct SimulatorOptions {
  Dispatch dispatch = Dispatch::kProgram;
  /// Remembers a step, and simulates of the next ones only what their difference to it changes: for who
  /// measures placements that differ in little, whether the differences stay or are taken back. The results
  /// are the same, bit for bit.
  bool incremental = false;
};

/// The default model (docs/reference/measurement.md). One op at a time per device; one outgoing copy engine
/// per device, FIFO, held for latency + bytes / bandwidth; copies overlap ops; one copy per (buffer, target
/// device). Times are int64 ns. Memory: state resident where it is placed; a tensor lives from the start of
/// its op to the end of its last reader or outgoing copy; a copy lives at the target from the start of its
/// transfer to the end of its last reader there.
///
/// Thread: construct anywhere, then one thread at a time; simulators of one graph share nothing mutable.
/// `graph`, `devices` and `constraints` must outlive it. No allocation per evaluation after the first
/// few.
class Simulator final : public Executor {
 public:
  Simulator(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions options = {});
  ~Simulator() override;
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  std::string_view kind() const override { return "sim"; }
  /// Errors: kInvalid if the length is not the number of ops or a device is out of range.
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;
  /// The same, and when everything happened.
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule);

  const CostTable& costs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace
