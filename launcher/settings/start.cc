#include "launcher/settings/start.h"

#include <poll.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "launcher/inputs/inputs.h"
#include "launcher/settings/host_facts.h"
#include "launcher/settings/log_driven.h"
#include "launcher/settings/placers.h"
#include "launcher/terminal/build_info.h"
#include "launcher/terminal/json_text.h"
#include "placement/machine/cost_model.h"
#include "placement/partitioning_machine.h"
#include "placement/placement_file.h"
#include "record/run_writer.h"
#include "record/store/run_folder.h"
#include "solver/methods.h"
#include "solver/portfolio/portfolio.h"

namespace emplace::launcher {
namespace {

using actors::TaskPtr;

/// Returns the `parent` of the run: the checkpoint or the weights that its policy starts from; empty for
/// random weights.
Result<std::string> parent_of(const RunConfig& config) {
  if (config.run.policy.empty()) return std::string{};
  const auto warm = read_checkpoint(config.run.policy);
  if (!warm) return Error{warm.error().code, "run.policy: " + warm.error().context};
  if (warm->facts.run_id.empty())
    return json_text(Json{
        {"kind", "weights"}, {"weights", config.run.policy}, {"parameters_sha256", warm->checkpoint.sha256}});
  const Json parent{{"kind", config.run.optimizer ? "branch" : "warm start"},
                    {"run_id", warm->facts.run_id},
                    {"run_dir", parse_checkpoint_name(config.run.policy).run.string()},
                    {"update", warm->checkpoint.update},
                    {"parameters_sha256", warm->checkpoint.sha256}};
  return json_text(parent);
}

record::RunFacts run_facts(const RunConfig& config, const actors::Task& task, const Start& start,
                           const Clock& clock) {
  record::RunFacts facts;
  facts.software_version = build_info().version;
  facts.host = task.host;
  const actors::TaskGraph& first = task.graphs.front();
  facts.graph = first.graph.name();
  facts.graph_sha256 = first.sha256;
  facts.devices_json = first.devices.sha256();
  RunConfig recorded = config;
  recorded.executor.model.clear();  // A record may come from elsewhere: it names no code that is imported.
  facts.config_toml = to_toml(recorded, false);
  facts.method = config.policy.method + " from " + start.name;
  facts.seed = config.run.seed;
  facts.started_wall_ns = clock.wall().count();
  facts.num_ops = static_cast<std::uint32_t>(first.graph.num_ops());
  facts.num_devices = static_cast<std::uint32_t>(first.devices.size());
  facts.host_facts = host_facts();
  facts.run_id = new_run_id(start.directory, facts.started_wall_ns);
  return facts;
}

/// Returns the database rows of the graphs, with their devices and bounds.
Result<std::vector<record::GraphRow>> graph_rows(const RunConfig& config, const actors::Task& task,
                                                 std::span<const Heuristics> heuristics) {
  EMPLACE_TRY_ASSIGN(const auto files, graph_files(config));
  std::string devices_toml = config.input.devices;  // Empty if the graph file contains the machine.
  if (!devices_toml.empty() && machine_form(devices_toml) == MachineForm::kFile) {
    EMPLACE_TRY_ASSIGN(const auto devices, read_file(config.input.devices));
    devices_toml.assign(reinterpret_cast<const char*>(devices.data()), devices.size());
  }
  std::vector<record::GraphRow> rows;
  for (std::size_t g = 0; g < task.graphs.size(); ++g) {
    const actors::TaskGraph& one = task.graphs[g];
    record::GraphRow& row = rows.emplace_back();
    row.sha256 = one.sha256;
    row.name = one.graph.name();
    row.file = files[g].string();
    row.num_ops = static_cast<std::uint32_t>(one.graph.num_ops());
    row.content = graph_msgpack(one.graph);
    row.devices_toml = devices_toml;
    row.reserve = config.input.reserve.recorded();
    row.lower_bound_s = heuristics[g].bound.seconds;
    row.bound = word_of(heuristics[g].bound.proof);
  }
  return rows;
}

std::vector<record::HeuristicRow> heuristic_rows(const actors::Task& task,
                                                 std::span<const Heuristics> heuristics) {
  std::vector<record::HeuristicRow> rows;
  for (std::size_t g = 0; g < task.graphs.size(); ++g) {
    for (std::size_t m = 0; m < heuristics[g].rows.size(); ++m) {
      const TableRow& found = heuristics[g].rows[m];
      const Measurement& measured = found.measurement;
      const auto placement = std::as_bytes(std::span{heuristics[g].placements[m]});
      rows.push_back({task.graphs[g].sha256, found.method, found.found, measured.valid, measured.step_time_s,
                      measured.bytes_over, measured.bytes_moved, measured.peak_bytes, found.evaluations,
                      found.wall_s, found.note, Bytes(placement.begin(), placement.end())});
    }
  }
  return rows;
}

/// Retries while the database is locked: a launcher that was just killed, or a report in progress, releases
/// it soon.
template <class Open>
auto retry_while_locked(Open open) {
  auto db = open();
  for (int tries = 0; !db && tries < 150; ++tries) {
    ::poll(nullptr, 0, 20);
    db = open();
  }
  return db;
}

/// Adds the actors of this start to the `actors` table.
Result<Unit> add_actors(const RunConfig& config, const actors::Task& task, const Start& start,
                        const Clock& clock) {
  EMPLACE_TRY_ASSIGN(const auto db,
                     retry_while_locked([&] { return record::RunWriter::open(start.directory); }));
  std::vector<std::string> names{actors::kDispatcher, actors::kRecorder};
  if (learns(config)) names.insert(names.end(), {actors::kTracker, actors::kLearner});
  for (std::uint32_t e = 0; e < config.executor.count && config.reward.source == RewardSource::kExecutors;
       ++e)
    names.push_back(actors::executor_name(e));
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) names.push_back(actors::sampler_name(c));
  for (const std::string& name : names) EMPLACE_TRY(db->add_actor(name, task.host, clock.wall().count()));
  return db->commit();
}

}  // namespace

Result<std::vector<std::filesystem::path>> graph_files(const RunConfig& config) {
  if (config.input.graphs.empty())
    return std::vector<std::filesystem::path>{graph_file_of(config.input.graph)};
  std::vector<std::filesystem::path> files;
  for (const std::string& input : config.input.graphs) {
    if (graph_file_of(input) != input) {
      files.push_back(graph_file_of(input));
      continue;
    }
    const bool folder = std::filesystem::is_directory(input);
    const std::string pattern = folder ? input + "/*" : input;
    const std::vector<std::string> found = matching_files(pattern);
    files.insert(files.end(), found.begin(), found.end());
    if (found.empty())
      return invalid("input.graphs: " + printable(input), "matches no graph file",
                     "name graph files, a folder of them, or a pattern like 'train-*.json.gz'");
  }
  return files;
}

namespace {

/// Turns a graph name into a valid file name.
std::string valid_file_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  return name;
}

}  // namespace

std::filesystem::path kept_path(const std::filesystem::path& directory, const char* what,
                                const actors::Task& task, const actors::TaskGraph& one) {
  if (task.graphs.size() == 1) return directory / (std::string{what} + ".placement.json");
  return directory / what /
         (valid_file_name(one.graph.name()) + "-" + one.sha256.substr(0, 8) + ".placement.json");
}

Result<Unit> keep_placement(const std::filesystem::path& file, const RunConfig& config,
                            const actors::TaskGraph& one, const Placement& placement,
                            const std::string& method, const Clock& clock) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  EMPLACE_TRY_ASSIGN(PlannedPlacement kept, model_of(config, one)->decide(placement));
  return save_placement(
      file, one.graph, one.devices, placement, kept.measurement,
      {one.sha256, method, "sim", config.run.seed, format_wall(clock.wall()), std::move(kept.plan)});
}

bool started_from_heuristics(const record::RunFacts& facts) {
  return facts.method.ends_with(std::string{" from "} + kBestHeuristic) ||
         facts.method.ends_with(std::string{" from "} + kBestBaseline);
}

std::string label_of(const RunConfig& config, const Start& start) {
  const std::string& policy = config.run.policy;
  const char* from = "scratch";
  if (start.name == kBestHeuristic) {
    from = "the best heuristic";
  } else if (!policy.empty()) {
    from = policy == kShippedPolicy ? "the pretrained policy" : "another policy";
  }
  return config.policy.method + ", from " + from;
}

std::filesystem::path start_directory(const std::filesystem::path& run, const std::string& name) {
  std::filesystem::path older = run / (std::string{"from-"} + kBestBaseline);
  std::error_code ignored;
  if (name == kBestHeuristic && std::filesystem::exists(older, ignored)) return older;
  return run / ("from-" + name);
}

Result<std::vector<Placement>> load_starting_placements(const std::filesystem::path& directory,
                                                        const actors::Task& task) {
  std::vector<Placement> placements;
  for (const actors::TaskGraph& one : task.graphs) {
    EMPLACE_TRY_ASSIGN(auto loaded, load_placement(kept_path(directory, kStartingPlacement, task, one),
                                                   one.graph, one.sha256, one.devices, Plans::kKnown));
    placements.push_back(std::move(loaded));
  }
  return placements;
}

namespace {

Result<DeviceSet> devices_for(const OpGraph& graph, const RunConfig& config) {
  if (!config.input.devices.empty())
    return open_resolved_devices(config.input.devices, config.input.reserve, config.input.cost_version());
  EMPLACE_TRY_ASSIGN(auto own, machine_of(graph, judge_of(config).objective, config.input.reserve,
                                          config.input.cost_version()));
  if (!own) return open_resolved_devices("here", config.input.reserve, config.input.cost_version());
  return *std::move(own);
}

/// Whether the graph file contains the machine that the config wants.
bool has_own_machine(const OpGraph& graph, const RunConfig& config) {
  const auto own = machine_of(graph, judge_of(config).objective, config.input.reserve);
  return own && own->has_value();
}

}  // namespace

bool runs_here(const RunConfig& config, const actors::Task& task) {
  if (!config.input.devices.empty()) return machine_form(config.input.devices) == MachineForm::kHere;
  return !has_own_machine(task.graphs.front().graph, config);
}

ProcessRequest process_request_of(const RunConfig& config) {
  const ExecutorSection& e = config.executor;
  ProcessRequest request;
  request.real.timing = e.timing;
  request.real.timing.most_samples = 3 * e.timing.samples;
  request.real.seed = config.run.seed;
  request.chaos = e.chaos;
  request.delay_s = e.delay.seconds;
  request.deadline_s = e.deadline.seconds;
  request.restarts = e.restarts;
  if (e.kind == "torch") {
    request.model = e.model;
    request.threads = e.threads;
  }
  return request;
}

Judge judge_of(const RunConfig& config) {
  return {.objective = config.objective.kind,
          .simulator = {.dispatch = config.executor.dispatch},
          .placeto = config.executor.kind == "placeto"};
}

Allowed allowed_of(const RunConfig& config) {
  const auto words = parse_allowed(config.executor.allow);
  return words ? *words : Allowed{};
}

std::unique_ptr<PlannedExecutor> model_of(const RunConfig& config, const actors::TaskGraph& one) {
  return std::make_unique<PlannedExecutor>(one.graph, one.devices, one.constraints, judge_of(config),
                                           allowed_of(config));
}

Result<MemoryPlan> plan_of(const RunConfig& config, const actors::TaskGraph& one,
                           const Placement& placement) {
  if (!allowed_of(config).memory()) return MemoryPlan{};
  EMPLACE_TRY_ASSIGN(PlannedPlacement found, model_of(config, one)->decide(placement));
  return std::move(found.plan);
}

namespace {

/// Returns a hash of all that decides what an executor of some kind measures for a placement, and of nothing
/// else: paths, names and the number of executors differ among the machines of a run. Its text is a contract
/// between releases.
std::string hash_of_measuring(const RunConfig& config, const actors::Task& task) {
  const TimingOptions& timing = config.executor.timing;
  std::string text = fmt::format(
      "objective {} dispatch {} allow {} seed {} reserve {} by_bytes {} warmups {} samples {} statistic {} "
      "capture {} tune {} stop_ratio {}\n",
      word_of(config.objective.kind), word_of(config.executor.dispatch), config.executor.allow,
      config.run.seed, config.input.reserve.recorded(), config.input.by_bytes, timing.warmups, timing.samples,
      word_of(timing.statistic), timing.capture, timing.tune, timing.stop_ratio);
  for (const actors::TaskGraph& one : task.graphs) {
    text += fmt::format("graph {} devices {}", one.sha256, one.devices.sha256());
    for (const std::uint32_t of : one.constraints.classes()) text += fmt::format(" {}", of);
    const DeviceMask* last = nullptr;  // Most classes may use the devices of the one before.
    for (std::uint32_t of = 0; of < one.constraints.num_classes(); ++of) {
      const DeviceMask* const mask = &one.constraints.allowed(of);
      text += last != nullptr && *mask == *last ? "=" : "\n" + mask->to_string();
      last = mask;
    }
    text += '\n';
  }
  return sha256_hex(std::as_bytes(std::span{text.data(), text.size()}));
}

}  // namespace

Result<TaskPtr> load_task(const RunConfig& config) {
  EMPLACE_TRY_ASSIGN(auto files, graph_files(config));
  EMPLACE_TRY_ASSIGN(const auto reading, config.input.reading.options());
  auto task = std::make_shared<actors::Task>();
  task->host = host_name();
  for (const std::filesystem::path& file : files) {
    EMPLACE_TRY_ASSIGN(auto graph, load_graph(file, reading));
    EMPLACE_TRY_ASSIGN(auto devices, devices_for(graph, config));
    EMPLACE_TRY_ASSIGN(const auto rules, open_rules(config.input.rules, graph, devices));
    EMPLACE_TRY_ASSIGN(auto constraints, Constraints::make(graph, devices, rules, config.input.by_bytes));
    if (config.input.devices.empty() && !task->graphs.empty() &&
        has_own_machine(graph, config) != has_own_machine(task->graphs.front().graph, config))
      return invalid("input.devices", "is missing, and only some of the graphs contain a machine",
                     "name one");
    std::string sha256 = graph_sha256(graph);
    if (task->find(sha256) != nullptr)
      return invalid(printable_path(file), "contains a graph that is given twice", "name each graph once");
    task->graphs.push_back({std::move(graph), std::move(devices), std::move(constraints), std::move(sha256)});
  }
  task->measuring = hash_of_measuring(config, *task);
  return TaskPtr{std::move(task)};
}

ProvenBound bound_of(const RunConfig& config, const actors::TaskGraph& one) {
  return bound_of(judge_of(config), one.graph, one.devices, one.constraints, allowed_of(config));
}

void fill_in(TableRow& row, PlannedPlacement measured) {
  row.measurement = std::move(measured.measurement);
  row.recomputed = measured.plan.recompute.size();
  row.moved_tensors = measured.plan.moved.size();
}

void Heuristics::add(TableRow row, Placement placement) {
  const auto faster_than = [&](const std::optional<std::size_t>& other) {
    return row.found && row.measurement.valid &&
           (!other || row.measurement.step_time_s < rows[*other].measurement.step_time_s);
  };
  if (faster_than(best)) best = rows.size();
  if (row.method != "auto" && faster_than(start)) start = rows.size();
  rows.push_back(std::move(row));
  placements.push_back(std::move(placement));
}

Result<Heuristics> recorded_heuristics(std::span<const record::HeuristicRow> rows,
                                       const actors::TaskGraph& one, PlannedExecutor& model) {
  Heuristics heuristics;
  PlacementCosts costs{one.graph, one.devices};
  for (const record::HeuristicRow& row : rows) {
    if (row.graph_sha256 != one.sha256) continue;
    TableRow shown{.method = row.method, .found = row.found};
    shown.note = row.note, shown.evaluations = row.evaluations, shown.wall_s = row.wall_s;
    Placement placement = record::placement_of(row.placement);
    if (row.found) {
      EMPLACE_TRY_ASSIGN(auto measured, model.decide(placement));
      fill_in(shown, std::move(measured));
    }
    if (shown.measurement.valid && !placement.empty()) shown.costs = costs.of(placement);
    heuristics.add(std::move(shown), std::move(placement));
  }
  return heuristics;
}

Result<Heuristics> run_heuristics(const actors::TaskGraph& task, const RunConfig& config, double auto_s,
                                  const Clock& clock, const std::function<bool()>& stopped) {
  const Judge judge = judge_of(config);
  const auto model = make_model(task.graph, task.devices, judge);
  const auto planned = model_of(config, task);
  const CostTable costs{task.graph, task.devices};
  Problem problem{task.graph, task.devices, task.constraints, costs, config.run.seed, judge.objective};
  problem.context.stopped = stopped;
  const auto methods = all_methods();
  const Portfolio portfolio{{methods.begin(), methods.end()}, {}, judge, clock, auto_s};
  PlacementCosts trust{task.graph, task.devices};
  Heuristics heuristics;
  heuristics.bound = bound_of(config, task);
  for (const std::string& name : config.compare.methods) {
    if (name == portfolio.name() && auto_s <= 0) continue;
    EMPLACE_TRY_ASSIGN(const auto method,
                       name == portfolio.name() ? Result<const Method*>{&portfolio} : find_method(name));
    const Nanos started = clock.now();
    auto found = method->find(problem, *model);
    TableRow row{.method = name, .found = found.ok()};
    row.wall_s = std::chrono::duration<double>(clock.now() - started).count();
    Placement placement;
    if (found) {
      placement = std::move(found->placement);
      row.measurement = std::move(found->measurement);
      row.evaluations = found->evaluations;
      // The method has chosen devices; what is decided about memory follows, as for what the run measures.
      if (!row.measurement.valid && !placement.empty()) {
        EMPLACE_TRY_ASSIGN(auto measured, planned->decide(placement));
        fill_in(row, std::move(measured));
      }
      if (row.measurement.valid && !placement.empty() && judge.objective == Objective::kStepTime)
        row.costs = trust.of(placement);
    } else {
      row.note = found.error().context;
    }
    heuristics.add(std::move(row), std::move(placement));
  }
  return heuristics;
}

namespace {

/// Checks that a resumed run has the graphs, devices and learning settings of its record: a record is of one
/// way of learning. Errors (kInvalid): the first difference.
Result<Unit> check_resumable(const RunConfig& config, const actors::Task& task, const record::RunFacts& facts,
                             const std::vector<record::GraphRow>& graphs, const Start& start) {
  const std::string where = printable_path(start.directory);
  const std::string cure = "keep the recorded value, or start a new run with --branch " + where;
  const actors::TaskGraph& first = task.graphs.front();
  for (std::size_t g = 0; g < graphs.size(); ++g)  // Runs of schema 3 have no graph rows.
    if (graphs.size() != task.graphs.size() || graphs[g].sha256 != task.graphs[g].sha256)
      return invalid(where, "was recorded with other graphs than its config names now", cure);
  if (first.sha256 != facts.graph_sha256)
    return invalid(where, "was recorded with another graph than " + printable(config.input.graph) + " is now",
                   cure);
  if (first.devices.sha256() != facts.devices_json)
    return invalid(
        where, "was recorded with other devices than " + printable(config.input.devices) + " has now", cure);
  EMPLACE_TRY_ASSIGN(const auto recorded, recorded_config(facts.config_toml, where + ": config"));
  const auto changed = differing_keys(recorded, config, OnResume::kSame);
  return changed.empty() ? Result{Unit{}}
                         : invalid(where, "was recorded with another " + changed.front(), cure);
}

}  // namespace

Result<Unit> check_start(const RunConfig& config, const actors::Task& task, const Start& start) {
  EMPLACE_TRY(record::check_folder(start.directory));
  if (!config.executor.log.empty()) EMPLACE_TRY(check_driving_log(config, task));
  if (!start.resume) {
    EMPLACE_TRY(parent_of(config));
    return Unit{};
  }
  EMPLACE_TRY_ASSIGN(auto db, retry_while_locked([&] {
                       return record::RunReader::open(start.directory, record::Reading::kQuiet);
                     }));
  EMPLACE_TRY(db->verify());
  EMPLACE_TRY_ASSIGN(const auto facts, db->header().facts());
  EMPLACE_TRY_ASSIGN(const auto graphs, db->header().graphs());
  EMPLACE_TRY(check_resumable(config, task, facts, graphs, start));
  db.reset();
  EMPLACE_TRY(retry_while_locked([&] { return record::RunWriter::open(start.directory); }));
  return Unit{};
}

Result<Unit> prepare_start(const RunConfig& config, const actors::Task& task, Start& start,
                           std::span<const Heuristics> heuristics, const Clock& clock) {
  std::error_code ignored;
  std::filesystem::create_directories(start.directory / "log", ignored);
  std::filesystem::create_directories(
      kept_path(start.directory, kBestPlacement, task, task.graphs.front()).parent_path(), ignored);
  if (!start.resume) {
    // Write heuristics before the database, whose existence marks the start as started: a resumed run reads
    // them.
    for (std::size_t g = 0; g < task.graphs.size() && start.name == kBestHeuristic; ++g) {
      const Heuristics& found = heuristics[g];
      EMPLACE_TRY(keep_placement(kept_path(start.directory, kStartingPlacement, task, task.graphs[g]), config,
                                 task.graphs[g], found.placements[*found.start],
                                 found.rows[*found.start].method, clock));
    }
    EMPLACE_TRY_ASSIGN(const auto graphs, graph_rows(config, task, heuristics));
    record::RunFacts facts = run_facts(config, task, start, clock);
    EMPLACE_TRY_ASSIGN(facts.parent, parent_of(config));
    start.run_id = facts.run_id;
    EMPLACE_TRY(record::RunWriter::create(start.directory, facts, graphs, heuristic_rows(task, heuristics)));
  } else {
    EMPLACE_TRY_ASSIGN(const auto db, retry_while_locked([&] {
                         return record::RunReader::open(start.directory, record::Reading::kQuiet);
                       }));
    EMPLACE_TRY_ASSIGN(const auto facts, db->header().facts());
    start.run_id = facts.run_id;
  }
  return add_actors(config, task, start, clock);
}

}  // namespace emplace::launcher
