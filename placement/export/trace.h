#pragma once
/// Writes a schedule as a Chrome trace, for Perfetto and chrome://tracing.

#include <filesystem>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/schedule.h"

namespace emplace::interop {

/// JSON, compressed if `path` ends in ".gz". Times are relative microseconds, in ascending order. Each
/// device is a process with one track for its ops and one for its copies; slices of a track never overlap.
/// A flow with a small id connects each copy with its reader's device. A counter per device has its memory
/// in bytes, if the schedule has it. The categories of ops are their phases, or `recompute`; those of copies
/// are `copy`, or `move` for tensors that wait on another device by a memory plan. Errors: kIo.
Result<Unit> write_trace(const std::filesystem::path& path, const OpGraph& graph, const DeviceSet& devices,
                         const Schedule& schedule);

}  // namespace emplace::interop
