#include "launcher/settings/executor_gpus.h"

#include <algorithm>

#include "launcher/worker/gpu_lease.h"

namespace emplace::launcher {
namespace {

/// The device set of the run that needs the most GPUs.
const DeviceSet& largest_set(const actors::Task& task) {
  const auto gpus = [](const actors::TaskGraph& one) {
    return gpus_per_executor(one.devices, one.devices.size());
  };
  return std::max_element(task.graphs.begin(), task.graphs.end(),
                          [&](const auto& a, const auto& b) { return gpus(a) < gpus(b); })
      ->devices;
}

}  // namespace

Result<Unit> count_by_gpus(RunConfig& config, const actors::Task& task) {
  if (config.executor.count != 0) return Unit{};
  EMPLACE_TRY_ASSIGN(config.executor.count, executors_by_gpus(GpuSources::real(), largest_set(task)));
  return Unit{};
}

Result<Unit> check_gpus(const RunConfig& config, const actors::Task& task, std::uint32_t executors) {
  if (config.executor.kind != "cuda") return Unit{};
  return check_gpu_leases(GpuSources::real(), largest_set(task), executors);
}

std::string shared_gpus_note(const RunConfig& config, std::uint32_t executors) {
  if (config.executor.kind != "cuda" || executors < 2) return {};
  const LeasableGpus leasable = leasable_gpus(GpuSources::real());
  if (!leasable.uuids.empty()) return {};
  return "executor 'cuda': executors may share GPUs and time each other, since " + leasable.why_none;
}

}  // namespace emplace::launcher
