#pragma once
/// Devices, their profiles and the links between them. Times in seconds, sizes in bytes, rates per second.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_kind.h"
#include "placement/machine/signature_costs.h"

namespace emplace {

/// A kind of device: peak rates, and how much of them each class of op reaches.
struct Profile {
  std::string name;
  std::string kind =
      "gpu";  ///< "gpu" or "cpu"; also the class of measured_us it takes ("accelerator" is "gpu").
  std::int64_t memory_bytes = 0;  ///< Of one device; a device may say otherwise.
  double peak_gflops = 0;         ///< Scalar peak [GFLOP/s].
  double matrix_peak_gflops = 0;  ///< For matmul and conv; equal to peak_gflops where the file has none.
  double bandwidth_gbs = 0;       ///< Memory bandwidth [GB/s].
  double bandwidth_efficiency = 1;
  double launch_us = 0;                            ///< Per op [us].
  std::array<double, kNumOpClasses> efficiency{};  ///< By OpClass; unused for state and view.
  std::shared_ptr<const SignatureCosts> costs;     ///< Measured on such a device; null if nothing was.

  bool operator==(const Profile& other) const;  ///< What decides a time is the same.
};

/// k40, k80_gk210, v100, h100, h200, haswell18: data-sheet values with prior efficiencies.
std::span<const Profile> builtin_profiles();
/// The same with efficiencies calibrated to published step times: "k40-calibrated", "k80_gk210-calibrated",
/// "haswell18-calibrated" are found by find_profile too. Errors: kInvalid, with the nearest name.
Result<Profile> find_profile(std::string_view name);

struct Device {
  std::string name;  ///< "cpu:0", "gpu:1": unique.
  Profile profile;
  std::int64_t memory_bytes = 0;  ///< Cap for state and live tensors [B], the reserve already taken off.
  std::string host;               ///< Empty for one machine.
};

/// One direction of a link. A transfer takes latency_s + bytes / bytes_per_s.
struct Link {
  double bytes_per_s = 0;  ///< > 0
  double latency_s = 0;    ///< >= 0
  /// Executors whose own copies are faster wait until the time is up, and say that the link is emulated.
  bool shaped = false;
};

/// Who moves data: a copy engine beside the source device (GPUs), or the target device itself, which runs no
/// op meanwhile (CPUs: memcpy costs a core).
enum class CopyEngine : std::uint8_t { kSource, kTarget };
std::string_view copy_engine_name(CopyEngine engine);  ///< "source", "target"

/// The machine to place on: 1 to 256 devices, every pair linked. Immutable; any thread.
class DeviceSet {
 public:
  /// `links` is [devices, devices] row-major, source first; the diagonal is ignored.
  /// Errors (kInvalid): no device, more than 256, names not unique, memory or rates out of range, a pair
  /// without a link.
  static Result<DeviceSet> make(std::vector<Device> devices, std::vector<Link> links);
  /// Every pair joined by the same link.
  static Result<DeviceSet> make(std::vector<Device> devices, Link everywhere);

  std::size_t size() const { return devices_.size(); }
  const Device& operator[](DeviceId id) const { return devices_[index(id)]; }
  std::span<const Device> devices() const { return devices_; }
  const Link& link(DeviceId source, DeviceId target) const {
    return links_[index(source) * size() + index(target)];
  }
  CopyEngine copies() const { return copies_; }
  DeviceSet with_copies(CopyEngine engine) const;
  /// How many times as long an op takes that starts while another device runs one: what they share (caches,
  /// memory) slows both. At least 1.
  double corun() const { return corun_; }
  DeviceSet with_corun(double factor) const;
  /// Errors: kInvalid, with the nearest name.
  Result<DeviceId> find(std::string_view name) const;
  bool is_cpu(DeviceId id) const { return devices_[index(id)].profile.kind == "cpu"; }
  /// sha256 over everything that decides a simulated time: names, profiles, memory, links, who copies. Hex.
  std::string sha256() const;

 private:
  std::vector<Device> devices_;
  std::vector<Link> links_;
  CopyEngine copies_ = CopyEngine::kSource;
  double corun_ = 1;
};

}  // namespace emplace
