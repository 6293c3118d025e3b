#include "executor/cuda/device/partition.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace emplace::cuda {
namespace {

/// A resource that the driver does not form is no failure of the device: it is not partitioned then.
Result<Unit> check_partition(Session& session, CUresult status, std::string_view what) {
  auto done = session.check(status, what);
  if (status != CUDA_ERROR_INVALID_RESOURCE_TYPE && status != CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
    return done;
  return Error{Errc::kUnsupported, done.error().context};
}

}  // namespace

Result<std::vector<Partition>> partition_gpu(Session& session, int physical, unsigned parts) {
  const DriverApi& driver = session.api().driver;
  if (driver.DeviceGetDevResource == nullptr || driver.DevSmResourceSplitByCount == nullptr ||
      driver.DevResourceGenerateDesc == nullptr || driver.GreenCtxCreate == nullptr ||
      driver.CtxFromGreenCtx == nullptr || driver.GreenCtxStreamCreate == nullptr ||
      driver.CtxSetCurrent == nullptr)
    return Error{Errc::kUnsupported,
                 "the driver has no green contexts with streams; CUDA 12.5 introduced them"};
  CUdevice device = 0;
  EMPLACE_TRY(session.check(driver.DeviceGet(&device, physical), "cuDeviceGet"));
  CUdevResource whole{};
  EMPLACE_TRY(session.check(driver.DeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM),
                            "cuDeviceGetDevResource"));
  // Minimum size of each part; the driver rounds it up to its granularity.
  const unsigned alignment = whole.sm.smCoscheduledAlignment > 0 ? whole.sm.smCoscheduledAlignment : 1;
  unsigned least = whole.sm.smCount / parts / alignment * alignment;
  if (least < whole.sm.minSmPartitionSize || least == 0)
    return Error{Errc::kUnsupported, fmt::format("GPU {}: {} multiprocessors cannot be split into {} parts",
                                                 physical, whole.sm.smCount, parts)};
  std::vector<CUdevResource> groups;
  unsigned count = 0, most = 0;
  // The driver may form fewer groups than fit by their sizes, so smaller ones are tried.
  for (; least >= whole.sm.minSmPartitionSize && least > 0; least -= alignment) {
    groups.assign(parts, {});
    count = parts;
    CUdevResource rest{};
    EMPLACE_TRY(check_partition(
        session, driver.DevSmResourceSplitByCount(groups.data(), &count, &whole, &rest, 0, least),
        "cuDevSmResourceSplitByCount"));
    if (count >= parts) break;
    most = std::max(most, count);
  }
  if (count < parts)
    return Error{Errc::kUnsupported,
                 fmt::format("GPU {} can be split into {} parts only, not {}", physical, most, parts)};
  std::vector<Partition> out;
  const auto make = [&](CUdevResource& group) -> Result<Unit> {
    CUdevResourceDesc description = nullptr;
    Partition partition{.processors = static_cast<int>(group.sm.smCount)};
    EMPLACE_TRY(check_partition(session, driver.DevResourceGenerateDesc(&description, &group, 1),
                                "cuDevResourceGenerateDesc"));
    EMPLACE_TRY(check_partition(
        session, driver.GreenCtxCreate(&partition.green, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
        "cuGreenCtxCreate"));
    out.push_back(partition);
    return session.check(driver.CtxFromGreenCtx(&out.back().context, partition.green), "cuCtxFromGreenCtx");
  };
  for (unsigned i = 0; i < parts; ++i) {
    if (auto done = make(groups[i]); !done) {
      for (const Partition& made : out)
        session.give_back([&](const CudaApi& api) { return api.driver.GreenCtxDestroy(made.green); });
      return done.error();
    }
  }
  return out;
}

}  // namespace emplace::cuda
