#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "graph/graph_file.h"
#include "launcher/commands/commands.h"
#include "launcher/inputs.h"
#include "launcher/json_object.h"
#include "placement/device_file.h"
#include "placement/placement_file.h"
#include "record/export/placement_export.h"
#include "record/export/run_export.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

class Export final : public Command {
 public:
  std::string_view name() const override { return "export"; }
  std::string_view summary() const override {
    return "Writes a placement, or what a run has measured, as other tools read it";
  }
  void declare(Options& options) override {
    options.operand("WHAT", what_, "Placement file, or run directory")
        .required("--to", format_, "A placement: csv or dot; a run: csv, jsonl, npz or tensorboard")
        .option("-o,--output", output_, "File to write; tensorboard: a folder, RUN/tensorboard if not said")
        .option("--graph,-g", graph_, "Graph that the placement is of")
        .option("--table", table_,
                "Of a run: measurements (csv), episodes (csv, jsonl) or updates (csv, jsonl)")
        .flag("--placements", placements_, "Of a run, npz: every placement too, a byte per op");
  }
  Result<ExitStatus> run(Console& console) override {
    std::error_code ignored;
    return fs::is_directory(what_, ignored) ? of_run(console) : of_placement(console);
  }

 private:
  Result<ExitStatus> of_run(Console& console);
  Result<ExitStatus> of_placement(Console& console);
  Error without(std::string_view option, std::string_view cure) const {
    return invalid("emplace export", std::string{option} + " is not given", cure);
  }
  Error needless(std::string_view option, std::string_view what) const {
    return invalid(option, "is not for " + std::string{what});
  }

  std::string what_, format_, output_, graph_, table_;
  bool placements_ = false;
};

/// As the run has noted them; numbered where it has not.
std::vector<std::string> devices_of(record::RunDb& db, const fs::path& run, std::size_t count) {
  if (const auto graphs = db.graph_rows(); graphs && !graphs->empty()) {
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
  if (placements_ && format_ != "npz") return needless("--placements", "--to " + printable(format_, 40));
  if (output_.empty() && format_ != "tensorboard") return without("-o", "-o FILE says where to write");
  auto db = record::RunDb::open_to_look(what_);
  if (!db) return db.error();
  record::RunExport options;
  options.output = output_.empty() ? fs::path{what_} / "tensorboard" : fs::path{output_};
  options.table = table_;
  options.placements = placements_;
  auto facts = (*db)->facts();
  if (!facts) return facts.error();
  options.devices = devices_of(**db, what_, facts->num_devices);
  options.facts = *std::move(facts);
  auto exporter = record::make_run_exporter(format_, std::move(options));
  if (!exporter) return exporter.error();
  const auto done = record::export_run(**db, **exporter);
  if (!done) return done.error();
  if (console.json()) {
    JsonObject json;
    json.add("run", what_).add("to", format_).add("output", done->path.string()).add("fidelity", "exact");
    json.add("episodes", done->episodes)
        .add("measurements", done->measurements)
        .add("updates", done->updates);
    console.print(json.text());
  } else {
    std::string counts;
    const auto count = [&](std::uint64_t number, const char* what) {
      if (number > 0) counts += ", " + std::to_string(number) + what;
    };
    count(done->episodes, " episodes");
    count(done->measurements, " measurements");
    count(done->updates, " updates");
    console.print(printable(done->path.string()) + ": exact" + counts);
  }
  return ExitStatus::kDone;
}

Result<ExitStatus> Export::of_placement(Console& console) {
  if (!table_.empty()) return needless("--table", "a placement");
  if (placements_) return needless("--placements", "a placement");
  if (graph_.empty()) return without("--graph", "a placement needs its graph; for a run give its directory");
  if (output_.empty()) return without("-o", "-o FILE says where to write");
  const auto graph = open_graph(graph_);
  if (!graph) return graph.error();
  const auto named = load_named_placement(what_, *graph, graph_sha256(*graph));
  if (!named) return named.error();
  const auto text = record::export_placement(format_, *graph, named->devices, named->placement);
  if (!text) return text.error();
  if (auto written = write_file(output_, *text); !written) return written.error();
  if (console.json()) {
    JsonObject json;
    json.add("placement", what_).add("to", format_).add("output", output_).add("fidelity", "exact");
    json.add("ops", std::uint64_t{graph->num_ops()}).add("ops_moved", std::uint64_t{0});
    console.print(json.text());
  } else {
    console.print(printable(output_) + ": exact, " + std::to_string(graph->num_ops()) + " ops on " +
                  std::to_string(named->devices.size()) + " devices");
  }
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_export() { return std::make_unique<Export>(); }

}  // namespace emplace::launcher
