#pragma once
/// Placement formats, one function and file each, and shared helpers.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "placement/export/placement_export.h"

namespace emplace::interop {

Result<ExportedPlacement> placement_onnx(const PlacementExport& what);
Result<ExportedPlacement> placement_submodels(const PlacementExport& what);
Result<ExportedPlacement> placement_accelerate(const PlacementExport& what);
Result<ExportedPlacement> placement_tensorflow(const PlacementExport& what);
Result<ExportedPlacement> placement_openvino(const PlacementExport& what);
Result<ExportedPlacement> placement_pipelining(const PlacementExport& what);
Result<ExportedPlacement> placement_vllm(const PlacementExport& what);
Result<ExportedPlacement> placement_deepspeed(const PlacementExport& what);

/// A device in the frameworks' terms: a kind, and a number among the devices of that kind on its host.
struct FrameworkDevice {
  bool gpu = false;
  std::uint32_t number = 0;
  std::uint32_t host = 0;  ///< Host number, in order of appearance.
};

/// The framework device of every device: from the device file if given, else parsed from the name ("gpu:1",
/// "cuda:1", "accel:1", "cpu:0"). Errors (kInvalid): the name of a used device cannot be parsed.
Result<std::vector<FrameworkDevice>> framework_devices(const PlacementExport& what);

/// For frameworks with one host and one CPU: the replacement of each device, where every CPU becomes the
/// lowest CPU in use. Errors (kInvalid): ops on several hosts.
Result<std::vector<DeviceId>> one_cpu(const PlacementExport& what,
                                      const std::vector<FrameworkDevice>& devices,
                                      std::string_view framework);

/// [ops] How much an op counts when the ops of a unit or a stage disagree: its time on its device, or without
/// the machine its work and traffic; at least 1.
std::vector<double> op_weights(const PlacementExport& what);

/// The text of a JSON file; invalid UTF-8 is replaced.
std::string file_text(const nlohmann::json& object);

/// Builds the result and counts the ops whose device differs.
ExportedPlacement exported(const PlacementExport& what, std::string content, Placement applied);

}  // namespace emplace::interop
