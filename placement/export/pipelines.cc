// Export as stages of a pipeline: torch.distributed.pipelining, vLLM, DeepSpeed.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "placement/export/placement_formats.h"
#include "placement/export/stages.h"

namespace emplace::interop {
namespace {

using nlohmann::json;

/// The device of a stage in PyTorch's terms.
std::string torch_device(const FrameworkDevice& device) {
  return device.gpu ? fmt::format("cuda:{}", device.number) : "cpu";
}

ExportedPlacement staged(const PlacementExport& what, std::string content, Stages stages) {
  auto made = exported(what, std::move(content), std::move(stages.applied));
  made.parts = stages.stages.size();
  return made;
}

}  // namespace

Result<ExportedPlacement> placement_pipelining(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/false};
  const auto starts = model.modules();
  if (starts.size() < 2)
    return invalid("--to pipelining", "the ops of the graph have no modules",
                   "export a model whose ops have the names of their modules");
  Stages cut = model.cut(starts);
  json spec = json::object(), stages = json::array();
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    const Stages::Stage& stage = cut.stages[s];
    if (s > 0) spec[starts[stage.start].name] = "BEGINNING";
    const FrameworkDevice& device = devices[index(stage.device)];
    stages.push_back({{"stage", s},
                      {"device", what.devices[index(stage.device)]},
                      {"torch_device", torch_device(device)},
                      {"host", device.host},
                      {"ops", stage.ops}});
  }
  const json object{{"split_spec", std::move(spec)}, {"stages", std::move(stages)}};
  return staged(what, file_text(object), std::move(cut));
}

Result<ExportedPlacement> placement_vllm(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/true};
  EMPLACE_TRY_ASSIGN(const auto layers, model.numbered_layers());
  Stages cut = model.cut(layers);
  std::string text, counts;
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    const std::size_t first = cut.stages[s].start;
    const std::size_t end = s + 1 < cut.stages.size() ? cut.stages[s + 1].start : layers.size();
    text += fmt::format("# rank {}: {}, layers {} to {}\n", s,
                        torch_device(devices[index(cut.stages[s].device)]), first, end - 1);
    counts += fmt::format("{}{}", s == 0 ? "" : ",", end - first);
  }
  return staged(what, text + "VLLM_PP_LAYER_PARTITION=" + counts + "\n", std::move(cut));
}

Result<ExportedPlacement> placement_deepspeed(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/true};
  EMPLACE_TRY_ASSIGN(const auto layers, model.layers());
  Stages cut = model.cut(layers);
  json names = json::array(), parts = json::array(), of_stages = json::array();
  for (const StageStart& layer : layers) names.push_back(layer.name);
  for (const Stages::Stage& stage : cut.stages) {
    parts.push_back(stage.start);
    of_stages.push_back(torch_device(devices[index(stage.device)]));
  }
  parts.push_back(layers.size());
  const json object{
      {"layers", std::move(names)}, {"parts", std::move(parts)}, {"devices", std::move(of_stages)}};
  return staged(what, file_text(object), std::move(cut));
}

}  // namespace emplace::interop
