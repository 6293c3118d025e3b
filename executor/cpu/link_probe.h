#pragma once
/// What a copy between two devices' memories costs.

#include <span>
#include <vector>

#include "base/clock.h"
#include "executor/cpu/device_memory.h"
#include "executor/cpu/worker_pool.h"
#include "executor/real_executor.h"

namespace emplace::cpu {

/// time = latency + bytes / rate through the points, by Theil and Sen (the median of all slopes): a few
/// points that something disturbed do not move it. @pre at least two different `bytes`
LinkCost fit_link(std::span<const double> bytes, std::span<const double> seconds);

/// Every ordered pair: the source's thread writes, the target's copies, for sizes of 1 KiB to 16 MiB (or a
/// quarter of the smaller memory). What lies in the memories is lost.
std::vector<LinkCost> probe_links(WorkerPool& pool, std::vector<DeviceMemory>& memory, const Clock& clock);

}  // namespace emplace::cpu
