#pragma once
/// Placements on disk: `format: "emplace-placement"`, version 1, ops and devices by name.
/// docs/reference/file_formats.md.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"

namespace emplace {

/// What a placement file says besides the placement.
struct PlacementInfo {
  std::string graph_sha256;
  std::string method, executor;  ///< Who found it, who measured it.
  std::uint64_t seed = 0;
  std::string created;  ///< "2026-01-31T12:34:56Z"
};

/// Complete or not at all. Errors: kIo.
Result<Unit> save_placement(const std::filesystem::path& path, const OpGraph& graph, const DeviceSet& devices,
                            std::span<const DeviceId> placement, const Measurement& measured,
                            const PlacementInfo& info);

/// A placement on devices of which only the names are known.
struct NamedPlacement {
  std::vector<std::string> devices;  ///< As the file lists them, or without a list as ops name them.
  Placement placement;               ///< Counts `devices`.
};

/// Errors: as load_placement, where unknown devices are those that the file's own list lacks; kInvalid for
/// more than 256.
Result<NamedPlacement> load_named_placement(const std::filesystem::path& path, const OpGraph& graph,
                                            const std::string& graph_sha256);

/// The devices that a placement file lists. Errors: kIo; kInvalid if it is no placement.
Result<std::vector<std::string>> placement_devices(const std::filesystem::path& path);

/// Errors: kIo; kInvalid if it is no placement, of another graph (by hash), names an unknown device or op, or
/// leaves one out.
Result<Placement> load_placement(const std::filesystem::path& path, const OpGraph& graph,
                                 const std::string& graph_sha256, const DeviceSet& devices);

}  // namespace emplace
