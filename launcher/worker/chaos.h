#pragma once
/// Fault injection for tests: every Nth measurement of an executor crashes, hangs, runs out of memory or
/// loses its device.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"

namespace emplace::launcher {

/// Intervals of the failures; 0: never. If several are due, the first in this order happens.
struct ChaosPlan {
  std::uint64_t crash_every = 0, hang_every = 0, poison_every = 0, oom_every = 0;
  bool any() const { return crash_every + hang_every + poison_every + oom_every > 0; }
};

/// Parses "crash-every=7,hang-every=31,poison-every=11,oom-every=5"; empty: no failures. Errors (kInvalid):
/// an unknown word, or not a whole number.
Result<ChaosPlan> parse_chaos(std::string_view text);

/// Makes measurement `number` fail if the plan demands it: ends the process, hangs, or sets `out` to a
/// measurement that ran out of memory. Returns false if it shall not fail. The parent counts from 1 across
/// restarts, so that a restarted process does not start at 1 again. Errors: kDeviceLost.
Result<bool> inject_failure(const ChaosPlan& plan, std::uint64_t number, std::span<const DeviceId> placement,
                            const OpGraph& graph, const DeviceSet& devices, Measurement& out);

}  // namespace emplace::launcher
