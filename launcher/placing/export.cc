#include <fmt/core.h>

#include <filesystem>
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
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "launcher/placing/extensions.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/terminal/json_text.h"
#include "placement/export/module_tree.h"
#include "placement/export/placement_export.h"
#include "placement/machine/machine_text.h"
#include "placement/order.h"
#include "placement/placement_file.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// A placement, and its machine if --devices is given.
struct PlacementFile {
  OpGraph graph;
  std::vector<std::string> devices;
  Placement placement;
  std::optional<DeviceSet> machine;
  std::string sha256;  ///< Hash of the graph.
  OpOrder order;       ///< Order that the placement file lists; empty: issue order.
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
                  "dot or csv "
                  "for a placement; csv, jsonl or tensorboard for a run")
        .option("-o,--output", output_,
                "File to write; for submodels a folder, and for tensorboard (default there: RUN/tensorboard)")
        .option("--graph,-g", graph_,
                "Placement: its graph file; for onnx and submodels the .onnx file itself")
        .non_empty("--devices,-d", devices_,
                   "Placement: its machine, as for emplace place, to simulate the cost of a lossy export "
                   "(default: none)")
        .option("--applied", applied_,
                "Placement: also write the placement as exported, after lossy moves; needs --devices")
        .option("--modules", modules_,
                "Placement, accelerate: file with the names of the model's modules and tensors, one per line")
        .option("--table", table_,
                "Run: table to export, measurements (csv), episodes (csv, jsonl) or updates (csv, jsonl) "
                "(default: the first of the format)");
    declare_reading(options, reading_);
  }
  Result<ExitStatus> run(Console& console) override {
    std::error_code ignored;
    return fs::is_directory(what_, ignored) ? export_run_data(console) : export_placement_file(console);
  }

 private:
  Result<ExitStatus> export_run_data(Console& console) const;
  Result<ExitStatus> export_placement_file(Console& console);
  /// Errors: those of reading the files; with --devices, a placement that violates a constraint of the graph.
  Result<PlacementFile> open_placement() const;
  Result<std::vector<std::string>> read_modules() const;
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
  GraphReading reading_;
};

Result<ExitStatus> Export::export_run_data(Console& console) const {
  if (!graph_.empty()) return not_for("--graph", "a run");
  if (!devices_.empty()) return not_for("--devices", "a run");
  if (!applied_.empty()) return not_for("--applied", "a run");
  if (!modules_.empty()) return not_for("--modules", "a run");
  if (output_.empty() && format_ != "tensorboard") return missing("-o", "add -o FILE");
  return extensions_.export_run({.run = what_, .format = format_, .output = output_, .table = table_},
                                console);
}

/// Simulated measurements of the placement, before the export and as exported.
struct Costs {
  Measurement before, after;
};

/// Returns "exact, 91 ops on 3 devices", or for a lossy export the moved ops and the cost.
std::string description(const PlacementFile& file, const interop::ExportedPlacement& made,
                        const std::optional<Costs>& costs) {
  const auto step = [](const Measurement& measured) {
    return measured.valid ? format_seconds(measured.step_time_s) : std::string{"does not fit"};
  };
  std::string text = made.moved_ops == 0 ? "exact, " : "lossy, ";
  if (made.moved_ops > 0) text += fmt::format("{} of ", made.moved_ops);
  text += fmt::format("{} ops{} on {} devices", file.graph.num_ops(), made.moved_ops > 0 ? " moved" : "",
                      file.devices.size());
  if (made.parts > 0) text += fmt::format(", {} parts", made.parts);
  if (!costs) return text + (made.moved_ops > 0 ? "; add --devices for the cost" : "");
  if (made.moved_ops == 0) return text + ", step time " + step(costs->before);
  text += ", step time " + step(costs->before) + " -> " + step(costs->after);
  if (costs->before.valid && costs->after.valid)
    text += fmt::format(" ({:+.1f} %)", 100 * (costs->after.step_time_s / costs->before.step_time_s - 1));
  return text;
}

Result<PlacementFile> Export::open_placement() const {
  EMPLACE_TRY_ASSIGN(auto graph, open_graph(graph_, reading_));
  PlacementFile file{std::move(graph), {}, {}, {}, {}, {}};
  file.sha256 = graph_sha256(file.graph);
  EMPLACE_TRY_ASSIGN(file.order, load_order(what_, file.graph, file.sha256));
  if (devices_.empty()) {
    EMPLACE_TRY_ASSIGN(auto named, load_named_placement(what_, file.graph, file.sha256));
    file.devices = std::move(named.devices);
    file.placement = std::move(named.placement);
    return file;
  }
  EMPLACE_TRY_ASSIGN(file.machine, open_devices(devices_));
  EMPLACE_TRY_ASSIGN(auto placement, load_placement(what_, file.graph, file.sha256, *file.machine));
  const auto constraints = Constraints::make(file.graph, *file.machine);
  if (!constraints) return invalid(printable(graph_), constraints.error().context);
  if (auto obeyed = constraints->check(file.graph, *file.machine, placement); !obeyed)
    return invalid(printable(what_), obeyed.error().context);
  file.devices = device_names(*file.machine);
  file.placement = std::move(placement);
  return file;
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
                           .order = file.order};
  return save_placement(applied_, file.graph, *file.machine, applied, measured, info);
}

Result<ExitStatus> Export::export_placement_file(Console& console) {
  if (!table_.empty()) return not_for("--table", "a placement");
  if (graph_.empty()) return missing("--graph", "a placement needs its graph; for a run give its directory");
  if (output_.empty()) return missing("-o", "add -o FILE");
  if (!applied_.empty() && devices_.empty()) return missing("--devices", "--applied needs it to measure");
  EMPLACE_TRY_ASSIGN(const auto file, open_placement());
  const fs::path graph_path = graph_file_of(graph_);
  EMPLACE_TRY_ASSIGN(const auto graph_file, format_ == "onnx" || format_ == "submodels"
                                                ? read_graph_file(graph_path)
                                                : Result<Bytes>{Bytes{}});
  EMPLACE_TRY_ASSIGN(const auto reading, reading_.options());
  EMPLACE_TRY_ASSIGN(auto modules, read_modules());
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
                                                         .order = file.order}));
  std::optional<Costs> costs;
  if (file.machine) {
    std::optional<OpGraph> ordered;
    if (!file.order.empty()) {
      ordered = renumbered(file.graph, file.order);
      console.note("order: from the placement file");
    }
    const auto in_order = [&](const Placement& placement) {
      return ordered ? renumbered(placement, file.order) : placement;
    };
    Simulator simulator{ordered ? *ordered : file.graph, *file.machine};
    costs.emplace();
    EMPLACE_TRY(simulator.measure(in_order(file.placement), costs->before));
    EMPLACE_TRY(simulator.measure(in_order(made.applied), costs->after));
  }
  EMPLACE_TRY(
      write_file(made.file.empty() ? fs::path{output_} : fs::path{output_} / made.file, made.content));
  if (!applied_.empty()) {
    EMPLACE_TRY(write_applied(file, made.applied, costs->after, console.seed()));
  }
  if (console.json()) {
    Json json{{"placement", what_},           {"format", format_},           {"output", output_},
              {"exact", made.moved_ops == 0}, {"ops", file.graph.num_ops()}, {"moved_ops", made.moved_ops}};
    json["step_time_s"] = costs && costs->before.valid ? costs->before.step_time_s : kJsonNull;
    json["applied_step_time_s"] = costs && costs->after.valid ? costs->after.step_time_s : kJsonNull;
    if (made.parts > 0) json["parts"] = made.parts;
    console.print(json_text(json));
  } else {
    console.print(printable(output_) + ": " + description(file, made, costs));
  }
  if (costs && costs->before.valid && !costs->after.valid)
    console.warn("the exported placement does not fit: " + misfit(costs->after, *file.machine));
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_export(const Extensions& extensions) {
  return std::make_unique<Export>(extensions);
}

}  // namespace emplace::launcher
