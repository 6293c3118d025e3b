#include "launcher/inputs/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace emplace::launcher {
namespace {

// Declarations of NVML's stable ABI (nvml.h of the CUDA toolkit).
constexpr int kNvmlSuccess = 0;
constexpr unsigned kNvmlClockSm = 1, kNvmlClockMemory = 2;
using NvmlDevice = struct NvmlDeviceHandle*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr unsigned kMaxNvlinks = 18, kRemoteGpu = 0, kRemoteSwitch = 2;
constexpr unsigned kP2pRead = 0, kP2pOk = 0;
struct NvmlPci {
  std::array<char, 16> legacy_address;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> address;

  bool operator==(const NvmlPci& other) const {
    return domain == other.domain && bus == other.bus && device == other.device;
  }
};

/// Generation of the NVLinks of an architecture of nvmlDeviceGetArchitecture(); 0: it has none.
unsigned nvlink_of(unsigned architecture) {
  switch (architecture) {
    case 4:  // Pascal
      return 1;
    case 5:  // Volta
    case 6:  // Turing
      return 2;
    case 7:  // Ampere
      return 3;
    case 9:  // Hopper
      return 4;
    case 10:  // Blackwell
      return 5;
    default:
      return 0;
  }
}

template <class... Arguments>
using NvmlFunction = int (*)(Arguments...);

/// A loaded and initialised NVML.
class Nvml {
 public:
  /// Errors (kIo): there is no such library. kUnsupported: it fails.
  static Result<Nvml> load(const std::string& library) {
    Nvml nvml;
    nvml.handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (nvml.handle_ == nullptr) return Error{Errc::kIo, "NVML: is not installed"};
    const auto start = nvml.function<>("nvmlInit_v2");
    if (start == nullptr) return Error{Errc::kUnsupported, "NVML: has no nvmlInit_v2"};
    if (const int status = start(); status != kNvmlSuccess)
      return Error{Errc::kUnsupported, "NVML: cannot start (status " + std::to_string(status) + ")"};
    nvml.started_ = true;
    return nvml;
  }
  Nvml(Nvml&& other) noexcept
      : handle_{std::exchange(other.handle_, nullptr)}, started_{std::exchange(other.started_, false)} {}
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml() {
    if (started_) (void)call("nvmlShutdown");
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  Result<std::vector<NvmlGpu>> gpus() const {
    unsigned count = 0;
    if (!call("nvmlDeviceGetCount_v2", &count))
      return Error{Errc::kUnsupported, "NVML: cannot list the GPUs"};
    std::vector<NvmlGpu> gpus;
    std::vector<NvmlDevice> devices;
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice& device = devices.emplace_back(nullptr);
      if (!call("nvmlDeviceGetHandleByIndex_v2", i, &device))
        return Error{Errc::kUnsupported, "NVML: cannot open GPU " + std::to_string(i)};
      gpus.push_back(gpu(device));
      gpus.back().index = i;
    }
    count_nvlinks(devices, gpus);
    find_peers(devices, gpus);
    return gpus;
  }

 private:
  Nvml() = default;

  /// Null if the library lacks it.
  template <class... Arguments>
  NvmlFunction<Arguments...> function(const char* name) const {
    return reinterpret_cast<NvmlFunction<Arguments...>>(::dlsym(handle_, name));
  }
  /// False if the library lacks the function, or if it fails.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto called = function<Arguments...>(name);
    return called != nullptr && called(arguments...) == kNvmlSuccess;
  }
  /// Empty if the driver does not report it.
  std::string text(const char* name, NvmlDevice device) const {
    std::array<char, 96> text{};
    return call(name, device, text.data(), unsigned{text.size() - 1}) ? text.data() : "";
  }

  NvmlGpu gpu(NvmlDevice device) const {
    NvmlGpu gpu;
    gpu.name = text("nvmlDeviceGetName", device);
    gpu.uuid = text("nvmlDeviceGetUUID", device);
    NvmlMemory memory{};
    if (call("nvmlDeviceGetMemoryInfo", device, &memory)) {
      gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
      gpu.free_bytes = static_cast<std::int64_t>(memory.free);
    }
    const auto number = [&](const char* name, auto... which) {
      unsigned value = 0;
      return call(name, device, which..., &value) ? value : 0U;
    };
    NvmlPci pci{};
    if (call("nvmlDeviceGetPciInfo_v3", device, &pci))
      gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
    gpu.nvlink = nvlink_of(number("nvmlDeviceGetArchitecture"));
    // A core does a multiplication and an addition per cycle; the memory bus moves data twice per cycle.
    gpu.peak_gflops =
        2.0 * number("nvmlDeviceGetNumGpuCores") * number("nvmlDeviceGetMaxClockInfo", kNvmlClockSm) * 1e-3;
    gpu.bandwidth_gbs = 2.0 * number("nvmlDeviceGetMemoryBusWidth") / 8 *
                        number("nvmlDeviceGetMaxClockInfo", kNvmlClockMemory) * 1e-3;
    return gpu;
  }

  void find_peers(const std::vector<NvmlDevice>& devices, std::vector<NvmlGpu>& gpus) const {
    constexpr const char* kStatus = "nvmlDeviceGetP2PStatus";
    if (function<NvmlDevice, NvmlDevice, unsigned, unsigned*>(kStatus) == nullptr) return;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      gpus[i].cut_off.assign(devices.size(), false);
      for (std::size_t other = 0; other < devices.size(); ++other) {
        unsigned status = kP2pOk;
        if (other != i && call(kStatus, devices[i], devices[other], kP2pRead, &status))
          gpus[i].cut_off[other] = status != kP2pOk;
      }
    }
  }

  /// Switches are taken as connected with each other, so two GPUs share the fewer of their links to them.
  void count_nvlinks(const std::vector<NvmlDevice>& devices, std::vector<NvmlGpu>& gpus) const {
    constexpr const char *kState = "nvmlDeviceGetNvLinkState", *kKind = "nvmlDeviceGetNvLinkRemoteDeviceType",
                         *kRemote = "nvmlDeviceGetNvLinkRemotePciInfo_v2";
    for (const char* needed : {kState, kKind, kRemote})
      if (::dlsym(handle_, needed) == nullptr) return;
    std::vector<NvmlPci> addresses(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (!call("nvmlDeviceGetPciInfo_v3", devices[i], &addresses[i])) return;
    std::vector<unsigned> to_switches(devices.size(), 0);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      gpus[i].nvlinks.assign(devices.size(), 0);
      for (unsigned link = 0; link < kMaxNvlinks; ++link) {
        unsigned active = 0, kind = 0;
        NvmlPci remote{};
        if (!call(kState, devices[i], link, &active) || active == 0 || !call(kKind, devices[i], link, &kind))
          continue;
        if (kind == kRemoteSwitch) ++to_switches[i];
        if (kind != kRemoteGpu || !call(kRemote, devices[i], link, &remote)) continue;
        for (std::size_t other = 0; other < devices.size(); ++other)
          if (other != i && addresses[other] == remote) ++gpus[i].nvlinks[other];
      }
    }
    for (std::size_t i = 0; i < devices.size(); ++i)
      for (std::size_t other = 0; other < devices.size(); ++other)
        if (other != i) gpus[i].nvlinks[other] += std::min(to_switches[i], to_switches[other]);
  }

  void* handle_ = nullptr;
  bool started_ = false;
};

}  // namespace

Result<std::vector<NvmlGpu>> nvml_gpus(const std::string& library) {
  if (library.empty()) return std::vector<NvmlGpu>{};
  const auto nvml = Nvml::load(library);
  if (!nvml && nvml.error().code == Errc::kIo) return std::vector<NvmlGpu>{};
  if (!nvml) return nvml.error();
  return nvml->gpus();
}

}  // namespace emplace::launcher
