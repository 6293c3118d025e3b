#include "actors/dispatch/dispatch_progress.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/text/words.h"
#include "base/units.h"
#include "runtime/core/lease.h"

namespace emplace::actors {

messages::DispatchProgress progress_of(const DispatchCounters& counters, const RunEnd& end,
                                       LeaseScheduler& scheduler, Nanos started, Nanos now) {
  const runtime::LeaseTable::Counters& leases = scheduler.leases().counters();
  messages::DispatchProgress progress;
  progress.episodes = std::max(counters.episodes, counters.committed);
  progress.measurements = counters.reported;
  progress.valid = counters.valid;
  progress.refused_results = counters.refused_results;
  progress.in_flight = static_cast<std::uint32_t>(counters.in_flight());
  progress.quarantined = static_cast<std::uint32_t>(scheduler.quarantined(now));
  progress.leases = {leases.issued, leases.committed, scheduler.leases().open(), leases.expired,
                     leases.superseded + leases.returned};
  progress.best_step_time_s = counters.best_step_time_s;
  progress.elapsed_s = std::chrono::duration<double>(now - started).count();
  progress.ending = end.reason();
  progress.executors = scheduler.executors().uses(now);
  progress.executors_wanted = end.started() ? 0 : scheduler.executors_wanted(now);
  return progress;
}

std::string machine_of(const messages::ExecutorJoined& joined) {
  std::string machine;
  if (joined.cores > 0) machine += ", " + std::to_string(joined.cores) + " cores";
  if (joined.memory_bytes > 0) machine += ", " + format_bytes(static_cast<std::int64_t>(joined.memory_bytes));
  if (!joined.version.empty()) machine += ", version " + printable(joined.version, 40);
  return machine;
}

}  // namespace emplace::actors
