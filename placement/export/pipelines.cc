// Export as stages of a pipeline: torch.distributed.pipelining, vLLM, DeepSpeed.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text/words.h"
#include "placement/export/placement_formats.h"
#include "placement/export/stages.h"
#include "placement/machine/cost_model.h"

namespace emplace::interop {
namespace {

using nlohmann::json;

/// The device of a stage in PyTorch's terms.
std::string torch_device(const FrameworkDevice& device) {
  return device.gpu ? fmt::format("cuda:{}", device.number) : "cpu";
}

/// A model in stages, each from one of the starts on.
struct StagedExport {
  std::vector<StageStart> starts;
  Stages cut;
};

/// GPUs, if there are any and enough for a stage each; else all devices.
std::vector<DeviceId> choice_of(const std::vector<FrameworkDevice>& devices, std::size_t stages) {
  std::vector<DeviceId> gpus, all;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    all.push_back(static_cast<DeviceId>(d));
    if (devices[d].gpu) gpus.push_back(all.back());
  }
  return !gpus.empty() && stages <= gpus.size() ? gpus : all;
}

/// Cuts the model where the placement is cut, if the format can represent it; else by the search, if there is
/// one, before blocks, so that all formats have one cut. `own`: starts of the format, for a placement that it
/// can represent, and for more stages than there are blocks. Errors (kInvalid): more stages than starts.
Result<StagedExport> staged(const PlacementExport& what, const std::vector<FrameworkDevice>& devices,
                            const StagedModel& model, std::vector<StageStart> own) {
  StagedExport made{std::move(own), {}};
  made.cut = model.cut(made.starts);
  const bool kept = what.keep_exact && made.cut.applied == what.placement &&
                    (what.stages == 0 || what.stages == made.cut.stages.size());
  if (what.search == nullptr || kept) return made;
  std::size_t stages = what.stages;
  if (stages == 0) {  // As many as GPUs are in use, if there are any.
    const auto gpus = std::count_if(model.used().begin(), model.used().end(),
                                    [&](DeviceId device) { return devices[index(device)].gpu; });
    stages = gpus > 0 ? static_cast<std::size_t>(gpus) : model.used().size();
  }
  const auto segments = [&](const std::vector<StageStart>& starts) {
    std::set<std::size_t> firsts;
    for (const StageStart& start : starts) firsts.insert(start.first);
    return firsts.size();
  };
  if (auto blocks = model.blocks(); segments(blocks) >= stages) made.starts = std::move(blocks);
  if (what.stages == 0) stages = std::min(stages, segments(made.starts));
  if (stages > segments(made.starts))
    return invalid("--stages " + std::to_string(stages),
                   fmt::format("the model can be cut before {} modules, so into {} stages at most",
                               segments(made.starts) - 1, segments(made.starts)),
                   "ask for fewer stages, or name ops by their modules");
  const auto segment_of_op = model.segments(made.starts);
  EMPLACE_TRY_ASSIGN(const auto plan,
                     what.search->cut({.unit_of_op = segment_of_op,
                                       .units = segments(made.starts),
                                       .devices = choice_of(devices, stages),
                                       .runs = [](std::span<const DeviceId>) { return true; }},
                                      stages));
  made.cut = model.stages(made.starts, plan);
  return made;
}

/// The modules that read a weight in the forward pass, and the stage of each.
std::set<std::pair<std::size_t, std::string_view>> reading_modules(const OpGraph& graph, const Stages& cut,
                                                                   OpId weight) {
  std::set<std::pair<std::size_t, std::string_view>> modules;
  for (const OpId reader : graph.readers(weight))
    if (graph.phase(reader) == Phase::kForward)
      modules.emplace(cut.stage_of_op[index(reader)], graph.group_name(reader));
  return modules;
}

/// State and times of the stages, and the weights that several of them keep. `owner_keeps_all`: the first
/// stage that reads a weight keeps a copy for every module that does.
ExportedPlacement exported(const PlacementExport& what, std::string content, StagedExport staged,
                           bool owner_keeps_all) {
  const OpGraph& graph = what.graph;
  auto made = exported(what, std::move(content), std::move(staged.cut.applied));
  made.parts = staged.cut.stages.size();
  for (const Stages::Stage& stage : staged.cut.stages)
    made.stages.push_back({.start = stage.start,
                           .starts_at = made.stages.empty() ? "" : staged.starts[stage.start].name,
                           .device = stage.device,
                           .ops = stage.ops});
  std::optional<CostTable> costs;
  if (what.machine != nullptr) costs.emplace(graph, *what.machine);
  std::vector<std::int64_t> state(graph.num_ops(), 0);  // A weight with what belongs to it.
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    OpId leader{i};
    while (graph.colocated_with(leader) != kNoOp) leader = graph.colocated_with(leader);
    state[index(leader)] += graph.param_bytes(OpId{i});
    ExportedStage& stage = made.stages[staged.cut.stage_of_op[i]];
    stage.state_bytes += graph.param_bytes(OpId{i});
    if (costs) stage.time_s += 1e-9 * static_cast<double>(costs->ns(stage.device, OpId{i}));
  }
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (!graph.is_state(op) || graph.type_name(op) == "Input" || graph.param_bytes(op) == 0) continue;
    const auto modules = reading_modules(graph, staged.cut, op);
    const std::size_t own = staged.cut.stage_of_op[i];
    if (std::all_of(modules.begin(), modules.end(), [&](const auto& one) { return one.first == own; }))
      continue;
    std::set<std::size_t> readers;
    for (const auto& one : modules) readers.insert(one.first);
    for (const std::size_t stage : readers)
      if (stage != own) made.stages[stage].state_bytes += state[i];
    if (owner_keeps_all)
      made.stages[own].state_bytes += state[i] * static_cast<std::int64_t>(modules.size() - 1);
    made.losses.push_back(
        fmt::format("'{}' is read in {} stages, each of which has a copy and trains it by itself",
                    printable(graph.name(op), 80), readers.size()));
  }
  return made;
}

}  // namespace

Result<ExportedPlacement> placement_pipelining(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/false};
  if (model.modules().size() < 2)
    return invalid("--to pipelining", "the ops of the graph have no modules",
                   "export a model whose ops have the names of their modules");
  EMPLACE_TRY_ASSIGN(auto cut, staged(what, devices, model, model.modules()));
  auto made = exported(what, "", std::move(cut), /*owner_keeps_all=*/true);
  json spec = json::object(), stages = json::array();
  for (const ExportedStage& stage : made.stages) {
    if (!stages.empty()) spec[stage.starts_at] = "BEGINNING";
    const FrameworkDevice& device = devices[index(stage.device)];
    stages.push_back({{"stage", stages.size()},
                      {"device", what.devices[index(stage.device)]},
                      {"torch_device", torch_device(device)},
                      {"host", device.host},
                      {"ops", stage.ops}});
  }
  made.content = file_text({{"split_spec", std::move(spec)}, {"stages", std::move(stages)}});
  return made;
}

Result<ExportedPlacement> placement_vllm(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/true};
  EMPLACE_TRY_ASSIGN(const auto layers, model.numbered_layers());
  EMPLACE_TRY_ASSIGN(auto cut, staged(what, devices, model, layers));
  const auto layer_of = [&](std::size_t stage) {  // Its first layer.
    if (stage == 0) return std::size_t{0};
    if (stage == cut.cut.stages.size()) return layers.size();
    const std::size_t first = cut.starts[cut.cut.stages[stage].start].first;
    return static_cast<std::size_t>(
        std::find_if(layers.begin(), layers.end(),
                     [&](const StageStart& layer) { return layer.first >= first; }) -
        layers.begin());
  };
  std::string text, counts;
  for (std::size_t s = 0; s < cut.cut.stages.size(); ++s) {
    const std::size_t first = layer_of(s), end = layer_of(s + 1);
    const std::string device = torch_device(devices[index(cut.cut.stages[s].device)]);
    text += first == end ? fmt::format("# rank {}: {}, no layer\n", s, device)
                         : fmt::format("# rank {}: {}, layers {} to {}\n", s, device, first, end - 1);
    counts += fmt::format("{}{}", s == 0 ? "" : ",", end - first);
  }
  return exported(what, text + "VLLM_PP_LAYER_PARTITION=" + counts + "\n", std::move(cut), false);
}

Result<ExportedPlacement> placement_deepspeed(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/true};
  EMPLACE_TRY_ASSIGN(const auto layers, model.layers());
  EMPLACE_TRY_ASSIGN(auto cut, staged(what, devices, model, layers));
  json names = json::array(), parts = json::array(), of_stages = json::array();
  for (const StageStart& layer : layers) names.push_back(layer.name);
  for (const Stages::Stage& stage : cut.cut.stages) {
    const std::size_t first = cut.starts[stage.start].first;
    parts.push_back(parts.empty() ? 0
                                  : std::find_if(layers.begin(), layers.end(), [&](const StageStart& layer) {
                                      return layer.first >= first;
                                    }) - layers.begin());
    of_stages.push_back(torch_device(devices[index(stage.device)]));
  }
  parts.push_back(layers.size());
  const json object{
      {"layers", std::move(names)}, {"parts", std::move(parts)}, {"devices", std::move(of_stages)}};
  return exported(what, file_text(object), std::move(cut), false);
}

}  // namespace emplace::interop
