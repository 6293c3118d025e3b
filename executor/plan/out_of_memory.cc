#include "executor/plan/out_of_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/text/words.h"

namespace emplace {

void write_out_of_memory(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices,
                         Measurement& out) {
  out.valid = false;
  out.step_time_s = 0;
  out.bytes_over = std::max<std::int64_t>(1, oom.asked - oom.free);
  const std::string owner = oom.op == kNoOp ? "state" : quoted_op(graph, oom.op);
  out.failure = fmt::format("oom: {} on {} requested {} bytes, the largest free block has {}", owner,
                            devices[oom.device].name, oom.asked, oom.free);
}

Error run_failed(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices) {
  Measurement full;
  write_out_of_memory(oom, graph, devices, full);
  return {Errc::kRunFailed, full.failure};
}

Error profile_failed(const OutOfMemory& oom, const OpGraph& graph, const DeviceSet& devices,
                     DeviceId device) {
  return {Errc::kRunFailed,
          fmt::format("profile: the graph does not fit on device {} alone ({}); increase its memory",
                      devices[device].name, run_failed(oom, graph, devices).context)};
}

}  // namespace emplace
