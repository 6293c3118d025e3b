#pragma once
/// GPUs that NVML, the management library of NVIDIA's driver, reports. It is loaded when it is needed;
/// emplace does not link to it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

/// A GPU. Values that the driver does not report are 0.
struct NvmlGpu {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::int64_t memory_bytes = 0, free_bytes = 0;
  double peak_gflops = 0;    ///< FP32, from cores and clock.
  double bandwidth_gbs = 0;  ///< From the width and the clock of the memory bus.
  std::string uuid;          ///< "GPU-..."; empty if unknown.
  unsigned index = 0;        ///< Its number at the driver, by PCI address.
  std::string pci;           ///< "0000:3b:00.0", as in /sys/bus/pci/devices; empty if unknown.
  /// Generation of its NVLinks: 1 to 5; 0: none, or unknown.
  unsigned nvlink = 0;
  /// [GPUs of the driver] Active NVLinks to each GPU, directly or through switches.
  std::vector<unsigned> nvlinks;
  /// [GPUs of the driver] Whether the driver reports that it cannot read the memory of each GPU. Empty:
  /// unknown.
  std::vector<bool> cut_off;
};

/// Returns the GPUs in the order of the driver. `library` is a name or path for dlopen(); none if it is
/// absent. Errors (kUnsupported): the library is there and fails.
Result<std::vector<NvmlGpu>> nvml_gpus(const std::string& library);

}  // namespace emplace::launcher
