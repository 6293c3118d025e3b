#pragma once
/// Devices, their profiles and the links between them. Times in seconds, sizes in bytes, rates per second.

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/arithmetic.h"
#include "graph/op_kind.h"
#include "placement/costs/kernel_model.h"
#include "placement/machine/cost_version.h"
#include "placement/machine/device_mask.h"
#include "placement/machine/signature_costs.h"

namespace emplace {

/// A kind of device: peak rates, and the fraction that each class of op reaches.
struct Profile {
  std::string name;
  /// "gpu" or "cpu"; also the class of measured_us it takes ("accelerator" is "gpu").
  std::string kind = "gpu";
  std::int64_t memory_bytes = 0;  ///< Memory per device; a device may override it.
  double peak_gflops = 0;         ///< Scalar peak [GFLOP/s].
  /// Peak for matmul and conv [GFLOP/s]; equals peak_gflops if the file has none.
  double matrix_peak_gflops = 0;
  double bandwidth_gbs = 0;  ///< Memory bandwidth [GB/s].
  double bandwidth_efficiency = 1;
  double launch_us = 0;                            ///< Launch overhead per op [us].
  std::array<double, kNumOpClasses> efficiency{};  ///< [OpClass] Unused for state and view.
  /// Least time of an op [us]: the host needs it to issue one, whatever the kernel. Ops that share a kernel
  /// share it. Measured times include it.
  double dispatch_us = 0;
  std::shared_ptr<const SignatureCosts> costs;  ///< Times measured on such a device; null if there are none.
  CostVersion cost_version = CostVersion::k1;   ///< How the times of other ops are estimated.
  /// [OpClass] Classes whose efficiency is the user's own. Their ops are estimated by version 1 even where
  /// the profile has version 2.
  std::bitset<kNumOpClasses> own_efficiency;

  // Version 2 alone reads the fields below. On families without tables, such as CPUs, it estimates ops as
  // version 1 does, at the peak of their arithmetic.
  /// [Arithmetic] Dense peaks of products [GFLOP/s], with FP32 accumulation; 0: the device lacks the units.
  std::array<double, kNumArithmetics> peaks_gflops{};
  /// The share of their rate that products of 16-bit tensors reach if a row of an operand is no multiple of
  /// 16 bytes (KernelShape::unaligned), within (0, 1].
  double unaligned_rate = 1;
  std::int64_t l2_bytes = 0;  ///< The last cache that all its units share [B].
  /// Devices of the catalogue whose measured kernels time it, the best first; empty: those of the family.
  std::vector<std::string> tables;
  std::string family;  ///< "nvidia-server", "nvidia-desktop", "amd", "intel", "apple", "kepler" or "cpu".

  bool operator==(const Profile& other) const;  ///< Compares the fields that affect op times.
  /// Whether fitted tables estimate its kernels: those of GPUs, in version 2.
  bool has_tables() const;
  /// What the tables need to know of it. @pre it outlives the result
  DeviceRates rates() const;
};

/// Finds a profile of the catalogue by name or alias, with the costs of a version. Errors: kInvalid, with the
/// nearest name.
Result<Profile> find_profile(std::string_view name, CostVersion costs = kUnstatedCosts);

struct Device {
  std::string name;  ///< Unique name, such as "cpu:0" or "gpu:1".
  Profile profile;
  std::int64_t memory_bytes = 0;  ///< Cap for state and live tensors [B], without the reserve.
  std::string host;               ///< Host name; empty on a single machine.
};

/// One direction of a link. A transfer takes latency_s + bytes / bytes_per_s.
struct Link {
  double bytes_per_s = 0;  ///< > 0
  double latency_s = 0;    ///< >= 0
  /// Whether executors emulate this link: faster real copies wait until the modelled time is over, and
  /// results are labelled as emulated.
  bool shaped = false;
  /// The catalogue's link that it is, whose tables time collectives; empty in version 1, and for links of
  /// users.
  std::string_view name = {};  // The catalogue outlives all.

  bool operator==(const Link&) const = default;
};

/// The engine that moves data: a copy engine of the source device (GPUs), or the target device itself, which
/// runs no op meanwhile (CPUs: memcpy costs a core).
enum class CopyEngine : std::uint8_t { kSource, kTarget };
std::string_view copy_engine_name(CopyEngine engine);  ///< "source", "target"

/// Transfers that a device's copy engines can run at once without limit.
inline constexpr std::uint32_t kUnlimited = 0;

/// A link that several devices share: the NIC of a host, or the uplink of a PCIe switch. A transfer between
/// one of its devices and a device outside uses it; a transfer between two of its devices does not. Each
/// direction runs `engines` transfers at once and serves requests in order.
struct SharedLink {
  std::string name;
  std::vector<DeviceId> devices;
  std::uint32_t engines = 1;  ///< > 0
};

/// The machine to place on: 1 to 256 devices, with a link between every pair. Immutable; any thread.
class DeviceSet {
 public:
  /// `links` is [devices, devices] row-major, source first; the diagonal is ignored. Errors (kInvalid): no
  /// device, more than 256, duplicate names, memory or rates out of range, a missing link.
  static Result<DeviceSet> make(std::vector<Device> devices, std::vector<Link> links);
  /// All pairs have the same link.
  static Result<DeviceSet> make(std::vector<Device> devices, Link everywhere);

  std::size_t size() const { return devices_.size(); }
  const Device& operator[](DeviceId id) const { return devices_[index(id)]; }
  std::span<const Device> devices() const { return devices_; }
  const Link& link(DeviceId source, DeviceId target) const {
    return links_[index(source) * size() + index(target)];
  }
  CopyEngine copies() const { return copies_; }
  DeviceSet with_copies(CopyEngine engine) const;
  /// Transfers that the copy engines of a device run at once: one by default. The others wait in one queue
  /// per device, first in, first out. kUnlimited: every transfer starts when it is requested.
  std::uint32_t engines(DeviceId device) const { return engines_.empty() ? 1 : engines_[index(device)]; }
  bool has_one_engine_each() const { return engines_.empty(); }
  /// `engines`: [devices]. Errors (kInvalid): the target device copies, so that a copy engine is a device.
  Result<DeviceSet> with_engines(std::vector<std::uint32_t> engines) const;
  /// The links that several devices share. A transfer at the head of its engine's queue requests those of its
  /// route all at once, and starts when each has an engine for it and serves no earlier request first.
  std::span<const SharedLink> shared() const { return shared_; }
  /// Errors (kInvalid): a shared link without a name, without devices, or with all of them; a device or a
  /// name twice; the target device copies.
  Result<DeviceSet> with_shared(std::vector<SharedLink> shared) const;
  /// Whether every device has one copy engine and no link is shared.
  bool is_simple() const { return engines_.empty() && shared_.empty(); }
  /// Slowdown factor, at least 1, of an op that starts while another device runs one: devices share caches
  /// and memory.
  double corun() const { return corun_; }
  DeviceSet with_corun(double factor) const;
  /// The machine with links that are no slower than any way over other devices: what a tensor that is moved
  /// twice can gain. Times of transfers are lower bounds of those of all ways.
  DeviceSet with_detours() const;
  /// The same machine, each device with so much memory [B].
  DeviceSet with_memory(std::int64_t bytes) const;
  /// The machine of these devices alone, in this order, with what remains of its shared links.
  DeviceSet part(std::span<const DeviceId> devices) const;
  std::vector<std::string> names() const;  ///< [devices]
  /// Errors: kInvalid, with the nearest name.
  Result<DeviceId> find(std::string_view name) const;
  /// The devices whose names start with `prefix`.
  DeviceMask starting_with(std::string_view prefix) const;
  bool is_cpu(DeviceId id) const { return devices_[index(id)].profile.kind == "cpu"; }
  /// SHA-256 in hex over everything that affects a simulated time: names, profiles, memory, links, copy
  /// engine, and the cost version unless it is 1.
  std::string sha256() const;

 private:
  std::vector<Device> devices_;
  std::vector<Link> links_;
  CopyEngine copies_ = CopyEngine::kSource;
  std::vector<std::uint32_t> engines_;  // [devices] Empty: one each.
  std::vector<SharedLink> shared_;
  double corun_ = 1;
};

}  // namespace emplace
