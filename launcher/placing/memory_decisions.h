#pragma once
/// The decisions of a memory plan with what each frees and costs: `emplace explain`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/sim/simulator.h"
#include "launcher/placing/graph_options.h"
#include "launcher/terminal/json_text.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"

namespace emplace::launcher {

/// Decisions, and their sums by block: a scope up to a level that is a number ("layers/3"), else a scope,
/// else an op type. Thread: one. What it is made from must outlive it.
class MemoryDecisions {
 public:
  /// Prices all decisions of a plan, and simulates the step without those of each shown block. `planned`: the
  /// step with all of them, in issue order. `most`: blocks to show. Errors: those of the simulator.
  static Result<MemoryDecisions> priced(const UnplannedPlacement& unplanned, const Measurement& planned,
                                        const DeviceSet& devices, const SimulatorOptions& options,
                                        std::size_t most);

  /// A table of blocks, the dearest per byte first.
  std::string as_text() const;
  /// [{op, block, decision: "recompute" | "move", on, output and to (of a move), frees_bytes, time_s}].
  Json decisions_json() const;
  /// [{block, on: [devices], recomputed_ops, moved_tensors, frees_bytes, time_s, s_per_gib,
  /// kept: {step_time_s, peak_memory_bytes, valid}}]; s_per_gib is null where nothing is freed, kept where
  /// other decisions need these.
  Json blocks_json() const;

 private:
  struct Decision {
    OpId op{};
    std::size_t block = 0;             ///< Index into blocks_.
    std::optional<MovedTensor> moved;  ///< None: the op runs again.
    std::int64_t frees_bytes = 0;      ///< What would wait for the backward pass without it alone [B].
    double time_s = 0;                 ///< Time of the op, or of the copies away and back.
  };
  struct Block {
    std::string name;
    std::vector<DeviceId> on;  ///< Devices whose memory its decisions free, sorted.
    std::size_t recomputed = 0, moved = 0;
    std::int64_t frees_bytes = 0;  ///< What would wait without all of them [B].
    double time_s = 0;
    std::optional<Measurement> kept;  ///< The step without them; none: not shown, or not possible.
    double s_per_byte() const;        ///< Infinite if they free nothing.
  };

  MemoryDecisions(const UnplannedPlacement& unplanned, const Measurement& planned, const DeviceSet& devices)
      : unplanned_{unplanned}, planned_{planned}, devices_{devices} {}
  void collect();
  /// Leaves the dearest and the cheapest blocks, `most` in all.
  void show(std::size_t most);
  Result<Unit> simulate(const SimulatorOptions& options);

  const UnplannedPlacement& unplanned_;
  const Measurement& planned_;
  const DeviceSet& devices_;
  std::vector<Decision> decisions_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> shown_;  // Indices into blocks_, dearest first.
  std::size_t not_shown_ = 0;
};

}  // namespace emplace::launcher
