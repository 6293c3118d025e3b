#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/pipeline/pipeline_simulator.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "graph/training/micro_batch.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "placement/export/module_tree.h"
#include "placement/export/placement_export.h"
#include "placement/machine/machine_text.h"
#include "placement/order.h"
#include "placement/placement_file.h"
#include "solver/methods.h"
#include "solver/modules/unit_search.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// A placement, and its machine if --devices is given.
struct PlacementFile {
  OpGraph graph;
  std::vector<std::string> devices;
  Placement placement;
  std::optional<DeviceSet> machine;
  std::optional<Constraints> constraints;  ///< With the machine.
  std::string sha256;                      ///< Hash of the graph.
  OpOrder order;                           ///< Order that the placement file lists; empty: issue order.
  Strategy strategy;                       ///< Steps that the placement file states.
  bool searched = false;                   ///< A method of ours found the placement, and no rules limited it.
};

/// Simulated measurements of the placement, before the export and as exported.
struct Costs {
  Measurement before, after;
};

/// The simulated steps of an export. Not to be moved: its parts refer to one another.
struct Simulation {
  Simulation(const PlacementFile& file, SimulatorOptions options)
      : simulator{file.graph, *file.machine, options},
        problem{file.graph, *file.machine, *file.constraints, simulator.costs()},
        search{problem, simulator} {}
  Simulator simulator;
  Problem problem;
  UnitSearch search;
  bool fits = false;  ///< Whether the placement does.
};

class Export final : public Command {
 public:
  explicit Export(Extensions extensions)
      : Command{"export", "Write a placement, or the measurements of a run, in the format of another tool",
                "emplace export placement.json --graph configs/graphs/nmt-2layer-bs64.json.gz --to csv -o "
                "placement.csv"},
        extensions_{std::move(extensions)} {}
  void declare(Options& options) override {
    options.operand("WHAT", what_, "Placement file, or run directory")
        .required("--to", format_,
                  "Format: onnx, submodels, accelerate, pipelining, vllm, deepspeed, tensorflow, openvino, "
                  "dot, csv or graph (the graph with the ops of the memory plan) "
                  "for a placement; csv, jsonl or tensorboard for a run")
        .option("-o,--output", output_,
                "File to write; for submodels a folder, and for tensorboard (default there: RUN/tensorboard)")
        .option("--graph,-g", graph_,
                "Placement: its graph file; for onnx and submodels the .onnx file itself")
        .non_empty("--devices,-d", devices_,
                   "Placement: its machine, as for emplace place, to simulate the cost of a lossy export "
                   "(default: none)")
        .option("--reserve", inputs_.reserve,
                "Placement: memory kept free per device, e.g. 10% or 2GiB (default: 0%)")
        .option("--rules", inputs_.rules,
                "Placement: rules file that device maps and stages obey (default: none)")
        .option("--dispatch", inputs_.dispatch,
                "Placement: order in which a device runs ready ops: program or fifo")
        .option("--stages", stages_,
                "Placement, pipelining, vllm and deepspeed: number of stages (default: as many as GPUs are "
                "in use)")
        .option("--applied", applied_,
                "Placement: also write the placement as exported, after lossy moves; needs --devices")
        .option("--modules", modules_,
                "Placement, accelerate: file with the names of the model's modules and tensors, one per line")
        .option("--table", table_,
                "Run: table to export, measurements (csv), episodes (csv, jsonl) or updates (csv, jsonl) "
                "(default: the first of the format)");
    declare_costs(options, inputs_);
    declare_reading(options, inputs_.reading);
  }
  Result<ExitStatus> run(Console& console) override {
    std::error_code ignored;
    return fs::is_directory(what_, ignored) ? export_run_data(console) : export_placement_file(console);
  }

 private:
  Result<ExitStatus> export_run_data(Console& console) const;
  Result<ExitStatus> export_placement_file(Console& console);
  /// Writes the graph of the placement's memory plan.
  Result<ExitStatus> export_graph(Console& console) const;
  /// Errors: those of reading the files; with --devices, a placement that violates a constraint of the graph.
  Result<PlacementFile> open_placement() const;
  Result<std::vector<std::string>> read_modules() const;
  /// Null without the machine.
  Result<std::unique_ptr<Simulation>> simulation_of(const PlacementFile& file, Console& console) const;
  Json json_of(const PlacementFile& file, const interop::ExportedPlacement& made,
               const std::optional<Costs>& costs) const;
  void warn(const PlacementFile& file, const interop::ExportedPlacement& made,
            const std::optional<Costs>& costs, Console& console) const;
  Result<Unit> write_applied(const PlacementFile& file, const Placement& applied, const Measurement& measured,
                             std::uint64_t seed) const;
  Error missing(std::string_view option, std::string_view cure) const {
    return invalid("emplace export", std::string{option} + " is not given", cure);
  }
  Error not_for(std::string_view option, std::string_view what) const {
    return invalid(option, "is not for " + std::string{what});
  }

  const Extensions extensions_;
  std::string what_, format_, output_, graph_, devices_, applied_, modules_, table_;
  InputOptions inputs_;
  std::uint64_t stages_ = 0;
};

Result<ExitStatus> Export::export_run_data(Console& console) const {
  for (const auto& [option, given] : {std::pair{"--graph", !graph_.empty()},
                                      {"--devices", !devices_.empty()},
                                      {"--reserve", !inputs_.reserve.empty()},
                                      {"--rules", !inputs_.rules.empty()},
                                      {"--stages", stages_ > 0},
                                      {"--applied", !applied_.empty()},
                                      {"--modules", !modules_.empty()}})
    if (given) return not_for(option, "a run");
  if (output_.empty() && format_ != "tensorboard") return missing("-o", "add -o FILE");
  return extensions_.export_run({.run = what_, .format = format_, .output = output_, .table = table_},
                                console);
}

/// Returns "exact, 91 ops on 3 devices", or for a lossy export the moved ops and the cost.
std::string description(const PlacementFile& file, const interop::ExportedPlacement& made,
                        const std::optional<Costs>& costs) {
  const auto step = [](const Measurement& measured) {
    return measured.valid ? format_seconds(measured.step_time_s) : std::string{"does not fit"};
  };
  std::string text = made.exact() ? "exact, " : "lossy, ";
  if (made.moved_ops > 0) text += fmt::format("{} of ", made.moved_ops);
  text += fmt::format("{} ops{} on {} devices", file.graph.num_ops(), made.moved_ops > 0 ? " moved" : "",
                      file.devices.size());
  if (made.parts > 0) text += fmt::format(", {} parts", made.parts);
  double slowest = 0;
  for (const interop::ExportedStage& stage : made.stages) slowest = std::max(slowest, stage.time_s);
  if (slowest > 0) text += ", slowest stage " + format_seconds(slowest);
  if (!costs) return text + (made.moved_ops > 0 ? "; add --devices for the cost" : "");
  if (made.moved_ops == 0) return text + ", step time " + step(costs->before);
  text += ", step time " + step(costs->before) + " -> " + step(costs->after);
  if (costs->before.valid && costs->after.valid)
    text += fmt::format(" ({:+.1f} %)", 100 * (costs->after.step_time_s / costs->before.step_time_s - 1));
  return text;
}

Result<PlacementFile> Export::open_placement() const {
  if (devices_.empty()) {
    for (const auto& [option, given] : {std::pair{"--reserve", !inputs_.reserve.empty()},
                                        {"--rules", !inputs_.rules.empty()},
                                        {"--stages", stages_ > 0}})
      if (given) return invalid(option, "needs the machine", "add --devices");
  }
  EMPLACE_TRY_ASSIGN(auto graph, open_graph(graph_, inputs_.reading));
  PlacementFile file{std::move(graph), {}, {}, {}, {}, {}, {}};
  file.sha256 = graph_sha256(file.graph);
  if (devices_.empty()) {
    EMPLACE_TRY_ASSIGN(auto named, load_named_placement(what_, file.graph, file.sha256));
    EMPLACE_TRY_ASSIGN(file.order, load_order(what_, file.graph, file.sha256));
    file.devices = std::move(named.devices);
    file.placement = std::move(named.placement);
    return file;
  }
  Reserve reserve;
  if (!inputs_.reserve.empty()) {
    const auto parsed = parse_reserve(inputs_.reserve);
    if (!parsed) return invalid("--reserve", parsed.error().context);
    reserve = *parsed;
  }
  EMPLACE_TRY_ASSIGN(const auto costs, inputs_.cost_version());
  EMPLACE_TRY_ASSIGN(file.machine, open_devices(devices_, reserve, costs));
  EMPLACE_TRY_ASSIGN(file.strategy, load_strategy(what_, *file.machine));
  if (file.strategy.pipelined()) {
    if (auto checked = check_micro_batches(file.graph); !checked)
      return invalid(printable(what_), checked.error().context);
    if (format_ == "pipelining" && file.strategy.num_replicas() > 1)
      return invalid(printable(what_), "has replicas, and a file of stages has one copy of the model",
                     "place it with --replicas 1");
  }
  EMPLACE_TRY_ASSIGN(auto placement, load_placement(what_, file.graph, file.sha256, *file.machine));
  EMPLACE_TRY_ASSIGN(file.order, load_order(what_, file.graph, file.sha256));
  EMPLACE_TRY_ASSIGN(const auto rules, open_rules(inputs_.rules, file.graph, *file.machine));
  auto constraints = Constraints::make(file.graph, *file.machine, rules);
  if (!constraints) return invalid(printable(graph_), constraints.error().context);
  if (auto obeyed = constraints->check(file.graph, *file.machine, placement); !obeyed)
    return invalid(printable(what_), obeyed.error().context);
  file.constraints = *std::move(constraints);
  EMPLACE_TRY_ASSIGN(const std::string method, placement_method(what_));
  file.searched = inputs_.rules.empty() && find_method(method).ok();
  file.devices = file.machine->names();
  file.placement = std::move(placement);
  return file;
}

Result<std::unique_ptr<Simulation>> Export::simulation_of(const PlacementFile& file, Console& console) const {
  if (!file.machine) return std::unique_ptr<Simulation>{};
  EMPLACE_TRY_ASSIGN(const Judge judge, parse_judge(inputs_.objective, inputs_.dispatch));
  auto made = std::make_unique<Simulation>(file, judge.simulator);
  if (!file.order.empty() && judge.simulator.dispatch == Dispatch::kProgram) {
    EMPLACE_TRY(made->simulator.set_order(file.order));
    console.note("order: from the placement file");
  }
  Measurement measured;
  EMPLACE_TRY(made->simulator.measure(file.placement, measured));
  made->fits = measured.valid;
  return made;
}

/// The names in the file of --modules; none without it.
Result<std::vector<std::string>> Export::read_modules() const {
  if (modules_.empty()) return std::vector<std::string>{};
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  EMPLACE_TRY_ASSIGN(const auto text, read_file(modules_, kLargest));
  return interop::parse_module_names(text_of(text), printable(modules_));
}

/// Writes the applied placement in the format of `place`, so that other commands can read it.
Result<Unit> Export::write_applied(const PlacementFile& file, const Placement& applied,
                                   const Measurement& measured, std::uint64_t seed) const {
  const PlacementInfo info{.graph_sha256 = file.sha256,
                           .method = "export " + format_,
                           .executor = "sim",
                           .seed = seed,
                           .created = format_wall(SystemClock{}.wall()),
                           .strategy = file.strategy,
                           .order = file.order};
  return save_placement(applied_, file.graph, *file.machine, applied, measured, info);
}

Json Export::json_of(const PlacementFile& file, const interop::ExportedPlacement& made,
                     const std::optional<Costs>& costs) const {
  Json json{{"placement", what_},    {"format", format_},           {"output", output_},
            {"exact", made.exact()}, {"ops", file.graph.num_ops()}, {"moved_ops", made.moved_ops}};
  json["step_time_s"] = costs && costs->before.valid ? costs->before.step_time_s : kJsonNull;
  json["applied_step_time_s"] = costs && costs->after.valid ? costs->after.step_time_s : kJsonNull;
  if (!made.losses.empty()) json["losses"] = made.losses;
  if (file.strategy.pipelined())
    json["strategy"] = {{"micro_batches", file.strategy.micro_batches},
                        {"schedule", word_of(file.strategy.schedule)}};
  const bool by_module = format_ == "accelerate" || !made.stages.empty();
  if (costs && by_module) json["peak_memory_bytes"] = costs->after.peak_bytes;
  if (made.parts > 0) json["parts"] = made.parts;
  if (made.stages.empty()) return json;
  Json stages = Json::array();
  double slowest = 0;
  for (const interop::ExportedStage& stage : made.stages) {
    slowest = std::max(slowest, stage.time_s);
    Json one{{"device", file.devices[index(stage.device)]},
             {"starts_at", stage.starts_at},
             {"ops", stage.ops},
             {"state_bytes", stage.state_bytes}};
    if (costs) {
      one["time_s"] = stage.time_s;
      one["memory_bytes"] = costs->after.peak_bytes[index(stage.device)];
    }
    stages.push_back(std::move(one));
  }
  json["stages"] = std::move(stages);
  if (costs) json["slowest_stage_s"] = slowest;
  return json;
}

/// What the export does otherwise than the placement, and which stage or device does not fit.
void Export::warn(const PlacementFile& file, const interop::ExportedPlacement& made,
                  const std::optional<Costs>& costs, Console& console) const {
  for (const std::string& loss : made.losses) console.warn("--to " + format_ + ": " + loss);
  if (!costs || costs->after.valid) return;
  std::string stages;
  for (std::size_t s = 0; s < made.stages.size(); ++s) {
    const DeviceId device = made.stages[s].device;
    if (costs->after.peak_bytes[index(device)] > (*file.machine)[device].memory_bytes)
      stages += fmt::format("{}{}", stages.empty() ? ", in stage " : ", ", s);
  }
  console.warn("the exported placement does not fit: " + misfit(costs->after, *file.machine) + stages);
}

Result<ExitStatus> Export::export_graph(Console& console) const {
  if (devices_.empty()) return missing("--devices", "a memory plan names devices");
  EMPLACE_TRY_ASSIGN(const auto costs, inputs_.cost_version());
  EMPLACE_TRY_ASSIGN(const DeviceSet machine, open_devices(devices_, {}, costs));
  EMPLACE_TRY_ASSIGN(const OpGraph graph, open_graph(graph_, inputs_.reading));
  const std::string sha256 = graph_sha256(graph);
  EMPLACE_TRY_ASSIGN(const MemoryPlan plan, load_plan(what_, graph, sha256, machine));
  const auto made = planned(graph, plan, machine.names());
  if (!made) return Error{made.error().code, printable(what_) + ": " + made.error().context};
  EMPLACE_TRY(save_graph(made->graph, output_));
  const std::size_t added = made->graph.num_ops() - graph.num_ops();
  Json json{{"placement", what_}, {"format", format_}, {"output", output_}, {"exact", true}};
  json["ops"] = made->graph.num_ops();
  json["added_ops"] = added;
  json["moved_ops"] = 0;
  console.print(console.json() ? json_text(json)
                               : fmt::format("{}: exact, {} ops, {} of them the plan's", printable(output_),
                                             made->graph.num_ops(), added));
  return ExitStatus::kDone;
}

Result<ExitStatus> Export::export_placement_file(Console& console) {
  if (!table_.empty()) return not_for("--table", "a placement");
  if (graph_.empty()) return missing("--graph", "a placement needs its graph; for a run give its directory");
  if (output_.empty()) return missing("-o", "add -o FILE");
  if (!applied_.empty() && devices_.empty()) return missing("--devices", "--applied needs it to measure");
  if (format_ == "graph") return export_graph(console);
  EMPLACE_TRY_ASSIGN(const auto file, open_placement());
  const fs::path graph_path = graph_file_of(graph_);
  EMPLACE_TRY_ASSIGN(const auto graph_file,
                     format_ == "onnx" || format_ == "submodels" || format_ == "openvino"
                         ? read_graph_file(graph_path)
                         : Result<Bytes>{Bytes{}});
  EMPLACE_TRY_ASSIGN(const auto reading, inputs_.reading.options());
  EMPLACE_TRY_ASSIGN(auto modules, read_modules());
  EMPLACE_TRY_ASSIGN(auto simulated, simulation_of(file, console));
  EMPLACE_TRY_ASSIGN(const auto made,
                     interop::export_placement(format_, {.graph = file.graph,
                                                         .devices = file.devices,
                                                         .placement = file.placement,
                                                         .machine = file.machine ? &*file.machine : nullptr,
                                                         .graph_file = graph_file,
                                                         .output = output_,
                                                         .graph_folder = graph_path.parent_path(),
                                                         .dims = reading.dims,
                                                         .modules = std::move(modules),
                                                         .order = file.order,
                                                         .search = simulated ? &simulated->search : nullptr,
                                                         .keep_exact = !file.searched || !simulated->fits,
                                                         .stages = stages_,
                                                         .strategy = file.strategy}));
  std::optional<Costs> costs;
  if (simulated) {
    costs.emplace();
    std::optional<PipelineSimulator> pipeline;
    if (file.strategy.pipelined()) pipeline.emplace(file.graph, *file.machine, file.strategy);
    Executor& steps = pipeline ? static_cast<Executor&>(*pipeline) : simulated->simulator;
    EMPLACE_TRY(steps.measure(file.placement, costs->before));
    EMPLACE_TRY(steps.measure(made.applied, costs->after));
  }
  EMPLACE_TRY(
      write_file(made.file.empty() ? fs::path{output_} : fs::path{output_} / made.file, made.content));
  if (!applied_.empty()) {
    EMPLACE_TRY(write_applied(file, made.applied, costs->after, console.seed()));
  }
  console.print(console.json() ? json_text(json_of(file, made, costs))
                               : printable(output_) + ": " + description(file, made, costs));
  warn(file, made, costs, console);
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_export(const Extensions& extensions) {
  return std::make_unique<Export>(extensions);
}

}  // namespace emplace::launcher
