#pragma once

#include <string>

#include "actors/dispatch/dispatch_counters.h"
#include "actors/dispatch/lease_scheduler.h"
#include "actors/dispatch/run_end.h"
#include "base/clock.h"
#include "messages/executor_control.h"
#include "messages/run_control.h"

namespace emplace::actors {

/// Progress of a dispatcher whose run started at `started`. Call it regularly, for the sake of
/// LeaseScheduler::executors_wanted(). Pure. Owner loop only.
messages::DispatchProgress progress_of(const DispatchCounters& counters, const RunEnd& end,
                                       LeaseScheduler& scheduler, Nanos started, Nanos now);

/// What a joining executor states about its machine, to be appended to a line: ", 8 cores, 2.50 GiB"; empty
/// if nothing is known.
std::string machine_of(const messages::ExecutorJoined& joined);

}  // namespace emplace::actors
