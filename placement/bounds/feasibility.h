#pragma once
/// Proves that no placement fits in memory, without trying any. The proofs are in docs/proofs/bounds.md.

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

/// A lower bound of the memory that a class needs on the device that it is placed on.
struct ClassMemory {
  std::int64_t state_bytes = 0;  ///< State, held for the whole step [B].
  std::int64_t need_bytes = 0;   ///< State plus what its largest op reads and writes [B].
  OpId largest = kNoOp;          ///< The largest op; kNoOp if the class has no kernel.
};

/// [classes] O(ops + reads). Pure; any thread.
std::vector<ClassMemory> class_memory(const LoweredGraph& lowered, const Constraints& constraints);

/// [classes] The devices that can hold the class by itself. A placement with the class elsewhere does not
/// fit.
std::vector<DeviceMask> fitting_devices(const DeviceSet& devices, const Constraints& constraints,
                                        const std::vector<ClassMemory>& memory);

/// The proof that no placement fits.
struct MemoryShortfall {
  std::int64_t short_bytes = 0;  ///< Missing on the devices concerned [B], > 0.
  std::int64_t each_bytes = 0;   ///< Least memory per device with which this proof no longer applies [B].
  std::string what;              ///< Demand and available memory, as text.
};
/// `recomputes`: tensors may be made again, so that those that wait between ops prove nothing.
std::optional<MemoryShortfall> memory_shortfall(const OpGraph& graph, const DeviceSet& devices,
                                                const Constraints& constraints, bool recomputes = false);

/// Errors (kNoPlacement) if no placement provably fits: the shortfall in bytes, and the least memory that
/// each device concerned needs. Success does not imply that a placement fits. `recomputes`: as above.
Result<Unit> must_fit(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                      bool recomputes = false);

}  // namespace emplace
