#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text/counts.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/commands/commands.h"
#include "launcher/session/run_list.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

constexpr const char* kFolder = "runs";     // Folder of the runs without --run-dir.
constexpr std::size_t kMostDiffering = 20;  // Runs whose configs are compared.

std::string time_or_dash(double seconds) { return seconds > 0 ? format_seconds(seconds) : "-"; }
std::string change(double value, double from) {
  return value > 0 && from > 0 ? fmt::format("{:+.1f} %", (value / from - 1) * 100) : "-";
}

std::string graph_text(const ListedRun& run) {
  std::string text = printable(run.graphs.front().name, 40);
  if (run.graphs.size() > 1) text += fmt::format(" (+{})", run.graphs.size() - 1);
  return text;
}

/// Returns the table; saturated policies and runs that cannot be read are lines below it.
std::vector<std::string> table_of(const std::vector<ListedRun>& runs, const Terminal& terminal) {
  std::vector<std::vector<std::string>> rows{{"RUN", "METHOD", "GRAPH", "MACHINE", "STATE", "STARTED (UTC)",
                                              "MEASURED", "BEST", "VS HEURISTIC", "ABOVE BOUND", "BEST AFTER",
                                              "ENTROPY"}};
  std::vector<std::string> remarks;
  for (const ListedRun& run : runs) {
    if (run.state == ListedState::kUnreadable) {
      remarks.push_back(printable(run.name, 80) + "  cannot be read: " + printable(run.why, 400));
      continue;
    }
    const ListedGraph& graph = run.graphs.front();
    const std::string entropy = entropy_text(run.policies);
    std::string started = format_wall(run.started).substr(0, 16);
    std::replace(started.begin(), started.end(), 'T', ' ');
    rows.push_back({printable(run.name, 60), printable(run.method, 24), graph_text(run),
                    printable(run.machine, 30), std::string{word_of(run.state)}, started,
                    thousands(run.measurements), time_or_dash(graph.best_s),
                    change(graph.best_s, graph.heuristic_s), change(graph.best_s, graph.bound_s),
                    graph.best_after_s > 0 ? fmt::format("{:.1f} s", graph.best_after_s) : "-",
                    entropy.empty() ? "-" : entropy});
    for (const ListedPolicy& policy : run.policies)
      if (policy.learning.saturation)
        remarks.push_back("warning: " + printable(run.name, 80) + ", start " + printable(policy.start, 40) +
                          ": " + policy.learning.warning);
  }
  std::vector<std::string> lines;
  if (rows.size() > 1) lines = aligned(rows);
  if (!lines.empty()) lines.front() = terminal.styled(Style::kDim, lines.front());
  for (std::string& line : remarks) lines.push_back(std::move(line));
  return lines;
}

double or_null(double number) { return number > 0 ? number : kJsonNull; }

Json as_json(const ListedRun& run) {
  Json json{{"name", run.name}, {"run_dir", run.directory.string()}, {"state", word_of(run.state)}};
  if (run.state == ListedState::kUnreadable) {
    json["error"] = run.why;
    return json;
  }
  json["method"] = run.method;
  json["machine"] = run.machine;
  json["host"] = run.host;
  json["started"] = format_wall(run.started);
  json["wall_s"] = or_null(run.wall_s);
  json["measurements"] = run.measurements;
  auto graphs = Json::array();
  for (const ListedGraph& graph : run.graphs) {
    Json& one = graphs.emplace_back();
    one["graph"] = graph.name;
    one["graph_sha256"] = graph.sha256;
    one["best_step_time_s"] = or_null(graph.best_s);
    one["best_after_s"] = or_null(graph.best_after_s);
    one["heuristic"] = text_or_null(graph.heuristic);
    one["heuristic_step_time_s"] = or_null(graph.heuristic_s);
    one["lower_bound_s"] = or_null(graph.bound_s);
  }
  json["graphs"] = std::move(graphs);
  auto policies = Json::array();
  bool saturated = false;
  for (const ListedPolicy& policy : run.policies) {
    Json& one = policies.emplace_back();
    one["start"] = policy.start;
    one["updates"] = policy.learning.updates;
    one["entropy"] = policy.learning.entropy;
    one["saturated"] = policy.learning.saturation.has_value();
    one["warning"] = text_or_null(policy.learning.warning);
    saturated |= policy.learning.saturation.has_value();
  }
  json["policies"] = std::move(policies);
  json["saturated"] = saturated;
  return json;
}

class Runs final : public Command {
 public:
  Runs() : Command{"runs", "List the runs of a folder, or compare runs", "emplace runs runs --sort best"} {}
  void declare(Options& options) override {
    options.optional_operands("PATH", paths_, "Run directories, or folders of them (default: runs)");
    options.option("--sort", sort_,
                   "time, name, method, graph, state, measurements, best, heuristic, bound or after");
    options.option("-o,--output", output_,
                   "HTML file to write: the table, and the curves of the best step time");
  }
  Result<ExitStatus> run(Console& console) override {
    if (paths_.empty()) paths_ = {kFolder};
    EMPLACE_TRY_ASSIGN(auto runs, list_runs(paths_));
    EMPLACE_TRY(sort_runs(runs, sort_));
    if (!output_.empty()) EMPLACE_TRY(write_page(runs));
    // Asked for by name, they are compared with each other.
    const bool named = std::all_of(runs.begin(), runs.end(), [&](const ListedRun& run) {
      return std::find(paths_.begin(), paths_.end(), run.name) != paths_.end();
    });
    const bool compared = named && runs.size() > 1 && runs.size() <= kMostDiffering;
    const std::vector<std::string> differing =
        compared ? differing_keys_of(runs) : std::vector<std::string>{};
    if (console.json()) {
      Json json{{"runs", Json::array()}};
      for (const ListedRun& one : runs) json["runs"].push_back(as_json(one));
      if (compared) json["differing_keys"] = differing;
      if (!output_.empty()) json["page"] = output_;
      console.print(json_text(json));
      return ExitStatus::kDone;
    }
    for (const std::string& line : table_of(runs, console.out_terminal())) console.print(line);
    if (runs.empty()) console.note("no runs in " + printable(paths_.front()));
    if (compared) {
      std::string keys;
      for (const std::string& key : differing) keys += (keys.empty() ? "" : ", ") + key;
      console.print("configs differ in: " + (keys.empty() ? "nothing" : keys));
    }
    if (!output_.empty()) console.print("written    " + printable(output_));
    return ExitStatus::kDone;
  }

 private:
  Result<Unit> write_page(const std::vector<ListedRun>& runs) const {
    std::vector<record::RunRow> rows;
    for (const ListedRun& run : runs) {
      EMPLACE_TRY_ASSIGN(auto row, page_row(run));
      rows.push_back(std::move(row));
    }
    return write_file(output_, record::render_runs(rows));
  }

  std::vector<std::string> paths_;
  std::string sort_ = "time", output_;
};

}  // namespace

std::unique_ptr<Command> make_runs() { return std::make_unique<Runs>(); }

}  // namespace emplace::launcher
