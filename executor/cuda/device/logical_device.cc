#include "executor/cuda/device/logical_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/units.h"
#include "executor/cuda/device/partition.h"
#include "executor/cuda/kernels/probes.h"

namespace emplace::cuda {

LogicalDevice::~LogicalDevice() {
  if (session_.poisoned()) return;
  (void)make_current();  // The cleanup below does not depend on it.
  if (dnn_ != nullptr) session_.give_back([&](const CudaApi& api) { return api.dnn.Destroy(dnn_); });
  if (blas_ != nullptr) session_.give_back([&](const CudaApi& api) { return api.blas.Destroy(blas_); });
  for (const cudaStream_t stream : streams_)
    if (stream != nullptr)
      session_.give_back([&](const CudaApi& api) { return api.runtime.StreamDestroy(stream); });
  if (copy_begin_ != nullptr)
    session_.give_back([&](const CudaApi& api) { return api.runtime.Free(copy_begin_); });
  if (on_host()) return;
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

Result<Unit> LogicalDevice::open(std::int64_t bytes, bool on_host, bool slows_copies) {
  EMPLACE_TRY(make_current());
  const CudaApi& api = session_.api();
  for (std::size_t kind = 0; kind < kStreamsPerDevice; ++kind) {
    cudaStream_t& stream = streams_[kind];
    // Copies may need a multiprocessor, and must not wait until a kernel that fills the device leaves one.
    const int priority = static_cast<StreamKind>(kind) == StreamKind::kCompute ? 0 : -1;
    if (green_ == nullptr) {
      EMPLACE_TRY(
          session_.check(api.runtime.StreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
                         "cudaStreamCreate"));
    } else {
      EMPLACE_TRY(
          session_.check(api.driver.GreenCtxStreamCreate(&stream, green_, CU_STREAM_NON_BLOCKING, priority),
                         "cuGreenCtxStreamCreate"));
    }
  }
  if (slows_copies)
    EMPLACE_TRY(session_.check(api.runtime.Malloc(&copy_begin_, sizeof(std::uint64_t)), "cudaMalloc"));
  bytes_ = bytes;
  if (on_host) {
    EMPLACE_TRY_ASSIGN(host_, HostMemory::reserve(session_, bytes));
    memory_ = host_->data();
    return Unit{};
  }
  if (api.blas.Create != nullptr) EMPLACE_TRY(session_.check(api.blas.Create(&blas_), "cublasLtCreate"));
  if (api.dnn.Create != nullptr) {
    EMPLACE_TRY(session_.check(api.dnn.Create(&dnn_), "cudnnCreate"));
    EMPLACE_TRY(session_.check(api.dnn.SetStream(dnn_, stream(StreamKind::kCompute)), "cudnnSetStream"));
  }
  void* memory = nullptr;
  EMPLACE_TRY(session_.check(api.runtime.Malloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc"));
  memory_ = static_cast<std::byte*>(memory);
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
                                                       std::atomic<std::uint64_t>* progress, bool with_cpus) {
  EMPLACE_TRY(check_available(session.api()));
  int found = 0;
  EMPLACE_TRY(session.check(session.api().runtime.GetDeviceCount(&found), "cudaGetDeviceCount"));
  std::size_t on_gpus = 0;
  for (const Device& device : devices.devices()) {
    const bool on_cpu = device.profile.kind == "cpu";
    on_gpus += on_cpu ? 0 : 1;
    if (device.profile.kind != "gpu" && !(on_cpu && with_cpus))
      return Error{
          Errc::kUnsupported,
          device.name + (on_cpu ? ": this build of the cuda executor has no kernels for CPUs; remove "
                                  "the CPU from the device file, or use --executor cpu"
                                : ": the cuda executor runs on GPUs and CPUs only")};
  }
  if (on_gpus == 0)
    return Error{Errc::kUnsupported, "the device file has no GPU for the cuda executor; use --executor cpu"};
  auto group = std::unique_ptr<DeviceGroup>{new DeviceGroup{session, devices}};
  const auto count = static_cast<std::size_t>(gpus > 0 ? std::min(gpus, found) : found);
  EMPLACE_TRY(group->open_gpus(devices, std::min(count, on_gpus), progress));
  EMPLACE_TRY(group->open_cpus(devices, progress));
  EMPLACE_TRY(group->find_links(devices));
  return group;
}

DeviceGroup::DeviceGroup(Session& session, const DeviceSet& devices)
    : session_{session}, transfers_{devices}, devices_(devices.size()) {
  for (std::size_t s = 0; s < size(); ++s)
    for (std::size_t t = 0; t < size(); ++t)
      shaped_.push_back(s != t && devices.link(static_cast<DeviceId>(s), static_cast<DeviceId>(t)).shaped);
}

bool DeviceGroup::slows_copies(std::size_t source) const {
  for (std::size_t t = 0; t < size(); ++t)
    if (is_shaped(source, t)) return true;
  return false;
}

Result<Unit> DeviceGroup::open_gpus(const DeviceSet& devices, std::size_t count,
                                    std::atomic<std::uint64_t>* progress) {
  std::vector<std::vector<std::size_t>> on(count);  // [GPUs] Devices.
  for (std::size_t d = 0, gpu = 0; d < devices.size(); ++d)
    if (!devices.is_cpu(static_cast<DeviceId>(d))) on[gpu++ % count].push_back(d);
  for (std::size_t gpu = 0; gpu < count; ++gpu) {
    std::vector<const Device*> mine;
    for (const std::size_t d : on[gpu]) mine.push_back(&devices.devices()[d]);
    const auto physical = static_cast<int>(gpu);
    EMPLACE_TRY(session_.check(session_.api().runtime.SetDevice(physical), "cudaSetDevice"));
    std::size_t free = 0, total = 0;
    EMPLACE_TRY(session_.check(session_.api().runtime.MemGetInfo(&free, &total), "cudaMemGetInfo"));
    EMPLACE_TRY_ASSIGN(const auto bytes, share_memory(mine, static_cast<std::int64_t>(free), physical));
    std::vector<Partition> parts(mine.size());
    if (mine.size() > 1) {
      auto parted = partition_gpu(session_, physical, static_cast<unsigned>(mine.size()));
      if (!parted && parted.error().code != Errc::kUnsupported) return parted.error();
      isolation_ = std::max(isolation_, parted ? Isolation::kGreenContexts : Isolation::kNone);
      if (parted) {
        parts = *std::move(parted);
      } else {
        why_not_isolated_ = parted.error().context;
      }
    }
    // Each device owns its part, also if a later step fails.
    std::vector<std::unique_ptr<LogicalDevice>> opened;
    for (const Partition& part : parts)
      opened.emplace_back(new LogicalDevice{session_, physical, part.context, part.green, part.processors});
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (progress != nullptr) ++*progress;
      if (auto done = opened[i]->open(bytes[i], false, slows_copies(on[gpu][i])); !done)
        return Error{done.error().code, mine[i]->name + ": " + done.error().context};
      devices_[on[gpu][i]] = std::move(opened[i]);
    }
  }
  return Unit{};
}

Result<Unit> DeviceGroup::open_cpus(const DeviceSet& devices, std::atomic<std::uint64_t>* progress) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const Device& device = devices.devices()[d];
    if (!devices.is_cpu(static_cast<DeviceId>(d))) continue;
    if (progress != nullptr) ++*progress;
    devices_[d].reset(new LogicalDevice{session_, 0, nullptr, nullptr, 0});
    if (auto done = devices_[d]->open(device.memory_bytes, true, slows_copies(d)); !done)
      return Error{done.error().code, device.name + ": " + done.error().context};
  }
  return Unit{};
}

Result<Unit> DeviceGroup::move(std::size_t source, const std::byte* from, std::size_t target, std::byte* to,
                               std::int64_t bytes) const {
  const LogicalDevice &left = *devices_[source], &right = *devices_[target];
  const auto amount = static_cast<std::size_t>(bytes);
  const cudaStream_t stream = left.stream(StreamKind::kCopyOut);
  if (left.physical() == right.physical() || left.on_host() || right.on_host())
    return session_.check(session_.api().runtime.MemcpyAsync(to, from, amount, cudaMemcpyDefault, stream),
                          "cudaMemcpyAsync");
  return session_.check(
      session_.api().runtime.MemcpyPeerAsync(to, right.physical(), from, left.physical(), amount, stream),
      "cudaMemcpyPeerAsync");
}

Result<Unit> DeviceGroup::copy(std::size_t source, const std::byte* from, std::size_t target, std::byte* to,
                               std::int64_t bytes) const {
  if (!is_shaped(source, target)) return move(source, from, target, to, bytes);
  const std::int64_t ns = transfers_.ns(static_cast<DeviceId>(source), static_cast<DeviceId>(target), bytes);
  const LogicalDevice& left = *devices_[source];
  const Lane lane = left.lane(StreamKind::kCopyOut);
  EMPLACE_TRY(enqueue_note_time(lane, left.copy_begin()));
  EMPLACE_TRY(move(source, from, target, to, bytes));
  return enqueue_spin_since(lane, left.copy_begin(), static_cast<std::uint64_t>(ns));
}

Result<Unit> DeviceGroup::find_links(const DeviceSet& devices) {
  direct_.assign(size() * size(), false);
  for (std::size_t s = 0; s < size(); ++s) {
    for (std::size_t t = 0; t < size(); ++t) {
      const int from = devices_[s]->physical(), to = devices_[t]->physical();
      const bool with_cpu = devices_[s]->on_host() || devices_[t]->on_host();
      if (s != t && (with_cpu || is_shaped(s, t))) direct_[s * size() + t] = true;
      if (from == to || with_cpu) continue;
      int can = 0;
      EMPLACE_TRY(session_.check(session_.api().runtime.DeviceCanAccessPeer(&can, from, to),
                                 "cudaDeviceCanAccessPeer"));
      if (can == 0 && is_shaped(s, t))
        return Error{
            Errc::kUnsupported,
            fmt::format("{} and {}: GPUs without a direct link cannot have a `shaped` one; remove "
                        "`shaped` from the device file",
                        devices[static_cast<DeviceId>(s)].name, devices[static_cast<DeviceId>(t)].name)};
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
    if (device->on_host()) continue;
    EMPLACE_TRY(device->make_current());
    const cudaStream_t stream = device->stream(StreamKind::kCompute);
    EMPLACE_TRY(session_.check(session_.api().runtime.MemsetAsync(device->memory(), 0, sizeof(int), stream),
                               "cudaMemsetAsync"));
    EMPLACE_TRY(session_.check(session_.api().runtime.StreamSynchronize(stream), "cudaStreamSynchronize"));
  }
  return Unit{};
}

}  // namespace emplace::cuda
