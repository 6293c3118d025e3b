#include "executor/split/split_memory.h"

#include <algorithm>
#include <limits>

namespace emplace {

Simulator& SplitMemory::simulator() {
  if (!simulator_) simulator_ = std::make_unique<Simulator>(*graph_, *devices_, options_);
  return *simulator_;
}

Result<Unit> SplitMemory::measure(const SplitCosts& costs, std::span<const DeviceId> placement,
                                  Measurement& out) {
  out.peak_bytes = costs.held_bytes(placement);
  if (!costs.published()) {
    EMPLACE_TRY(simulator().measure(placement, step_));
    for (std::size_t d = 0; d < out.peak_bytes.size(); ++d)
      out.peak_bytes[d] = std::max(out.peak_bytes[d], step_.peak_bytes[d]);
  }
  out.bytes_over = costs.over_caps(out.peak_bytes);
  return Unit{};
}

Result<std::int64_t> SplitMemory::step_over(std::span<const DeviceId> placement) {
  EMPLACE_TRY_ASSIGN(const auto cost,
                     simulator().measure_within(placement, std::numeric_limits<double>::infinity()));
  return cost->bytes_over;
}

}  // namespace emplace
