#pragma once
/// A schedule as a Chrome trace, which Perfetto and chrome://tracing open.

#include <filesystem>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/schedule.h"

namespace emplace::record {

/// JSON, packed if `path` ends in ".gz": relative microseconds as numbers, sorted; one process per device
/// with a track for its ops and one for its outgoing copies, neither ever overlapping itself; each copy is
/// tied to its reader's device by a flow with a small id. Errors: kIo.
Result<Unit> write_trace(const std::filesystem::path& path, const OpGraph& graph, const DeviceSet& devices,
                         const Schedule& schedule);

}  // namespace emplace::record
