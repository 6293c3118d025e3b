#pragma once
/// The formats of a placement, one file each, and what several of them need.

#include <cstdint>

#include "record/export/placement_export.h"

namespace emplace::record {

Result<ExportedPlacement> placement_csv(const PlacementExport& what);
Result<ExportedPlacement> placement_dot(const PlacementExport& what);
Result<ExportedPlacement> placement_onnx(const PlacementExport& what);
Result<ExportedPlacement> placement_accelerate(const PlacementExport& what);
Result<ExportedPlacement> placement_tensorflow(const PlacementExport& what);
Result<ExportedPlacement> placement_openvino(const PlacementExport& what);

/// A device as the frameworks call it: a kind, and a number among those of its kind on its host.
struct FrameworkDevice {
  bool gpu = false;
  std::uint32_t number = 0;
  std::uint32_t host = 0;  ///< By order of appearance.
};

/// Of every device, by what the machine says or else by its name: "gpu:1", "cuda:1", "accel:1", "cpu:0".
/// Errors (kInvalid): a device that some op is on and whose name does not tell, naming it.
Result<std::vector<FrameworkDevice>> framework_devices(const PlacementExport& what);

/// For frameworks of one host and one CPU: the device that stands for each, the lowest CPU in use for every
/// CPU. Errors (kInvalid): ops on several hosts.
Result<std::vector<DeviceId>> one_cpu(const PlacementExport& what,
                                      const std::vector<FrameworkDevice>& devices,
                                      std::string_view framework);

/// With `content`, and what differs counted.
ExportedPlacement exported(const PlacementExport& what, std::string content, Placement applied);

}  // namespace emplace::record
