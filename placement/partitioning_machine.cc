#include "placement/partitioning_machine.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/formats/partitioning/dnn_partitioning.h"
#include "placement/machine/machine_text.h"

namespace emplace {
namespace {

constexpr std::int64_t kCpuMemory = std::int64_t{1} << 50;  // No limit: workloads do not specify it.

/// Every op has measured times, so the rates have no effect.
Profile profile(std::string name, std::string kind, std::int64_t memory_bytes) {
  Profile profile{.name = std::move(name), .kind = std::move(kind), .memory_bytes = memory_bytes};
  profile.peak_gflops = profile.matrix_peak_gflops = profile.bandwidth_gbs = 1;
  profile.efficiency.fill(1);
  return profile;
}

}  // namespace

Result<std::optional<DeviceSet>> machine_of(const OpGraph& graph, Objective objective, Reserve reserve,
                                            CostVersion costs) {
  const nlohmann::json meta = nlohmann::json::parse(graph.meta_json(), nullptr, false);
  if (meta.is_object() && meta.contains("machine")) {
    if (!meta["machine"].is_string())
      return invalid("meta.machine", "is not a text",
                     "write the content of a device file, or pass --devices");
    EMPLACE_TRY_ASSIGN(auto own, parse_recorded_devices(meta["machine"].get_ref<const std::string&>(),
                                                        "meta.machine", reserve, costs));
    return std::optional<DeviceSet>{std::move(own)};
  }
  if (!is_workload(graph)) return std::optional<DeviceSet>{};
  const auto& machine = meta["partitioning"];
  const auto whole = [&](const char* key) -> std::int64_t {
    const auto it = machine.is_object() ? machine.find(key) : machine.end();
    return it != machine.end() && it->is_number_integer() ? it->get<std::int64_t>() : -1;
  };
  const std::int64_t accelerators = whole("accelerators"), cpus = whole("cpus"),
                     memory = whole("memory_bytes");
  if (!machine.is_object() || accelerators < 0 || cpus < 0 || memory < 0 || accelerators > 255 || cpus > 255)
    return invalid("meta.partitioning", "is not {accelerators, cpus, memory_bytes}",
                   "import the workload again, or pass --devices");
  const auto free =
      static_cast<std::int64_t>(static_cast<double>(memory) * (1 - reserve.share)) - reserve.bytes;
  std::vector<Device> devices;
  const Profile accelerator = profile("accelerator", "gpu", memory), core = profile("cpu", "cpu", kCpuMemory);
  for (std::int64_t i = 0; i < accelerators; ++i)
    devices.push_back({fmt::format("accel:{}", i), accelerator, free, {}});
  const std::int64_t shown = objective == Objective::kLatency ? 1 : cpus;
  for (std::int64_t i = 0; i < shown; ++i)
    devices.push_back({fmt::format("cpu:{}", i), core, kCpuMemory, {}});
  EMPLACE_TRY_ASSIGN(auto set, DeviceSet::make(std::move(devices), Link{kPartitioningBytesPerUs * 1e6, 0}));
  return std::optional<DeviceSet>{std::move(set)};
}

bool is_workload(const OpGraph& graph) {
  const nlohmann::json meta = nlohmann::json::parse(graph.meta_json(), nullptr, false);
  return meta.is_object() && meta.contains("partitioning");
}

}  // namespace emplace
