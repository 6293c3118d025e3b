#pragma once
/// The chain of ops and transfers that determined the step time.

#include "graph/lowering.h"
#include "placement/machine/device.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace {

/// Walks back from the run that ended last. An op starts when its last input has arrived or when the previous
/// op on its device has ended; a transfer starts when its tensor exists or when the copy engine and the
/// shared links of its route are free. The latest of these is the cause; in a tie, the input. If the cause
/// ended earlier (executors with overhead), the difference is a gap. O(ops + reads + transfers). Pure; any
/// thread. @pre `schedule` belongs to this graph and placement and contains each op and transfer once.
CriticalChain critical_chain(const LoweredGraph& lowered, const Placement& placement,
                             const Schedule& schedule, const DeviceSet& devices);

}  // namespace emplace
