#pragma once
/// Measures the cost of copies between two devices' memories.

#include <span>
#include <vector>

#include "base/clock.h"
#include "executor/cpu/device_memory.h"
#include "executor/cpu/worker_pool.h"
#include "executor/real_executor.h"

namespace emplace::cpu {

/// Fits time = latency + bytes / rate by Theil and Sen (the median of all slopes), which is robust against
/// a few disturbed points. @pre at least two different `bytes`
LinkCost fit_link(std::span<const double> bytes, std::span<const double> seconds);

/// Measures every ordered pair: the source's thread writes, the target's thread copies, for sizes of 1 KiB
/// to 16 MiB (or a quarter of the smaller memory). Overwrites the memories.
std::vector<LinkCost> probe_links(WorkerPool& pool, std::vector<DeviceMemory>& memory, const Clock& clock);

}  // namespace emplace::cpu
