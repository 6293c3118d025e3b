#include "launcher/session/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/sim/critical_chain.h"
#include "executor/sim/jitter.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "launcher/inputs/inputs.h"
#include "launcher/replay/recorded_run.h"
#include "launcher/session/recorded_starts.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "launcher/terminal/build_info.h"
#include "placement/machine/cost_trust.h"
#include "placement/order.h"
#include "placement/placement_file.h"
#include "record/report/learning_curve.h"
#include "record/report/report_page.h"
#include "record/run_reader.h"
#include "solver/method.h"

namespace emplace::launcher {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPoints = 400;         // Points of all learning curves of a start together.
constexpr std::size_t kMaxTracedOps = 500'000;  // Ops in the schedules that are drawn, over all graphs.
// Steps with noise per placement, and ops in all of them, over all graphs: about half a second. Only the
// fastest placements get them if there are too many ops for all.
constexpr std::size_t kMostDraws = 64, kLeastDraws = 20, kMaxJitteredOps = 1'500'000;

/// Quotes a word for the shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return text + "'";
}

std::string inputs_of(const RunConfig& config) {
  std::string text;
  if (!config.input.devices.empty()) text += " --devices " + quoted(config.input.devices);
  if (!config.input.reading.float32.empty()) text += " --float32 " + config.input.reading.float32;
  if (config.objective.kind != Objective::kStepTime)
    text.append(" --objective ").append(word_of(config.objective.kind));
  // A run for this machine has a device file, which states its version.
  if (config.input.cost_version() != kCurrentCosts &&
      machine_form(config.input.devices) != MachineForm::kFile)
    text.append(" --cost-version ").append(word_of(config.input.cost_version()));
  if (config.input.reserve != Reserve{}) text += " --reserve " + config.input.reserve.text();
  if (config.executor.dispatch != Dispatch::kProgram)
    text.append(" --dispatch ").append(word_of(config.executor.dispatch));
  return text;
}

/// One start of the run, with what the page shows of it.
struct StartRecord : RecordedStart {
  record::Counters counters;
  std::string parameters_sha256;  // Hash after the last update; empty if there was none.
  double wall_s = 0;              // Time of its last measurement since the start [s]; 0: unknown.
};

Result<std::vector<StartRecord>> read_starts(const std::filesystem::path& directory, RunConfig& config) {
  EMPLACE_TRY_ASSIGN(RecordedStarts run, open_starts(directory));
  config = std::move(run.config);
  std::vector<StartRecord> starts;
  for (RecordedStart& opened : run.starts) {
    StartRecord& start = starts.emplace_back(StartRecord{std::move(opened), {}, {}, 0});
    EMPLACE_TRY_ASSIGN(start.counters, start.db->results().counters());
    EMPLACE_TRY_ASSIGN(const auto last, start.db->log().last_update());
    EMPLACE_TRY_ASSIGN(const auto update, start.db->log().update(last));
    if (update) start.parameters_sha256 = update->parameters_sha256;
  }
  return starts;
}

double seconds_of(const Clock& clock, Nanos since) {
  return std::chrono::duration<double>(clock.now() - since).count();
}

/// Simulates a placement with a schedule. Errors: the placement is not of this graph.
Result<record::ReportStep> simulated(const LoweredGraph& lowered, const DeviceSet& devices,
                                     Simulator& simulator, std::string label, Placement placement,
                                     const Clock& clock) {
  record::ReportStep step;
  const Nanos started = clock.now();
  EMPLACE_TRY(simulator.trace(placement, step.measured, step.schedule));
  step.simulating_s = seconds_of(clock, started);
  step.chain = critical_chain(lowered, placement, step.schedule, devices);
  step.label = std::move(label);
  step.placement = std::move(placement);
  return step;
}

/// Whether the placement of a row has memory decisions.
bool has_plan(const TableRow& row) { return row.recomputed + row.moved_tensors > 0; }

/// A row of the table and its placement. Neither is owned.
struct PlacedRow {
  TableRow* row = nullptr;
  const Placement* placement = nullptr;
};

/// Adds the 95th percentile of the step time under 5 % noise to the fastest of `rows`, as many as `most_ops`
/// simulated ops allow. Errors: those of the simulator.
Result<Unit> add_spreads(const actors::TaskGraph& one, const Judge& judge, std::vector<PlacedRow> rows,
                         std::size_t most_ops) {
  if (judge.objective != Objective::kStepTime || judge.placeto) return Unit{};  // These have no noise.
  const std::size_t draws = most_ops / std::max<std::size_t>(1, one.graph.num_ops());
  std::stable_sort(rows.begin(), rows.end(), [](const PlacedRow& a, const PlacedRow& b) {
    return a.row->measurement.step_time_s < b.row->measurement.step_time_s;
  });
  rows.resize(std::min(rows.size(), draws / kLeastDraws));
  JitteredSimulator simulator{one.graph, one.devices, judge.simulator.dispatch, Jitter{}};
  for (const PlacedRow& placed : rows) {
    EMPLACE_TRY_ASSIGN(const JitteredSteps steps,
                       simulator.measure_draws(*placed.placement, static_cast<std::uint32_t>(std::min(
                                                                      kMostDraws, draws / rows.size()))));
    placed.row->p95_s = steps.quantile(0.95);
  }
  return Unit{};
}

/// Returns the command that reproduces the step time of the best placement; empty if there is none.
std::string evaluate_command(const RunConfig& config, const std::string& graph_file,
                             const std::filesystem::path& placement) {
  return "emplace evaluate " + quoted(graph_file) + " " + quoted(placement.string()) + inputs_of(config);
}

class Reader {
 public:
  Reader(const std::filesystem::path& directory, const Clock& clock) : directory_{directory}, clock_{clock} {}

  Result<RunReport> read() {
    EMPLACE_TRY_ASSIGN(starts_, read_starts(directory_, config_));
    RunReport report;
    record::ReportData& data = report.data;
    data.run = std::filesystem::absolute(directory_).lexically_normal().filename().string();
    if (data.run.empty()) data.run = std::filesystem::absolute(directory_).parent_path().filename().string();
    data_run_ = data.run;
    for (const StartRecord& start : starts_) data.in_progress |= start.in_progress;
    data.written = format_wall(clock_.wall());
    data.config_toml = starts_.front().facts.config_toml;
    data.run_command = run_command();
    std::string why;
    if (auto task = recorded_task()) {
      report.task = *std::move(task);
    } else {
      why = "The schedule cannot be drawn: " + task.error().context + ".";
    }
    if (report.task == nullptr) {
      EMPLACE_TRY_ASSIGN(auto graph, without_task(why));
      data.graphs.push_back(std::move(graph));
    } else {
      for (std::size_t g = 0; g < report.task->graphs.size(); ++g) {
        EMPLACE_TRY_ASSIGN(auto graph, of(*report.task, g));
        data.graphs.push_back(std::move(graph));
      }
    }
    for (const StartRecord& start : starts_) {
      EMPLACE_TRY_ASSIGN(auto learning, learning_of(*start.db, config_));
      if (learning.updates > 0)
        data.policies.push_back({label_of(config_, start.start), std::move(learning)});
    }
    EMPLACE_TRY(add_provenance(data));
    report.planned = std::move(planned_);
    return report;
  }

 private:
  /// Returns the command that repeats the run.
  std::string run_command() const {
    const json parent = json::parse(starts_.front().facts.parent, nullptr, false);
    if (parent.is_object() && parent.contains("kind") && parent["kind"] == "learned" &&
        parent.contains("run_dir") && parent["run_dir"].is_string())
      return "emplace replay " + quoted(parent["run_dir"].get<std::string>()) + " --learn " +
             quoted(config_.policy.method) + " --run-dir " + quoted(data_run_ + "-again");
    return "emplace run " + quoted((directory_ / "config.toml").string()) +
           (config_.run.dir.empty() ? "" : " --run-dir " + quoted(data_run_ + "-again"));
  }
  /// Returns the most likely placement of a policy learned from a log (`replay --learn`), the only placement
  /// that it measured, from the file in its directory.
  Result<std::optional<Placement>> likeliest(const StartRecord& start, const actors::Task& task,
                                             const actors::TaskGraph& one) const {
    std::error_code ignored;
    const auto file = kept_path(start.start.directory, kBestPlacement, task, one);
    if (start.counters.episodes > 0 || !std::filesystem::exists(file, ignored))
      return std::optional<Placement>{};
    EMPLACE_TRY_ASSIGN(auto placement,
                       load_placement(file, one.graph, one.sha256, one.devices, Plans::kKnown));
    return std::optional{std::move(placement)};
  }

  /// Returns the recorded graphs and devices; for runs of schema 3, those that the config names. Errors: they
  /// cannot be read, or have changed.
  Result<actors::TaskPtr> recorded_task() {
    const StartRecord& first = starts_.front();
    EMPLACE_TRY_ASSIGN(auto rows, first.db->header().graphs());
    const std::string where = printable((directory_ / "run.db").string());
    if (rows.empty()) {
      auto task = load_task(config_);
      if (!task) return task;
      if ((*task)->find(first.facts.graph_sha256) == nullptr)
        return invalid(where, "the graph file has changed since the run");
      EMPLACE_TRY_ASSIGN(const auto files, graph_files(config_));
      for (const std::filesystem::path& file : files) graph_files_.push_back(file.string());
      return task;
    }
    auto task = kept_task(rows, where, config_);
    if (!task) return task;
    for (record::GraphRow& row : rows) {
      graph_files_.push_back(std::move(row.file));
      bounds_.emplace_back(row.lower_bound_s, std::move(row.bound));
    }
    EMPLACE_TRY_ASSIGN(heuristics_, first.db->header().heuristics());
    return task;
  }

  /// Returns the recorded heuristics, measured again; for runs of schema 3, computes them again.
  Result<Heuristics> heuristics_of(const actors::TaskGraph& one, PlannedExecutor& model) {
    if (bounds_.empty()) return run_heuristics(one, config_, 0, clock_);
    return recorded_heuristics(heuristics_, one, model);
  }

  /// Adds the learning curves of all starts, and sums the simulated time.
  Result<Unit> add_curves(record::ReportGraph& graph, std::size_t graphs) {
    for (StartRecord& start : starts_) {
      EMPLACE_TRY_ASSIGN(const auto samples, start.db->results().samples(graph.sha256));
      for (const record::CurveSample& sample : samples) simulated_s_ += sample.step_time_s;
      if (!samples.empty()) start.wall_s = std::max(start.wall_s, samples.back().wall_s);
      graph.curves.push_back(
          {label_of(config_, start.start),
           record::learning_curve(samples, std::max<std::size_t>(40, kMaxPoints / graphs))});
    }
    return Unit{};
  }

  /// Adds the results of `replay --re-measure`.
  Result<Unit> add_remeasured(record::ReportGraph& graph) {
    for (StartRecord& start : starts_) {
      EMPLACE_TRY_ASSIGN(const auto sessions, start.db->remeasurements().sessions());
      for (const record::RemeasureSession& session : sessions) {
        EMPLACE_TRY_ASSIGN(const auto rows, start.db->remeasurements().rows(session.session));
        record::ReportSession shown;
        for (const record::RemeasuredRow& row : rows)
          if (row.valid && row.graph_sha256 == graph.sha256)
            shown.points.push_back({row.logged_s, row.step_time_s});
        if (shown.points.empty()) continue;
        shown.executor =
            session.executor_kind + " at " + session.host + ", " + label_of(config_, start.start);
        const auto correlation = [](double value) {
          return std::isfinite(value) ? fmt::format("{:.3f}", value) : "unknown";
        };
        const auto share = [](double value) {
          return std::isfinite(value) ? fmt::format("{:.1f} %", value * 100) : "unknown";
        };
        shown.facts = {
            {"placements measured twice", std::to_string(session.count)},
            {"Spearman's rank correlation", correlation(session.spearman)},
            {"Kendall's tau", correlation(session.kendall)},
            {"error, median", share(session.error_median)},
            {"error, 95th percentile", share(session.error_p95)},
            {"error, largest", share(session.error_max)},
            {"of the five fastest, again among them", fmt::format("{} of 5", session.top5_overlap)}};
        graph.remeasured.push_back(std::move(shown));
      }
    }
    return Unit{};
  }

  TableRow row_of(const StartRecord& start, const record::LearningCurve& curve) const {
    TableRow row;
    row.method = label_of(config_, start.start);
    row.evaluations = curve.points.empty() ? 0 : curve.points.back().measurements;
    row.wall_s = start.wall_s;
    row.note = "no feasible placement";
    return row;
  }

  Result<record::ReportGraph> without_task(const std::string& why) {
    const record::RunFacts& facts = starts_.front().facts;
    record::ReportGraph graph;
    graph.name = facts.graph, graph.sha256 = facts.graph_sha256, graph.ops = facts.num_ops;
    graph.note = why;
    for (std::uint32_t d = 0; d < facts.num_devices; ++d)
      graph.devices.push_back(fmt::format("device {}", d));
    EMPLACE_TRY(add_curves(graph, 1));
    for (std::size_t s = 0; s < starts_.size(); ++s) {
      const StartRecord& start = starts_[s];
      TableRow row = row_of(start, graph.curves[s]);
      EMPLACE_TRY_ASSIGN(const auto best, start.db->results().best(graph.sha256));
      if (best)
        row.found = row.measurement.valid = true, row.measurement.step_time_s = best->step_time_s,
        row.measurement.label = best->label;
      graph.learned.push_back(std::move(row));
    }
    return graph;
  }

  Result<record::ReportGraph> of(const actors::Task& task, std::size_t number) {
    const actors::TaskGraph& one = task.graphs[number];
    record::ReportGraph graph;
    graph.name = one.graph.name(), graph.sha256 = one.sha256;
    graph.ops = one.graph.num_ops(), graph.edges = one.graph.num_edges();
    graph.devices = one.devices.names();
    graph.assumed = graph_notes(one.graph);
    // Rows use the run's objective; schedules always come from the simulator.
    const auto model = model_of(config_, one);
    EMPLACE_TRY_ASSIGN(auto heuristics, heuristics_of(one, *model));
    graph.heuristics = heuristics.rows;
    if (bounds_.empty()) {
      graph.lower_bound_s = heuristics.bound.seconds, graph.bound = word_of(heuristics.bound.proof);
    } else {
      graph.lower_bound_s = bounds_[number].first, graph.bound = bounds_[number].second;
    }
    EMPLACE_TRY(add_remeasured(graph));
    EMPLACE_TRY(add_curves(graph, task.graphs.size()));
    EMPLACE_TRY_ASSIGN(Learned learned, add_learned(graph, task, one, *model));
    EMPLACE_TRY(add_noise(graph, one, heuristics, learned, kMaxJitteredOps / task.graphs.size()));
    graph.evaluate_command = command_of_best(task, number, heuristics, learned);
    traced_ops_ += graph.ops;
    if (learned.best.empty() && !heuristics.best) return graph;
    if (traced_ops_ > kMaxTracedOps && traced_ops_ > graph.ops) {
      graph.note = "The charts of this graph are omitted: the page is limited to 500,000 ops of schedules.";
      return graph;
    }
    EMPLACE_TRY(add_charts(graph, one, std::move(heuristics), std::move(learned)));
    return graph;
  }

  /// Placements that the starts found for a graph.
  struct Learned {
    std::vector<Placement> of_start;  // [starts] Empty: none.
    Placement best;                   // The fastest of them; empty: none.
    double best_s = 0;
    std::size_t from = 0;          // The start that found it.
    bool on_real_devices = false;  // Measured on real devices; not comparable with simulated heuristics.
  };

  /// Adds a row for each start.
  Result<Learned> add_learned(record::ReportGraph& graph, const actors::Task& task,
                              const actors::TaskGraph& one, PlannedExecutor& model) {
    Learned learned;
    learned.of_start.resize(starts_.size());
    const bool steps = judge_of(config_).objective == Objective::kStepTime;
    PlacementCosts costs{one.graph, one.devices};
    for (std::size_t s = 0; s < starts_.size(); ++s) {
      TableRow row = row_of(starts_[s], graph.curves[s]);
      EMPLACE_TRY_ASSIGN(const auto best, starts_[s].db->results().best(one.sha256));
      EMPLACE_TRY_ASSIGN(auto alone, likeliest(starts_[s], task, one));
      if (best || alone) {
        Placement placement = best ? record::placement_of(best->placement) : *std::move(alone);
        EMPLACE_TRY_ASSIGN(auto measured, model.decide(placement));
        fill_in(row, std::move(measured));
        row.found = true;
        if (best && best->label != MeasurementLabel::kSimulated) {
          row.measurement.valid = true;
          row.measurement.step_time_s = best->step_time_s;
          row.measurement.label = best->label;
          learned.on_real_devices = true;
        } else if (row.measurement.valid && steps) {
          row.costs = costs.of(placement);
        }
        if (row.measurement.valid && (learned.best.empty() || row.measurement.step_time_s < learned.best_s))
          learned.best = placement, learned.best_s = row.measurement.step_time_s, learned.from = s;
        learned.of_start[s] = std::move(placement);
      }
      graph.learned.push_back(std::move(row));
    }
    return learned;
  }

  /// Adds the spread of the step time under noise to the rows with simulated times.
  Result<Unit> add_noise(record::ReportGraph& graph, const actors::TaskGraph& one,
                         const Heuristics& heuristics, const Learned& learned, std::size_t most_ops) const {
    std::vector<PlacedRow> placed;
    const auto add = [&](std::vector<TableRow>& rows, const std::vector<Placement>& placements) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].measurement.valid && rows[i].measurement.label == MeasurementLabel::kSimulated &&
            !placements[i].empty() && !has_plan(rows[i]))
          placed.push_back({&rows[i], &placements[i]});
    };
    add(graph.heuristics, heuristics.placements);
    add(graph.learned, learned.of_start);
    return add_spreads(one, judge_of(config_), placed, most_ops);
  }

  /// Returns the command that evaluates the fastest placement, or makes it again; empty if there is none.
  std::string command_of_best(const actors::Task& task, std::size_t number, const Heuristics& heuristics,
                              const Learned& learned) const {
    const actors::TaskGraph& one = task.graphs[number];
    const std::string& file = graph_files_[number];
    const bool use_heuristic =
        heuristics.best && (learned.best.empty() ||
                            (!learned.on_real_devices && heuristics.best_step_time_s() <= learned.best_s));
    if (use_heuristic) {
      const std::filesystem::path recommended = kept_path(directory_, kRecommendedPlacement, task, one);
      std::error_code ignored;
      if (std::filesystem::exists(recommended, ignored)) return evaluate_command(config_, file, recommended);
      return fmt::format("emplace place {}{} --method {} --seed {}{}", quoted(file), inputs_of(config_),
                         heuristics.rows[*heuristics.best].method, config_.run.seed,
                         config_.executor.allow.empty() ? "" : " --allow " + quoted(config_.executor.allow));
    }
    if (learned.best.empty()) return "";
    return evaluate_command(config_, file,
                            kept_path(starts_[learned.from].start.directory, kBestPlacement, task, one));
  }

  /// Adds the schedules of the fastest learned placement and of the fastest heuristic.
  Result<Unit> add_charts(record::ReportGraph& graph, const actors::TaskGraph& one, Heuristics heuristics,
                          Learned learned) {
    // Draw the learned placement even if a heuristic is better: it is the purpose of the run.
    const TableRow* const heuristic = heuristics.best ? &heuristics.rows[*heuristics.best] : nullptr;
    const TableRow& row = learned.best.empty() ? *heuristic : graph.learned[learned.from];
    Placement placement =
        learned.best.empty() ? heuristics.placements[*heuristics.best] : std::move(learned.best);
    EMPLACE_TRY(one.constraints.check(one.graph, one.devices, placement));
    const OpGraph* of = &one.graph;
    if (has_plan(row)) {
      EMPLACE_TRY_ASSIGN(const MemoryPlan plan, plan_of(config_, one, placement));
      EMPLACE_TRY_ASSIGN(PlannedGraph made, planned(one.graph, plan, one.devices.names()));
      placement = planned(placement, made);
      of = planned_.emplace_back(std::make_shared<const OpGraph>(std::move(made.graph))).get();
    }
    Simulator simulator{*of, one.devices, judge_of(config_).simulator};
    const LoweredGraph lowered{*of};
    record::ReportTask& drawn = graph.task.emplace_back();
    drawn.graph = of, drawn.devices = &one.devices;
    const auto trace = [&](std::string label, Placement which) {
      return simulated(lowered, one.devices, simulator, std::move(label), std::move(which), clock_);
    };
    EMPLACE_TRY_ASSIGN(drawn.step, trace(row.method, std::move(placement)));
    // Both drawings have the ops of one graph, so none of them has a plan that the other lacks.
    if (heuristic != nullptr && heuristic != &row && !has_plan(row) && !has_plan(*heuristic)) {
      Placement& other = heuristics.placements[*heuristics.best];
      EMPLACE_TRY(one.constraints.check(one.graph, one.devices, other));
      EMPLACE_TRY_ASSIGN(drawn.heuristic, trace(heuristic->method, std::move(other)));
    }
    if (simulating_.empty())
      simulating_ = format_seconds(drawn.step.measured.step_time_s) + " simulated in " +
                    format_seconds(drawn.step.simulating_s) + " (with a trace)";
    return Unit{};
  }

  Result<Unit> add_provenance(record::ReportData& data) {
    const record::RunFacts& facts = starts_.front().facts;
    const auto add = [&](std::string name, std::string value) {
      if (!value.empty()) data.provenance.emplace_back(std::move(name), std::move(value));
    };
    add("Run directory", printable(std::filesystem::absolute(directory_).lexically_normal().string()));
    add("Started (UTC)", format_wall(Nanos{facts.started_wall_ns}));
    add("Page written (UTC)", data.written);
    add("Host", printable(facts.host));
    add("emplace", "ran " + printable(facts.software_version) + "; this page by " + build_info().version);
    add("Run id", printable(facts.run_id));
    json machine = json::parse(facts.host_facts, nullptr, false);
    if (!machine.is_object()) machine = json::object();
    std::string host_text;
    for (const auto& [name, value] : machine.items()) {
      if (value.is_structured()) continue;  // Skip nested values: emplace writes none.
      const bool text = value.is_string();
      host_text += (host_text.empty() ? "" : "; ") + name + ": ";
      host_text += text ? value.get_ref<const std::string&>() : value.dump();
    }
    add("Machine and build", printable(host_text, 2'000));
    add("Made from", printable(facts.parent, 2'000));
    add("Method", printable(config_.policy.method) + ", preset " + printable(config_.policy.preset));
    add("Seed", std::to_string(facts.seed) + (config_.run.deterministic ? ", deterministic" : ""));
    for (const record::ReportGraph& graph : data.graphs)
      add("Graph", fmt::format("{}: {} ops{}, sha256 {}", printable(graph.name), graph.ops,
                               graph.edges > 0 ? fmt::format(", {} edges", graph.edges) : "",
                               printable(graph.sha256)));
    std::string devices;
    for (const std::string& name : data.graphs.front().devices)
      devices += (devices.empty() ? "" : ", ") + printable(name);
    add("Devices", devices + "; sha256 " + printable(facts.devices_json));
    for (StartRecord& start : starts_) {
      const record::Counters& c = start.counters;
      std::string text = fmt::format("{} episodes, {} placements measured ({} fit), {} updates", c.episodes,
                                     c.measurements, c.valid, c.updates);
      EMPLACE_TRY_ASSIGN(const auto measurers, start.db->results().measurers());
      for (const record::MeasurerRow& row : measurers)
        text += fmt::format("; {} × {} on {}: {}", row.executors,
                            printable(row.executor_kind.empty() ? "executor" : row.executor_kind),
                            printable(row.host.empty() ? "an unknown host" : row.host), row.measurements);
      if (!start.parameters_sha256.empty())
        text += "; parameters sha256 " + printable(start.parameters_sha256);
      add("Start: " + start.start.name, text);
    }
    add("Step times added up", format_seconds(simulated_s_));
    add("The step drawn here", simulating_);
    return Unit{};
  }

  const std::filesystem::path directory_;
  std::string data_run_;  // Name of the run's folder.
  const Clock& clock_;
  RunConfig config_;
  std::vector<StartRecord> starts_;
  std::vector<std::string> graph_files_;                // [graphs]
  std::vector<std::pair<double, std::string>> bounds_;  // [graphs] Bound and its name; empty for schema 3.
  std::vector<record::HeuristicRow> heuristics_;
  std::vector<std::shared_ptr<const OpGraph>> planned_;  // Graphs of memory plans that are drawn.
  double simulated_s_ = 0;
  std::uint64_t traced_ops_ = 0;
  std::string simulating_;
};

}  // namespace

Result<RunReport> read_report(const std::filesystem::path& directory, const Clock& clock) {
  return Reader{directory, clock}.read();
}

Result<RunReport> write_report(const std::filesystem::path& directory, const std::filesystem::path& page,
                               const Clock& clock) {
  auto report = read_report(directory, clock);
  if (!report) return report;
  EMPLACE_TRY(write_file(page, record::render_report(report->data)));
  return report;
}

}  // namespace emplace::launcher
