#include "launcher/settings/nvml.h"

#include <dlfcn.h>

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
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      if (handle_of(i, &device) != kNvmlSuccess)
        return Error{Errc::kUnsupported, "NVML: cannot open GPU " + std::to_string(i)};
      gpus.push_back(gpu(device));
    }
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
    // A core does a multiplication and an addition per cycle; the memory bus moves data twice per cycle.
    gpu.peak_gflops = 2.0 * whole("nvmlDeviceGetNumGpuCores") * clock_mhz(kNvmlClockSm) * 1e-3;
    gpu.bandwidth_gbs = 2.0 * whole("nvmlDeviceGetMemoryBusWidth") / 8 * clock_mhz(kNvmlClockMemory) * 1e-3;
    return gpu;
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
