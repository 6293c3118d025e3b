#pragma once
/// Leases of whole GPUs, so that no two executors of this machine measure on the same one.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "placement/machine/device.h"
#include "runtime/process/descriptor.h"

namespace emplace::launcher {

/// A GPU as the NVIDIA driver describes it.
struct DriverGpu {
  std::string address;  ///< PCI address: "0000:17:00.0".
  std::string model;    ///< Empty if unknown.
  std::string uuid;     ///< "GPU-..."; empty if unknown.
};

/// Where GPUs and their locks are described. Tests replace it.
struct GpuSources {
  std::filesystem::path driver = "/proc/driver/nvidia";
  std::filesystem::path locks;         ///< Folder of the lock files, one for all users of the machine.
  std::optional<std::string> visible;  ///< CUDA_VISIBLE_DEVICES; nothing if it is unset.

  /// Returns the sources of the real machine.
  static GpuSources real();
};

/// Returns the GPUs of the machine, sorted by PCI address.
std::vector<DriverGpu> driver_gpus(const std::filesystem::path& driver);

/// The GPUs that leases choose from.
struct LeasableGpus {
  std::vector<std::string> uuids;  ///< Those of CUDA_VISIBLE_DEVICES, else all, by PCI address.
  std::string why_none;            ///< Empty if there are some.
};
/// Numbers in CUDA_VISIBLE_DEVICES count GPUs by PCI address, as executors do. Leases cover whole GPUs only:
/// none is leasable if one is split by MIG or has no known UUID.
LeasableGpus leasable_gpus(const GpuSources& sources);

/// Returns the number of GPUs that one executor leases: one for each GPU of the device set, at most
/// `leasable`, at least 1.
std::size_t gpus_per_executor(const DeviceSet& devices, std::size_t leasable);

/// Returns how many executors get GPUs of their own. Errors (kInvalid): no GPU is leasable.
Result<std::uint32_t> executors_by_gpus(const GpuSources& sources, const DeviceSet& devices);

/// Checks that `executors` can lease their GPUs now. Succeeds if no GPU is leasable, since leases are then
/// not used. Errors (kInvalid): too few are free; names the holders of the others.
Result<Unit> check_gpu_leases(const GpuSources& sources, const DeviceSet& devices, std::uint32_t executors);

/// The GPUs of one executor, locked until this object and every child that inherited its descriptors
/// have ended: a process that is killed loses its leases when its last child ends. Thread: one.
class GpuLease {
 public:
  explicit GpuLease(GpuSources sources) : sources_{std::move(sources)} {}

  /// Leases what is missing for an executor on `devices`: all or nothing. Keeps what is already leased.
  /// Does nothing if no GPU is leasable. Errors: kInvalid if too few are free, with the holders
  /// of the others; kIo.
  Result<Unit> take(const DeviceSet& devices);

  /// "CUDA_VISIBLE_DEVICES=GPU-...,GPU-..." for a child; empty without a lease.
  std::string environment() const;
  /// Locks that the child must inherit.
  std::vector<int> descriptors() const;
  /// UUIDs of the leased GPUs, in the order of their leases.
  std::vector<std::string> uuids() const;

 private:
  struct Held {
    std::string uuid;
    process::Descriptor lock;
  };
  GpuSources sources_;
  std::vector<Held> held_;
};

}  // namespace emplace::launcher
