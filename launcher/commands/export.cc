#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/sim/simulator.h"
#include "graph/graph_file.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/graph_options.h"
#include "launcher/commands/results.h"
#include "launcher/settings/json_text.h"
#include "placement/machine/device_file.h"
#include "placement/placement_file.h"
#include "record/export/placement_export.h"
#include "record/export/run_export.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// A placement as it was given, and the machine if it was given too.
struct PlacementFile {
  OpGraph graph;
  std::vector<std::string> devices;
  Placement placement;
  std::optional<DeviceSet> machine;
  std::string sha256;  ///< Of the graph.
};

class Export final : public Command {
 public:
  std::string_view name() const override { return "export"; }
  std::string_view summary() const override {
    return "Writes a placement, or what a run has measured, as other tools read it";
  }
  void declare(Options& options) override {
    options.operand("WHAT", what_, "Placement file, or run directory")
        .required("--to", format_,
                  "A placement: onnx, accelerate, tensorflow, openvino, dot or csv; a run: csv, jsonl, npz "
                  "or tensorboard")
        .option("-o,--output", output_, "File to write; tensorboard: a folder, RUN/tensorboard if not said")
        .option("--graph,-g", graph_, "Graph that the placement is of; for onnx the .onnx file itself")
        .option("--devices,-d", devices_,
                "Of a placement: its device file, to tell what a lossy export costs")
        .option("--applied", applied_,
                "Of a placement: writes the placement that the export stands for; needs --devices")
        .option("--table", table_,
                "Of a run: measurements (csv), episodes (csv, jsonl) or updates (csv, jsonl)")
        .flag("--placements", placements_, "Of a run, npz: every placement too, a byte per op");
    declare_reading(options, reading_);
  }
  Result<ExitStatus> run(Console& console) override {
    std::error_code ignored;
    return fs::is_directory(what_, ignored) ? of_run(console) : of_placement(console);
  }

 private:
  Result<ExitStatus> of_run(Console& console);
  Result<ExitStatus> of_placement(Console& console);
  /// Errors: those of the files; a placement that breaks a constraint of the graph, if the machine is known.
  Result<PlacementFile> open_placement() const;
  Result<Unit> write_applied(const PlacementFile& file, const Placement& applied, const Measurement& measured,
                             std::uint64_t seed) const;
  Error without(std::string_view option, std::string_view cure) const {
    return invalid("emplace export", std::string{option} + " is not given", cure);
  }
  Error needless(std::string_view option, std::string_view what) const {
    return invalid(option, "is not for " + std::string{what});
  }

  std::string what_, format_, output_, graph_, devices_, applied_, table_;
  GraphReading reading_;
  bool placements_ = false;
};

/// As the run has noted them; numbered where it has not.
std::vector<std::string> devices_of(record::RunHeader header, const fs::path& run, std::size_t count) {
  if (const auto graphs = header.graphs(); graphs && !graphs->empty()) {
    const auto devices = parse_devices(graphs->front().devices_toml, "run.db");
    if (devices && devices->size() == count) return device_names(*devices);
  }
  for (const char* kept : {"best.placement.json", "baseline.placement.json"}) {
    const auto names = placement_devices(run / kept);
    if (names && names->size() == count) return *names;
  }
  std::vector<std::string> numbered;
  for (std::size_t d = 0; d < count; ++d) numbered.push_back(std::to_string(d));
  return numbered;
}

Result<ExitStatus> Export::of_run(Console& console) {
  if (!graph_.empty()) return needless("--graph", "a run");
  if (!devices_.empty()) return needless("--devices", "a run");
  if (!applied_.empty()) return needless("--applied", "a run");
  if (placements_ && format_ != "npz") return needless("--placements", "--to " + printable(format_, 40));
  if (output_.empty() && format_ != "tensorboard") return without("-o", "-o FILE says where to write");
  EMPLACE_TRY_ASSIGN(auto db, record::RunReader::open(what_, record::Reading::kQuietOrLive));
  record::RunExport options;
  options.output = output_.empty() ? fs::path{what_} / "tensorboard" : fs::path{output_};
  options.table = table_;
  options.placements = placements_;
  EMPLACE_TRY_ASSIGN(auto facts, db->header().facts());
  options.devices = devices_of(db->header(), what_, facts.num_devices);
  options.facts = std::move(facts);
  EMPLACE_TRY_ASSIGN(auto exporter, record::make_run_exporter(format_, std::move(options)));
  EMPLACE_TRY_ASSIGN(const auto done, record::export_run(*db, *exporter));
  if (console.json()) {
    const Json json{
        {"run", what_},           {"format", format_},         {"output", done.path.string()},
        {"exact", true},          {"episodes", done.episodes}, {"measurements", done.measurements},
        {"updates", done.updates}};
    console.print(json_text(json));
  } else {
    std::string counts;
    const auto count = [&](std::uint64_t number, const char* what) {
      if (number > 0) counts += fmt::format(", {}{}", number, what);
    };
    count(done.episodes, " episodes");
    count(done.measurements, " measurements");
    count(done.updates, " updates");
    console.print(printable_path(done.path) + ": exact" + counts);
  }
  return ExitStatus::kDone;
}

/// What the placement costs, and what the export stands for.
struct Costs {
  Measurement before, after;
};

/// "exact, 91 ops on 3 devices" or what was moved and what that costs.
std::string said(const PlacementFile& file, const record::ExportedPlacement& made,
                 const std::optional<Costs>& costs) {
  const auto step = [](const Measurement& measured) {
    return measured.valid ? format_seconds(measured.step_time_s) : std::string{"does not fit"};
  };
  std::string text = made.moved_ops == 0 ? "exact, " : "lossy, ";
  if (made.moved_ops > 0) text += fmt::format("{} of ", made.moved_ops);
  text += fmt::format("{} ops{} on {} devices", file.graph.num_ops(), made.moved_ops > 0 ? " moved" : "",
                      file.devices.size());
  if (!costs) return text + (made.moved_ops > 0 ? "; --devices tells what that costs" : "");
  if (made.moved_ops == 0) return text + ", step time " + step(costs->before);
  text += ", step time " + step(costs->before) + " -> " + step(costs->after);
  if (costs->before.valid && costs->after.valid)
    text += fmt::format(" ({:+.1f} %)", 100 * (costs->after.step_time_s / costs->before.step_time_s - 1));
  return text;
}

void add_step(Json& json, std::string_view key, const Measurement* measured) {
  if (measured != nullptr && measured->valid) {
    json[key] = measured->step_time_s;
  } else {
    json[key] = nullptr;
  }
}

Result<PlacementFile> Export::open_placement() const {
  EMPLACE_TRY_ASSIGN(auto graph, open_graph(graph_, reading_));
  PlacementFile file{std::move(graph), {}, {}, {}, {}};
  file.sha256 = graph_sha256(file.graph);
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

/// As `place` writes it, so that other commands read it.
Result<Unit> Export::write_applied(const PlacementFile& file, const Placement& applied,
                                   const Measurement& measured, std::uint64_t seed) const {
  const PlacementInfo info{.graph_sha256 = file.sha256,
                           .method = "export " + format_,
                           .executor = "sim",
                           .seed = seed,
                           .created = format_wall(SystemClock{}.wall())};
  return save_placement(applied_, file.graph, *file.machine, applied, measured, info);
}

Result<ExitStatus> Export::of_placement(Console& console) {
  if (!table_.empty()) return needless("--table", "a placement");
  if (placements_) return needless("--placements", "a placement");
  if (graph_.empty()) return without("--graph", "a placement needs its graph; for a run give its directory");
  if (output_.empty()) return without("-o", "-o FILE says where to write");
  if (!applied_.empty() && devices_.empty()) return without("--devices", "--applied measures what it writes");
  EMPLACE_TRY_ASSIGN(const auto file, open_placement());
  EMPLACE_TRY_ASSIGN(const auto graph_file,
                     format_ == "onnx" ? read_graph_file(graph_file_of(graph_)) : Result<Bytes>{Bytes{}});
  EMPLACE_TRY_ASSIGN(const auto made,
                     record::export_placement(format_, {.graph = file.graph,
                                                        .devices = file.devices,
                                                        .placement = file.placement,
                                                        .machine = file.machine ? &*file.machine : nullptr,
                                                        .graph_file = graph_file,
                                                        .output = output_}));
  std::optional<Costs> costs;
  if (file.machine) {
    Simulator simulator{file.graph, *file.machine};
    costs.emplace();
    EMPLACE_TRY(simulator.measure(file.placement, costs->before));
    EMPLACE_TRY(simulator.measure(made.applied, costs->after));
  }
  EMPLACE_TRY(write_file(output_, made.content));
  if (!applied_.empty()) {
    EMPLACE_TRY(write_applied(file, made.applied, costs->after, console.seed()));
  }
  if (console.json()) {
    Json json{{"placement", what_},           {"format", format_},           {"output", output_},
              {"exact", made.moved_ops == 0}, {"ops", file.graph.num_ops()}, {"moved_ops", made.moved_ops}};
    add_step(json, "step_time_s", costs ? &costs->before : nullptr);
    add_step(json, "applied_step_time_s", costs ? &costs->after : nullptr);
    console.print(json_text(json));
  } else {
    console.print(printable(output_) + ": " + said(file, made, costs));
  }
  if (costs && costs->before.valid && !costs->after.valid)
    console.warn("what was written does not fit: " + misfit(costs->after, *file.machine));
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<Export>(); }

}  // namespace emplace::launcher
