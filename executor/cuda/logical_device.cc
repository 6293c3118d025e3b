#include "executor/cuda/logical_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/units.h"
#include "executor/cuda/partition.h"

namespace emplace::cuda {

LogicalDevice::~LogicalDevice() {
  if (session_.poisoned()) return;
  (void)make_current();  // The cleanup below does not depend on it.
  if (dnn_ != nullptr) session_.give_back([&](const CudaApi& api) { return api.dnn.Destroy(dnn_); });
  if (blas_ != nullptr) session_.give_back([&](const CudaApi& api) { return api.blas.Destroy(blas_); });
  for (const cudaStream_t stream : streams_)
    if (stream != nullptr)
      session_.give_back([&](const CudaApi& api) { return api.runtime.StreamDestroy(stream); });
  if (memory_ != nullptr) session_.give_back([&](const CudaApi& api) { return api.runtime.Free(memory_); });
  if (green_ == nullptr) return;
  session_.give_back([](const CudaApi& api) { return api.driver.CtxSetCurrent(nullptr); });
  session_.give_back([&](const CudaApi& api) { return api.driver.GreenCtxDestroy(green_); });
}

Result<Unit> LogicalDevice::make_current() const {
  if (context_ == nullptr)
    return session_.check(session_.api().runtime.SetDevice(physical_), "cudaSetDevice");
  return session_.check(session_.api().driver.CtxSetCurrent(context_), "cuCtxSetCurrent");
}

Result<Unit> LogicalDevice::open(std::int64_t bytes) {
  EMPLACE_TRY(make_current());
  const CudaApi& api = session_.api();
  for (cudaStream_t& stream : streams_) {
    if (green_ == nullptr) {
      EMPLACE_TRY(session_.check(api.runtime.StreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                 "cudaStreamCreate"));
    } else {
      EMPLACE_TRY(session_.check(api.driver.GreenCtxStreamCreate(&stream, green_, CU_STREAM_NON_BLOCKING, 0),
                                 "cuGreenCtxStreamCreate"));
    }
  }
  if (api.blas.Create != nullptr) EMPLACE_TRY(session_.check(api.blas.Create(&blas_), "cublasLtCreate"));
  if (api.dnn.Create != nullptr) {
    EMPLACE_TRY(session_.check(api.dnn.Create(&dnn_), "cudnnCreate"));
    EMPLACE_TRY(session_.check(api.dnn.SetStream(dnn_, stream(StreamKind::kCompute)), "cudnnSetStream"));
  }
  void* memory = nullptr;
  EMPLACE_TRY(session_.check(api.runtime.Malloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc"));
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return Unit{};
}

Lane LogicalDevice::lane(StreamKind kind) const {
  const bool compute = kind == StreamKind::kCompute;  // Library handles belong to one stream.
  // The fast engines of large convolutions change layouts, which takes room; a small device has none to
  // spare.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::int64_t workspace =
      std::max(std::min(kMost, bytes_ / 16), static_cast<std::int64_t>(kMaxWorkspace));
  return {&session_,   stream(kind), compute ? blas_ : nullptr, compute ? dnn_ : nullptr,
          processors_, workspace};
}

namespace {

/// Bytes of each device of `mine` on a GPU with `free` bytes. A device file without `memory` gives a device
/// that of its profile, which is the memory on the card's label: such devices share what the others leave,
/// less a reserve for library code that is loaded later. Errors: kUnsupported if the devices do not fit.
Result<std::vector<std::int64_t>> share_memory(std::span<const Device* const> mine, std::int64_t free,
                                               int physical) {
  constexpr std::int64_t kReserve = std::int64_t{1} << 30;
  std::vector<std::int64_t> bytes;
  std::int64_t wanted = 0, given = 0, flexible = 0;
  for (const Device* device : mine) {
    const bool from_profile = device->memory_bytes == device->profile.memory_bytes;
    bytes.push_back(device->memory_bytes);
    wanted += device->memory_bytes;
    (from_profile ? flexible : given) += from_profile ? 1 : device->memory_bytes;
  }
  if (wanted <= free) return bytes;
  const std::int64_t room = free - std::min(kReserve, free / 8) - given;
  if (flexible == 0 || room <= 0)
    return Error{
        Errc::kUnsupported,
        fmt::format("GPU {} has {} free, but its devices need {}; lower their memory in the device file",
                    physical, format_bytes(free), format_bytes(wanted))};
  for (std::size_t i = 0; i < mine.size(); ++i)
    if (mine[i]->memory_bytes == mine[i]->profile.memory_bytes)
      bytes[i] = std::min(bytes[i], room / flexible / LogicalDevice::kAlignment * LogicalDevice::kAlignment);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<DeviceGroup>> DeviceGroup::make(Session& session, const DeviceSet& devices, int gpus,
                                                       std::atomic<std::uint64_t>* progress) {
  EMPLACE_TRY(check_available(session.api()));
  int found = 0;
  EMPLACE_TRY(session.check(session.api().runtime.GetDeviceCount(&found), "cudaGetDeviceCount"));
  const auto count = static_cast<std::size_t>(gpus > 0 ? std::min(gpus, found) : found);
  for (const Device& device : devices.devices())
    if (device.profile.kind != "gpu")
      return Error{Errc::kUnsupported, device.name +
                                           ": the cuda executor runs on GPUs only; remove the CPU from the "
                                           "device file, or use --executor cpu"};
  auto group = std::unique_ptr<DeviceGroup>{new DeviceGroup{session}};
  for (std::size_t gpu = 0; gpu < std::min(count, devices.size()); ++gpu) {
    const auto on_it = static_cast<unsigned>((devices.size() - gpu + count - 1) / count);
    std::vector<const Device*> mine;
    for (std::size_t d = gpu; d < devices.size(); d += count) mine.push_back(&devices.devices()[d]);
    const auto physical = static_cast<int>(gpu);
    EMPLACE_TRY(session.check(session.api().runtime.SetDevice(physical), "cudaSetDevice"));
    std::size_t free = 0, total = 0;
    EMPLACE_TRY(session.check(session.api().runtime.MemGetInfo(&free, &total), "cudaMemGetInfo"));
    EMPLACE_TRY_ASSIGN(const auto bytes, share_memory(mine, static_cast<std::int64_t>(free), physical));
    std::vector<Partition> parts(on_it);
    if (on_it > 1) {
      auto parted = partition_gpu(session, physical, on_it);
      if (!parted && parted.error().code != Errc::kUnsupported) return parted.error();
      group->isolation_ = std::max(group->isolation_, parted ? Isolation::kGreenContexts : Isolation::kNone);
      if (parted) {
        parts = *std::move(parted);
      } else {
        group->why_not_isolated_ = parted.error().context;
      }
    }
    // Each device owns its part, also if a later step fails.
    std::vector<std::unique_ptr<LogicalDevice>> opened;
    for (const Partition& part : parts)
      opened.emplace_back(new LogicalDevice{session, physical, part.context, part.green, part.processors});
    group->devices_.resize(devices.size());
    for (std::size_t d = gpu, i = 0; d < devices.size(); d += count, ++i) {
      if (progress != nullptr) ++*progress;
      if (auto done = opened[i]->open(bytes[i]); !done)
        return Error{done.error().code, devices.devices()[d].name + ": " + done.error().context};
      group->devices_[d] = std::move(opened[i]);
    }
  }
  EMPLACE_TRY(group->find_links());
  return group;
}

Result<Unit> DeviceGroup::find_links() {
  direct_.assign(size() * size(), false);
  for (std::size_t s = 0; s < size(); ++s) {
    for (std::size_t t = 0; t < size(); ++t) {
      const int from = devices_[s]->physical(), to = devices_[t]->physical();
      if (from == to) continue;
      int can = 0;
      EMPLACE_TRY(session_.check(session_.api().runtime.DeviceCanAccessPeer(&can, from, to),
                                 "cudaDeviceCanAccessPeer"));
      if (can == 0) continue;
      // Each context is enabled by itself; one that another device or an earlier group enabled answers that
      // it is.
      EMPLACE_TRY(devices_[s]->make_current());
      if (const cudaError_t status = session_.api().runtime.DeviceEnablePeerAccess(to, 0);
          status == cudaErrorPeerAccessAlreadyEnabled) {
        session_.api().runtime.GetLastError();
      } else {
        EMPLACE_TRY(session_.check(status, "cudaDeviceEnablePeerAccess"));
      }
      direct_[s * size() + t] = true;
    }
  }
  return Unit{};
}

Result<Unit> DeviceGroup::synchronize() const {
  for (const auto& device : devices_) {
    EMPLACE_TRY(device->make_current());
    for (const StreamKind kind : {StreamKind::kCompute, StreamKind::kCopyOut, StreamKind::kCopyIn})
      EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(device->stream(kind)),
                                 "cudaStreamSynchronize"));
  }
  return Unit{};
}

bool DeviceGroup::has_staged_links() const {
  for (std::size_t s = 0; s < size(); ++s)
    for (std::size_t t = 0; t < size(); ++t)
      if (s != t && !is_direct(s, t)) return true;
  return false;
}

Result<Unit> DeviceGroup::probe() const {
  for (const auto& device : devices_) {
    EMPLACE_TRY(device->make_current());
    const cudaStream_t stream = device->stream(StreamKind::kCompute);
    EMPLACE_TRY(session_.check(session_.api().runtime.MemsetAsync(device->memory(), 0, sizeof(int), stream),
                               "cudaMemsetAsync"));
    EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(stream), "cudaStreamSynchronize"));
  }
  return Unit{};
}

}  // namespace emplace::cuda
