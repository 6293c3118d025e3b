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

/// A loaded and initialised NVML.
class Nvml {
 public:
  /// Errors (kIo): there is no such library. kUnsupported: it fails.
  static Result<Nvml> load(const std::string& library) {
    Nvml nvml;
    nvml.handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (nvml.handle_ == nullptr) return Error{Errc::kIo, "NVML: is not installed"};
    const auto start = nvml.function<int()>("nvmlInit_v2");
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
    if (started_)
      if (const auto stop = function<int()>("nvmlShutdown")) (void)stop();
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  /// Null if the library lacks it.
  template <class Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(::dlsym(handle_, name));
  }

  Result<std::vector<NvmlGpu>> gpus() const {
    const auto count_of = function<int(unsigned*)>("nvmlDeviceGetCount_v2");
    const auto handle_of = function<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2");
    unsigned count = 0;
    if (count_of == nullptr || handle_of == nullptr || count_of(&count) != kNvmlSuccess)
      return Error{Errc::kUnsupported, "NVML: cannot list the GPUs"};
    std::vector<NvmlGpu> gpus;
    std::vector<NvmlDevice> devices;
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice& device = devices.emplace_back(nullptr);
      if (handle_of(i, &device) != kNvmlSuccess)
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

  NvmlGpu gpu(NvmlDevice device) const {
    NvmlGpu gpu;
    std::array<char, 96> name{};
    const auto name_of = function<int(NvmlDevice, char*, unsigned)>("nvmlDeviceGetName");
    if (name_of != nullptr && name_of(device, name.data(), name.size() - 1) == kNvmlSuccess)
      gpu.name = name.data();
    NvmlMemory memory{};
    const auto memory_of = function<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
    if (memory_of != nullptr && memory_of(device, &memory) == kNvmlSuccess) {
      gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
      gpu.free_bytes = static_cast<std::int64_t>(memory.free);
    }
    const auto whole = [&](const char* function_name) {
      unsigned value = 0;
      const auto of = function<int(NvmlDevice, unsigned*)>(function_name);
      return of != nullptr && of(device, &value) == kNvmlSuccess ? value : 0U;
    };
    const auto clock_mhz = [&](unsigned which) {
      unsigned value = 0;
      const auto of = function<int(NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetMaxClockInfo");
      return of != nullptr && of(device, which, &value) == kNvmlSuccess ? value : 0U;
    };
    std::array<char, 96> uuid{};
    const auto uuid_of = function<int(NvmlDevice, char*, unsigned)>("nvmlDeviceGetUUID");
    if (uuid_of != nullptr && uuid_of(device, uuid.data(), uuid.size() - 1) == kNvmlSuccess)
      gpu.uuid = uuid.data();
    NvmlPci pci{};
    const auto address_of = function<int(NvmlDevice, NvmlPci*)>("nvmlDeviceGetPciInfo_v3");
    if (address_of != nullptr && address_of(device, &pci) == kNvmlSuccess)
      gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
    gpu.nvlink = nvlink_of(whole("nvmlDeviceGetArchitecture"));
    // A core does a multiplication and an addition per cycle; the memory bus moves data twice per cycle.
    gpu.peak_gflops = 2.0 * whole("nvmlDeviceGetNumGpuCores") * clock_mhz(kNvmlClockSm) * 1e-3;
    gpu.bandwidth_gbs = 2.0 * whole("nvmlDeviceGetMemoryBusWidth") / 8 * clock_mhz(kNvmlClockMemory) * 1e-3;
    return gpu;
  }

  void find_peers(const std::vector<NvmlDevice>& devices, std::vector<NvmlGpu>& gpus) const {
    const auto status_of =
        function<int(NvmlDevice, NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetP2PStatus");
    if (status_of == nullptr) return;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      gpus[i].cut_off.assign(devices.size(), false);
      for (std::size_t other = 0; other < devices.size(); ++other) {
        unsigned status = kP2pOk;
        if (other != i && status_of(devices[i], devices[other], kP2pRead, &status) == kNvmlSuccess)
          gpus[i].cut_off[other] = status != kP2pOk;
      }
    }
  }

  /// Switches are taken as connected with each other, so two GPUs share the fewer of their links to them.
  void count_nvlinks(const std::vector<NvmlDevice>& devices, std::vector<NvmlGpu>& gpus) const {
    const auto address_of = function<int(NvmlDevice, NvmlPci*)>("nvmlDeviceGetPciInfo_v3");
    const auto state_of = function<int(NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    const auto kind_of =
        function<int(NvmlDevice, unsigned, unsigned*)>("nvmlDeviceGetNvLinkRemoteDeviceType");
    const auto remote_of =
        function<int(NvmlDevice, unsigned, NvmlPci*)>("nvmlDeviceGetNvLinkRemotePciInfo_v2");
    if (address_of == nullptr || state_of == nullptr || kind_of == nullptr || remote_of == nullptr) return;
    std::vector<NvmlPci> addresses(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (address_of(devices[i], &addresses[i]) != kNvmlSuccess) return;
    std::vector<unsigned> to_switches(devices.size(), 0);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      gpus[i].nvlinks.assign(devices.size(), 0);
      for (unsigned link = 0; link < kMaxNvlinks; ++link) {
        unsigned active = 0, kind = 0;
        NvmlPci remote{};
        if (state_of(devices[i], link, &active) != kNvmlSuccess || active == 0 ||
            kind_of(devices[i], link, &kind) != kNvmlSuccess)
          continue;
        if (kind == kRemoteSwitch) ++to_switches[i];
        if (kind != kRemoteGpu || remote_of(devices[i], link, &remote) != kNvmlSuccess) continue;
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
