#pragma once
/// `--devices here`: the machine that this process runs on, as a device file.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "placement/machine/device.h"

namespace emplace::launcher {

/// Where this machine is described. Tests replace it.
struct MachineSources {
  std::filesystem::path proc = "/proc", cgroup = "/sys/fs/cgroup", pci = "/sys/bus/pci/devices";
  std::string nvml = "libnvidia-ml.so.1";  ///< Library to load; empty: none.
  /// CUDA_VISIBLE_DEVICES; nothing if it is unset.
  std::optional<std::string> visible_gpus;
  std::uint32_t cores = 0;  ///< Cores that this process may use.

  /// Returns the sources of the real machine.
  static MachineSources real();
};

/// This machine when it was looked at.
struct ThisMachine {
  std::string tables;              ///< The tables of its device file.
  std::string summary;             ///< "cpu:0 (2 cores, 22.10 GiB free), gpu:0 (NVIDIA T4, 14.12 GiB free)"
  std::vector<std::string> notes;  ///< One line per device whose rates are estimated or that is left out.

  /// Its device file, with the costs of a version.
  std::string device_file(CostVersion costs) const;
  /// Errors: those of parse_devices().
  Result<DeviceSet> devices(const Reserve& reserve = {}, CostVersion costs = kCurrentCosts) const;
};

/// Looks at a machine: its CPU, its GPUs and the memory that is free now. What cannot be read is estimated
/// and noted. Errors (kInvalid): the free memory of the CPU is unknown.
Result<ThisMachine> look_at_machine(const MachineSources& sources);

/// Returns this machine as it was at the first call: free memory changes, and a process needs one machine.
/// Any thread.
const Result<ThisMachine>& this_machine();

}  // namespace emplace::launcher
