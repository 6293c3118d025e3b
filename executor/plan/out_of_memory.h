#pragma once
/// A step that ended because a device ran out of memory.

#include <cstdint>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"

namespace emplace {

struct OutOfMemory {
  /// Op whose output was allocated, or owner of the copied buffer; kNoOp: initial state.
  OpId op = kNoOp;
  DeviceId device{};
  std::int64_t asked = 0;  ///< Requested size [B].
  std::int64_t free = 0;   ///< Largest free block [B].
};

/// The error of a run on its own that such a step ends.
Error run_failed(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices);
/// The error of a profile of the whole graph on `device`.
Error profile_failed(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices, DeviceId device);

/// Fills `out` for a step without a time: not valid, and `failure` is "oom: OP on DEVICE requested N bytes,
/// the largest free block has M".
void write_out_of_memory(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices,
                         Measurement& out);

}  // namespace emplace
