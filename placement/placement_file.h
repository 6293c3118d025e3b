#pragma once
/// Placements on disk: `format: "emplace-placement"`, ops and devices by name; version 1, or 2 with memory
/// decisions (docs/reference/file_formats.md).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/memory_plan.h"
#include "graph/op_graph.h"
#include "graph/order.h"
#include "placement/machine/device.h"
#include "placement/measurement.h"
#include "placement/placement.h"
#include "placement/strategy.h"

namespace emplace {

/// Metadata of a placement file.
struct PlacementInfo {
  std::string graph_sha256;
  std::string method, executor;  ///< Method that found it; executor that measured it.
  std::uint64_t seed = 0;
  std::string created;  ///< Creation time as "2026-01-31T12:34:56Z".
  MemoryPlan plan;      ///< Memory decisions; empty: the file has version 1.
  Strategy strategy;    ///< Steps that it was measured in.
  OpOrder order;        ///< Order of the plan's graph that the placement was measured in; empty: issue order.
};

/// Writes the file atomically. Errors: kIo; those of planned().
Result<Unit> save_placement(const std::filesystem::path& path, const OpGraph& graph, const DeviceSet& devices,
                            std::span<const DeviceId> placement, const Measurement& measured,
                            const PlacementInfo& info);

/// A placement on devices that are known only by name.
struct NamedPlacement {
  /// Names in the file's order, or in order of first use if the file has no list.
  std::vector<std::string> devices;
  Placement placement;  ///< Placement; ids index `devices`.
};

/// Whether a reader of placements knows memory decisions. One that does not refuses a file with them: without
/// them the placement is another one.
enum class Plans : std::uint8_t { kRefused, kKnown };

/// Errors: as load_placement, but a device is unknown if it is missing from the file's own list; kInvalid for
/// more than 256 devices.
Result<NamedPlacement> load_named_placement(const std::filesystem::path& path, const OpGraph& graph,
                                            const std::string& graph_sha256);

/// The devices that a placement file lists. Errors: kIo; kInvalid if it is not a placement file.
Result<std::vector<std::string>> placement_devices(const std::filesystem::path& path);

/// The method that a placement file names; empty: none. Errors: as placement_devices().
Result<std::string> placement_method(const std::filesystem::path& path);

/// Errors: kIo; kInvalid if it is not a placement file, is for another graph (by hash), names an unknown
/// device or op, or omits an op; has memory decisions that are refused.
Result<Placement> load_placement(const std::filesystem::path& path, const OpGraph& graph,
                                 const std::string& graph_sha256, const DeviceSet& devices,
                                 Plans plans = Plans::kRefused);

/// The memory decisions of a placement file; empty if it has none. Errors: kIo; kInvalid if it is not a
/// placement file, is for another graph (by hash), or names an unknown op, output or device.
Result<MemoryPlan> load_plan(const std::filesystem::path& path, const OpGraph& graph,
                             const std::string& graph_sha256, const DeviceSet& devices);

/// The strategy that a placement file states; one copy of one batch if it states none. Errors: kIo; kInvalid
/// if it is not a placement file, or its strategy is unknown here or needs other devices.
Result<Strategy> load_strategy(const std::filesystem::path& path, const DeviceSet& devices);

/// The order of the ops that a placement file lists; empty if it lists none. `graph`: that of the file's
/// plan, if it has one; the hash is always that of the original graph. Errors: kIo; kInvalid if it is not a
/// placement file, is for another graph (by hash), or its order omits, repeats or misnames an op, or has an
/// op before one of its inputs.
Result<OpOrder> load_order(const std::filesystem::path& path, const OpGraph& graph,
                           const std::string& graph_sha256);

}  // namespace emplace
