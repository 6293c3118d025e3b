#pragma once
/// A step that ended because a device was full.

#include <cstdint>

#include "base/ids.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"

namespace emplace {

struct OutOfMemory {
  OpId op =
      kNoOp;  ///< Whose output, or the owner of what was copied; kNoOp: state that is there from the start.
  DeviceId device{};
  std::int64_t asked = 0;  ///< [B]
  std::int64_t free = 0;   ///< [B] the largest stretch that was free.
};

/// Fills `out` for a step without a time: not valid, `failure` says "oom: OP on DEVICE asked N bytes, M
/// free".
void tell_out_of_memory(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices,
                        Measurement& out);

}  // namespace emplace
