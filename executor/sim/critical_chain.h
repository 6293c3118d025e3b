#pragma once
/// What decided how long a step took.

#include "graph/lowering.h"
#include "placement/machine/device.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace {

/// Walks back from what ended last: an op began when the last thing it reads was there, or when the op before
/// it on its device had ended; a transfer when its tensor was made, or the copy engine came free. The later
/// of the two is the cause; of two at one moment, the input. Where the cause ended earlier (an executor that
/// takes its time), the rest is a gap. O(ops + reads + transfers). Pure; any thread.
/// @pre `schedule` is of this graph and placement, each of its ops and transfers once.
CriticalChain critical_chain(const LoweredGraph& lowered, const Placement& placement,
                             const Schedule& schedule, CopyEngine copies = CopyEngine::kSource);

}  // namespace emplace
