#pragma once
/// The catalogue: devices and links that are known by name, with the source of every value. Entries are added
/// and never changed, because device files and runs refer to them by name; what is corrected is of a new cost
/// version. docs/reference/machines.md lists it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "placement/machine/device.h"

namespace emplace {

/// placement/machine/catalogue.toml, which is compiled into the program.
extern const std::string_view kCatalogueToml;

/// Devices that share the ranges of their values, and a table of the page.
enum class DeviceFamily : std::uint8_t { kDataCentre, kDesktop, kUnified, kServerCpu, kDesktopCpu };

constexpr auto enum_words(DeviceFamily) {
  return EnumWords{"family",
                   std::array{EnumWord{DeviceFamily::kDataCentre, "GPUs for servers"},
                              EnumWord{DeviceFamily::kDesktop, "GPUs for desktops and workstations"},
                              EnumWord{DeviceFamily::kUnified, "GPUs that share the memory of the CPU"},
                              EnumWord{DeviceFamily::kServerCpu, "CPUs for servers"},
                              EnumWord{DeviceFamily::kDesktopCpu, "CPUs for desktops and workstations"}}};
}

/// A device of the catalogue.
struct CatalogueDevice {
  Profile profile;    ///< The profile of cost version 1.
  Profile profile_2;  ///< The profile of cost version 2: the same, with peaks by arithmetic, cache, tables
                      ///< and family.
  std::string alias;  ///< Another name; empty: none.
  std::string title;  ///< "NVIDIA H100 SXM5 80 GB"
  DeviceFamily family = DeviceFamily::kDataCentre;
  std::string matrix;     ///< What matrix_peak_gflops counts: "TF32", "FP32".
  std::string host_link;  ///< Link to the other devices of its machine; a name of the catalogue.
  /// Words that the name which a driver or /proc/cpuinfo reports has: "a100 40gb"; empty: not recognised.
  std::string reported;
  std::uint32_t cores = 0;  ///< CPUs: cores of the profile.
  std::string source;       ///< Data sheet or other source of the values.
  std::uint32_t units = 0;  ///< GPUs: multiprocessors, compute units or cores.
  std::string source_2;     ///< Source of what version 2 adds.
  /// The cost version that it was added with; hosts of the laboratory's worlds are drawn from those of 1.
  CostVersion since = CostVersion::k1;

  const Profile& profile_of(CostVersion costs) const {
    return costs == CostVersion::k1 ? profile : profile_2;
  }
};

/// A kind of link.
struct CatalogueLink {
  std::string name, title;
  Link link;    ///< Effective rate of one direction, below the signalling rate. Of cost version 1.
  Link link_2;  ///< The link of cost version 2: as measured where it was, else the same.
  std::string source;
  std::string source_2;  ///< Source of link_2 where it differs, else empty.

  const Link& link_of(CostVersion costs) const { return costs == CostVersion::k1 ? link : link_2; }
};

std::span<const CatalogueDevice> catalogue_devices();
std::span<const CatalogueLink> catalogue_links();

/// Finds a device by name or alias. Capital letters, '-' and '_' make no difference: "RTX-4090" is "rtx4090".
/// Returns null if there is none.
const CatalogueDevice* known_device(std::string_view name);
const CatalogueLink* known_link(std::string_view name);
/// Errors (kInvalid): unknown, with the nearest name: "link 'nvlink9' is unknown; did you mean 'nvlink5'?".
Result<CatalogueLink> find_link(std::string_view name);
/// The name of the device nearest to `name`; empty if none is near.
std::string_view nearest_device(std::string_view name);

/// The device that hardware reports itself as: "NVIDIA A100-SXM4-40GB", "AMD EPYC 7742 64-Core Processor".
/// Null if none matches, or if the name has a word for another variant, such as "Laptop" or "Ti". Where
/// variants differ only in memory, the one nearest to `memory_bytes` is returned, unless it is 0.
const CatalogueDevice* recognised_device(std::string_view reported, std::int64_t memory_bytes = 0);

/// The link between two devices of one machine, of a cost version: the slower of their host links.
Link default_link(const CatalogueDevice& a, const CatalogueDevice& b, CostVersion costs = kUnstatedCosts);

}  // namespace emplace
