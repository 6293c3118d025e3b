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
#include "placement/pipeline/pipeline_order.h"

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
  const bool scheduled = what.strategy.pipelined() && what.stages == 0;
  made.cut = model.cut(made.starts, scheduled);
  if (scheduled) {
    // The search knows plain steps alone, and gives each stage a device.
    if (made.cut.applied != what.placement) {
      made.starts = model.blocks();
      made.cut = model.cut(made.starts, scheduled);
    }
    return made;
  }
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

/// [ranks] The actions of each device for each micro-batch, in PyTorch's words: "0F0,0F1,0B0,0B1\n", for
/// backward passes of stage 0 behind two forward ones. `ranks` [stages], from 0. `stage_ns`: [2 * stages]
/// the time of each forward pass in order, then of each backward pass from the last stage to the first.
std::string torch_schedule(const std::vector<std::uint32_t>& ranks, const Strategy& strategy,
                           const std::vector<std::int64_t>& stage_ns) {
  const auto stages = static_cast<std::uint32_t>(ranks.size());
  Chunks chunks;  // Forward chunks in order, then backward ones from the last stage to the first.
  for (std::uint32_t c = 0; c < 2 * stages; ++c) {
    const bool back = c >= stages;
    const std::uint32_t stage = back ? 2 * stages - 1 - c : c;
    chunks.chunks.push_back({.phase = back ? Phase::kBackward : Phase::kForward,
                             .level = back ? c - 1 : c,
                             .device = static_cast<DeviceId>(ranks[stage]),
                             .runs = strategy.micro_batches});
    chunks.sources.emplace_back();
    if (back && stage != stages - 1) chunks.sources.back().push_back(stage);
    if (c > 0) chunks.sources.back().push_back(c - 1);
  }
  const std::uint32_t used = *std::max_element(ranks.begin(), ranks.end()) + 1;
  const PipelineOrder order = pipeline_order(chunks, strategy, used, stage_ns);
  std::string text;
  for (const auto& actions : order.of_device) {
    std::string row;
    for (const std::uint32_t at : actions) {
      const auto [chunk, micro_batch] = order.actions[at];
      const bool back = chunk >= stages;
      row += fmt::format("{}{}{}{}", row.empty() ? "" : ",", back ? 2 * stages - 1 - chunk : chunk,
                         back ? 'B' : 'F', micro_batch);
    }
    text += row + "\n";
  }
  return text;
}

/// [2 * stages] The time of a forward pass of each stage in order, then of a backward pass from the last
/// stage to the first; without the machine one unit and two.
std::vector<std::int64_t> times_of_passes(const PlacementExport& what, const Stages& cut) {
  const std::size_t stages = cut.stages.size();
  std::vector<std::int64_t> ns(2 * stages, what.machine == nullptr ? 2 : 0);
  if (what.machine == nullptr) {
    std::fill_n(ns.begin(), stages, 1);
    return ns;
  }
  const CostTable costs{what.graph, *what.machine};
  for (std::uint32_t i = 0; i < what.graph.num_ops(); ++i) {
    const std::size_t stage = cut.stage_of_op[i];
    const Phase phase = what.graph.phase(OpId{i});
    if (what.graph.is_state(OpId{i}) || phase == Phase::kUpdate) continue;
    ns[phase == Phase::kForward ? stage : 2 * stages - 1 - stage] +=
        costs.ns(cut.stages[stage].device, OpId{i});
  }
  return ns;
}

/// One line for each stage that reads what is not of the stage before it.
std::vector<std::string> distant_reads(const OpGraph& graph, const std::vector<std::uint32_t>& stage_of_op) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> found;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.phase(OpId{i}) != Phase::kForward) continue;
    for (const TensorId input : graph.inputs(OpId{i})) {
      const OpId producer = graph.producer(input);
      if (graph.is_state(producer)) continue;
      const std::uint32_t from = stage_of_op[index(producer)], to = stage_of_op[i];
      if (to > from + 1) found.emplace(to, from);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [to, from] : found)
    lines.push_back(
        fmt::format("stage {} reads from stage {}, and PyTorch's schedules pass tensors between "
                    "neighbours alone; cut the model elsewhere",
                    to, from));
  return lines;
}

}  // namespace

Result<ExportedPlacement> placement_pipelining(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  const StagedModel model{what, devices, /*one_kind=*/false};
  if (model.modules().size() < 2)
    return invalid("--to pipelining", "the ops of the graph have no modules",
                   "export a model whose ops have the names of their modules");
  EMPLACE_TRY_ASSIGN(auto cut, staged(what, devices, model, model.modules()));
  auto distant = distant_reads(what.graph, cut.cut.stage_of_op);
  const auto stage_times = times_of_passes(what, cut.cut);
  auto made = exported(what, "", std::move(cut), /*owner_keeps_all=*/true);
  json spec = json::object(), stages = json::array();
  std::vector<std::uint32_t> ranks;  // [stages] Devices in the order in which they have their first stage.
  std::vector<DeviceId> device_of_rank;
  for (const ExportedStage& stage : made.stages) {
    const auto known = std::find(device_of_rank.begin(), device_of_rank.end(), stage.device);
    ranks.push_back(static_cast<std::uint32_t>(known - device_of_rank.begin()));
    if (known == device_of_rank.end()) device_of_rank.push_back(stage.device);
    if (!stages.empty()) spec[stage.starts_at] = "BEGINNING";
    const FrameworkDevice& device = devices[index(stage.device)];
    stages.push_back({{"stage", stages.size()},
                      {"device", what.devices[index(stage.device)]},
                      {"rank", ranks.back()},
                      {"torch_device", torch_device(device)},
                      {"host", device.host},
                      {"ops", stage.ops}});
  }
  json object{{"split_spec", std::move(spec)}, {"stages", std::move(stages)}};
  if (what.strategy.pipelined()) {
    object["micro_batches"] = what.strategy.micro_batches;
    object["schedule"] = word_of(what.strategy.schedule);
    object["schedule_csv"] = torch_schedule(ranks, what.strategy, stage_times);
    made.losses.insert(made.losses.end(), distant.begin(), distant.end());
  }
  made.content = file_text(object);
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
