#pragma once
/// Whether any placement can fit in memory at all, proven without trying one. docs/proofs/bounds.md has the
/// proofs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/lowering.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace {

/// What a class needs on whichever device it runs, at least.
struct ClassMemory {
  std::int64_t state_bytes = 0;  ///< There for the whole step.
  std::int64_t need_bytes = 0;   ///< With what its largest op reads and writes.
  OpId largest = kNoOp;          ///< That op; kNoOp if the class has no kernel.
};

/// [classes] O(ops + reads). Pure; any thread.
std::vector<ClassMemory> class_memory(const LoweredGraph& lowered, const Constraints& constraints);

/// [classes] The devices whose memory holds the class by itself: on no other can it be in a placement that
/// fits.
std::vector<DeviceMask> fitting_devices(const DeviceSet& devices, const Constraints& constraints,
                                        const std::vector<ClassMemory>& memory);

/// Proof that nothing fits.
struct MemoryShortfall {
  std::int64_t short_bytes = 0;  ///< Lacking on the devices concerned, > 0.
  std::int64_t each_bytes = 0;   ///< What the smallest device must have at least for anything to fit.
  std::string what;              ///< What needs how much, and who has how much.
};
std::optional<MemoryShortfall> memory_shortfall(const OpGraph& graph, const DeviceSet& devices,
                                                const Constraints& constraints);

/// Errors (kNoPlacement) if no placement fits: the shortfall in bytes, and the memory that each of the
/// devices concerned needs at least. No error does not mean that one fits.
Result<Unit> must_fit(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints);

}  // namespace emplace
