#include "launcher/session/run.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/keys.h"
#include "base/text/words.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/endpoint.h"
#include "launcher/cluster/hosts/elastic_nodes.h"
#include "launcher/cluster/hosts/kubernetes.h"
#include "launcher/cluster/hosts/topology.h"
#include "launcher/cluster/node/wiring.h"
#include "launcher/cluster/operator/operator.h"
#include "launcher/cluster/supervision/node_lines.h"
#include "launcher/cluster/supervision/supervised.h"
#include "launcher/inputs/costs_json.h"
#include "launcher/inputs/inputs.h"
#include "launcher/session/leftovers.h"
#include "launcher/session/metrics.h"
#include "launcher/session/preparation.h"
#include "launcher/session/progress.h"
#include "launcher/session/report.h"
#include "launcher/session/run_observer.h"
#include "launcher/settings/placers.h"
#include "launcher/terminal/json_text.h"
#include "launcher/terminal/stop_signal.h"
#include "record/run_reader.h"
#include "record/store/launch_lock.h"
#include "record/store/run_folder.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

using nlohmann::json;

/// Merges the traces of every process of every start into one file, then removes them. Errors: those of
/// merge_traces(); the traces then stay.
Result<TraceSummary> collect_trace(const RunOrder& order, const std::filesystem::path& path) {
  const std::vector<Start> starts = starts_of(order);
  std::vector<TraceSource> sources;
  sources.reserve(starts.size());
  for (const Start& start : starts)
    sources.push_back({starts.size() == 1 ? "" : start.name, trace_folder(start.directory)});
  EMPLACE_TRY_ASSIGN(const TraceSummary merged, merge_traces(sources, path));
  std::error_code ignored;
  for (const TraceSource& source : sources) std::filesystem::remove_all(source.folder, ignored);
  return merged;
}

/// Returns the config of a branch: the given one, or that of its parent run.
Result<RunConfig> config_of_branch(const RunRequest& request) {
  const std::filesystem::path parent = parse_checkpoint_name(request.branch).run;
  EMPLACE_TRY_ASSIGN(const auto db, record::RunReader::open(parent, record::Reading::kQuiet));
  EMPLACE_TRY(db->verify());
  EMPLACE_TRY_ASSIGN(const auto facts, db->header().facts());
  if (!request.config.empty()) return load_config(request.config, request.settings);
  auto config = recorded_config(facts.config_toml, printable_path(parent) + ": config", request.settings);
  if (config) config->run.dir.clear();  // The branch gets its own directory.
  return config;
}

Result<RunConfig> resolve(const RunRequest& request) {
  auto config = !request.branch.empty() ? config_of_branch(request)
                : request.resume        ? load_config(std::filesystem::path{request.run_dir} / "config.toml",
                                                      request.settings, ConfigFrom::kRunFile)
                                        : load_config(request.config, request.settings);
  if (!config) return config;
  if (const std::string text = old_names_warning(*config); !text.empty() && request.warn) request.warn(text);
  if (request.seed) config->run.seed = *request.seed;
  if (request.episodes) config->run.episodes = *request.episodes;
  if (request.budget_s) config->run.budget.seconds = *request.budget_s;
  if (!request.trace.empty()) config->record.trace = true;
  EMPLACE_TRY(check_config(*config));
  if (!request.branch.empty()) {
    config->run.policy = request.branch;
    config->run.optimizer = true;
  }
  const bool recorded = request.resume || (!request.branch.empty() && request.config.empty());
  std::string& devices = config->input.devices;
  if (!recorded) devices = resolved_devices(devices);
  config->run.policy = absolute_checkpoint(config->run.policy);
  std::vector<std::string*> paths{&config->input.graph, &config->input.rules, &config->executor.log};
  if (machine_form(devices) == MachineForm::kFile) paths.push_back(&devices);
  for (std::string& graph : config->input.graphs) paths.push_back(&graph);
  config->executor.model = absolute_model(config->executor.model);
  for (std::string* path : paths) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
    if (!is_utf8(*path))
      return invalid(printable(*path), "is not UTF-8, as the run's config must be", "rename it");
  }
  return config;
}

std::filesystem::path choose_directory(const RunRequest& request, const RunConfig& config,
                                       const Clock& clock) {
  if (!request.run_dir.empty()) return request.run_dir;
  if (!config.run.dir.empty()) return config.run.dir;
  const std::string stem = request.config.empty() ? "branch" : request.config.stem().string();
  std::string time = format_wall(clock.wall());
  std::erase_if(time, [](char c) { return c == ':' || c == '-'; });
  return std::filesystem::path{"runs"} / (stem + "-" + time);
}

/// Best step time that a start has recorded so far, to show before it has a new one; 0: none is known.
double recorded_best(const Start& start) {
  const auto db = record::RunReader::open(start.directory, record::Reading::kQuietOrInProgress);
  if (!db) return 0;
  const auto best = (*db)->results().best();
  return best && *best ? (*best)->step_time_s : 0;
}

/// Shows the warning about the policy of a start, if there is one, once.
void warn_once(Outcome& outcome, const std::string& warning, Progress& progress) {
  if (warning.empty() || std::exchange(outcome.warned, true)) return;
  progress.warn("start " + outcome.start.name + ": " + warning);
}

/// Runs the processes of a start until it ends; a process that dies is restarted and continues. `last`: the
/// run has no other start after it. Sets the endpoint of `topology` to the one that the head has bound.
Result<int> run_start(Outcome& outcome, bool last, Topology& topology, const record::LaunchLock& lock,
                      ShownStart shown, const StopSignal& stop, Progress& progress, const Clock& clock) {
  const Nanos started = clock.now();
  const auto elapsed = [&] { return std::chrono::duration<double>(clock.now() - started).count(); };
  const Start& start = outcome.start;
  for (const std::string& socket : {topology.endpoint, topology.beside})
    if (const auto file = socket_of(socket); !file.empty())
      EMPLACE_TRY(record::make_private_folder(file.parent_path()));
  shown.name = start.name;
  shown.budget_s = start.budget_s;
  if (start.resume) shown.recorded_best_s = recorded_best(start);
  outcome.restarts.assign(topology.members.size(), 0);
  Supervised supervised;
  supervised.options = topology.supervision;
  supervised.last_start = last;
  for (const std::vector<NodePlan>& member : topology.members) {
    supervised.children.push_back(child_of(member));
    outcome.nodes.push_back(supervised.children.back().name);
  }
  shown.nodes = outcome.nodes;
  progress.start(shown);
  supervised.program = [&](std::size_t i) {
    const double left = start.budget_s == 0 ? 0 : std::max(0.1, start.budget_s - elapsed());
    return program_of(topology, topology.members[i], start, topology.endpoint, left, outcome.restarts[i]);
  };
  supervised.on_ready = [&](std::size_t i, const std::string& bound) {
    if (i != 0) return;
    std::string& endpoint = topology.endpoint;
    if (!bound.empty() && bound != endpoint && endpoint.starts_with("tcp://"))
      endpoint = bound;  // A restarted head and that of the next start bind the same port.
    if (endpoint.starts_with("tcp://")) progress.note("the head listens at " + endpoint);
  };
  supervised.on_line = [&](const std::string& line) {
    auto reported = parse_progress(line);
    if (!reported) return;
    // A restarted head counts from 0 again.
    reported->duplicated = std::max(reported->duplicated, outcome.progress.duplicated);
    outcome.progress = *std::move(reported);
    // Best effort: the next progress line writes the file again.
    if (lock.held()) (void)write_file(start.directory / "metrics.prom", metrics_text(outcome.progress));
    shown.restarts = outcome.restarts;
    warn_once(outcome, printable(outcome.progress.record.warning, 1'000), progress);
    progress.show(shown, outcome.progress);
  };
  supervised.on_note = [&](std::size_t i, const std::string& note) {
    progress.note(outcome.nodes[i] + ": " + note);
  };
  ElasticNodes elastic{topology.members};
  supervised.orders = [&] { return elastic.orders(outcome.progress.dispatch.executors_wanted, clock.now()); };
  supervised.on_death = [&](std::size_t i, const std::string& note) {
    ++outcome.restarts[i];
    elastic.on_restart(i);
    progress.note(outcome.nodes[i] + " " + note + "; restarting from run.db");
  };
  if (stop.received() != 0) return 128 + stop.received();
  const auto ended = supervise(supervised);
  progress.end_line();
  outcome.wall_s = elapsed();
  if (lock.held()) remove_leftovers(start.directory, topology);
  if (!ended) {
    const std::string logs = "; logs are in " + printable((start.directory / "log").string());
    return Error{ended.error().code,
                 ended.error().context + (ended.error().code == Errc::kRunFailed ? logs : "")};
  }
  return ended->received_signal == 0 ? 0 : 128 + ended->received_signal;
}

double best_or_null(const TableRow& row) { return row.found ? row.measurement.step_time_s : kJsonNull; }

json json_of(const std::optional<StepCosts>& costs) {
  return costs ? json(costs_json(*costs)) : json(nullptr);
}

json outcome_json(const Outcome& o) {
  const messages::DispatchProgress& dispatch = o.progress.dispatch;
  const messages::LeaseCounts& leases = dispatch.leases;
  json j{{"start", o.start.name},
         {"run_dir", o.start.directory.string()},
         {"episodes", o.counters.episodes},
         {"measurements", o.counters.measurements},
         {"updates", o.counters.updates},
         {"entropy", o.learning.entropy},
         {"saturated", o.learning.saturation.has_value()},
         {"lost", leases.expired},
         {"duplicated", o.duplicated},
         {"refused_results", dispatch.refused_results},
         {"best_step_time_s", best_or_null(o.rows.front())},
         {"costs", json_of(o.rows.front().costs)},
         {"best_label",
          o.rows.front().found ? json(label_name(o.rows.front().measurement.label)) : json(nullptr)},
         {"parameters_sha256", o.parameters_sha256},
         {"executor_utilisation", o.progress.utilisation},
         {"wall_s", o.wall_s}};
  if (const TableRow& best = o.rows.front(); best.recomputed + best.moved_tensors > 0)
    j["memory_plan"] = {{"recomputed_ops", best.recomputed}, {"moved_tensors", best.moved_tensors}};
  j["restarts"] = json::object();
  for (std::size_t i = 0; i < o.restarts.size(); ++i) j["restarts"][o.nodes[i]] = o.restarts[i];
  j["leases"] = fields_json<messages::LeaseCounts, json>(leases);
  return j;
}

/// Reads the cluster file of a request and applies its --set options; none if every actor runs in the head.
Result<std::optional<Cluster>> cluster_of(RunRequest& request) {
  const std::filesystem::path kept = std::filesystem::path{request.run_dir} / "cluster.toml";
  if (request.cluster.empty() && request.resume && std::filesystem::exists(kept)) request.cluster = kept;
  std::vector<std::string> ours;
  const bool given = !request.cluster.empty();
  for (const std::string& setting : request.settings)
    if (given && is_cluster_setting(setting)) ours.push_back(setting);
  if (given) std::erase_if(request.settings, [](const std::string& one) { return is_cluster_setting(one); });
  if (!given) return std::optional<Cluster>{};
  if (!request.key.empty()) {
    const std::filesystem::path key = std::filesystem::absolute(request.key);
    const std::filesystem::path allowed = key.parent_path() / "allowed.toml";
    if (!std::filesystem::exists(allowed)) {  // Simplest cluster: one key for every node.
      EMPLACE_TRY_ASSIGN(const auto pair, load_key_pair(key));
      const Roles all{Role::kExecutor, Role::kActor, Role::kOperator};
      EMPLACE_TRY(add_to_allow_list(allowed, {pair.name, pair.public_key, all}, false));
    }
    ours.push_back("head.key=" + key.string());
    ours.push_back("head.allowed=" + allowed.string());
  }
  if (request.insecure) ours.push_back("head.insecure=true");
  EMPLACE_TRY_ASSIGN(auto cluster, load_cluster(request.cluster, ours, request.engine));
  if (request.config.empty() && !request.resume) {
    if (cluster.run.config.empty())
      return invalid(printable(request.cluster.filename().string()) + ": run.config", "is missing",
                     "name the config to run");
    request.config = std::filesystem::path{cluster.paths_from} / cluster.run.config;
  }
  if (request.run_dir.empty()) request.run_dir = cluster.run.dir;
  return std::optional<Cluster>{std::move(cluster)};
}

/// A signal came before the first start: removes a fresh directory and reports it.
void report_unstarted(const LockedRun& locked, const std::filesystem::path& directory, Progress& progress) {
  if (locked.fresh) remove_failed_start(directory);
  progress.note(locked.fresh ? "interrupted before learning started: nothing is kept"
                             : "interrupted before learning continued: the run is unchanged");
}

/// Runs the starts one after the other, until one is stopped by a signal or by `emplace down`.
Result<Unit> run_starts(RunSummary& summary, const RunPlan& plan, const LockedRun& locked, StopSignal& stop,
                        Progress& progress, const Clock& clock) {
  const RunConfig& config = plan.order.config;
  // Heuristics are simulated; times of real devices are not comparable with them.
  const bool comparable = !uses_real_devices(config.executor.kind);
  ShownStart shown;
  if (comparable && summary.heuristics.size() == 1) {
    const Heuristics& heuristics = summary.heuristics.front();
    if (heuristics.best) shown.heuristic = heuristics.rows[*heuristics.best].method;
    shown.heuristic_s = heuristics.best_step_time_s();
    shown.bound_s = heuristics.bound.seconds;
  }
  Topology topology = plan.topology;
  for (const Start& start : locked.starts) {
    if (stop.received() != 0) {
      summary.status = 128 + stop.received();
      if (summary.outcomes.empty()) report_unstarted(locked, plan.order.directory, progress);
      break;
    }
    Outcome outcome;
    outcome.start = start;
    EMPLACE_TRY(prepare_start(config, *plan.task, outcome.start, summary.heuristics, clock));
    const auto ended = run_start(outcome, &start == &locked.starts.back(), topology, locked.lock, shown, stop,
                                 progress, clock);
    stop.take_over(ended && *ended > 128 ? *ended - 128 : 0);  // The start had handlers of its own.
    if (!ended) {
      const bool first = &start == &locked.starts.front();
      if (locked.fresh && first && ended.error().code == Errc::kInvalid)
        remove_failed_start(plan.order.directory);
      return ended.error();
    }
    summary.status = *ended;
    EMPLACE_TRY(summarise(outcome, config, *plan.task));
    warn_once(outcome, outcome.learning.warning, progress);  // It came after the last report of the head.
    const bool stopped_by_user = outcome.progress.dispatch.ending == kEndedByOperator;
    summary.outcomes.push_back(std::move(outcome));
    if (stopped_by_user || summary.status != 0) break;
  }
  return Unit{};
}

/// Errors: kInvalid for --resume without a run directory, or nodes that only kubectl can start.
Result<Unit> check_request(const RunRequest& request, const std::optional<Cluster>& cluster) {
  if (request.resume && request.run_dir.empty())
    return invalid("--resume", "needs --run-dir", "name the directory of the run to continue");
  std::error_code ignored;
  if (request.resume &&
      !std::filesystem::exists(std::filesystem::path{request.run_dir} / "config.toml", ignored))
    return invalid(printable_path(request.run_dir), "holds no run to continue",
                   "a run is kept once learning has started; start it without --resume");
  if (!cluster) return Unit{};
  for (const Cluster::Node& node : cluster->nodes)
    if (node.start == StartBy::kKubernetes)
      return invalid("node '" + node.name + "'", "can only be started by kubectl",
                     "use emplace up CLUSTER --manifests FILE, then kubectl apply -f FILE");
  return Unit{};
}

/// Returns the run whose recorded graphs and machine a resumed run or a branch uses, or nothing if the
/// request names its own.
std::filesystem::path inputs_of(const RunRequest& request) {
  const auto own = [](const std::string& setting) { return setting.starts_with("input."); };
  if (!request.config.empty() || std::any_of(request.settings.begin(), request.settings.end(), own))
    return {};
  const std::filesystem::path run =
      request.resume ? std::filesystem::path{request.run_dir} : parse_checkpoint_name(request.branch).run;
  std::error_code ignored;
  return std::filesystem::exists(run / "run.db", ignored) ? run : std::filesystem::path{};
}

}  // namespace

std::string summary_json(const RunSummary& summary) {
  json j = outcome_json(summary.outcomes.front());
  j["run_dir"] = summary.directory.string();
  double wall_s = 0;
  for (const Outcome& outcome : summary.outcomes) wall_s += outcome.wall_s;
  j["wall_s"] = wall_s;
  const auto of_graph = [](json& into, const Heuristics& heuristics) {
    into["lower_bound_s"] = heuristics.bound.seconds;
    into["baseline_step_time_s"] = json::object();
    for (const TableRow& row : heuristics.rows) {
      into["baseline_step_time_s"][row.method] =
          row.found && row.measurement.valid ? row.measurement.step_time_s : kJsonNull;
    }
  };
  const auto add_recommended = [](json& into, const Recommendation& best) {
    into["recommended"] = best.method.empty() ? json(nullptr)
                                              : json{{"method", best.method},
                                                     {"step_time_s", best.step_time_s},
                                                     {"costs", json_of(best.costs)},
                                                     {"placement", best.file.string()}};
  };
  of_graph(j, summary.heuristics.front());
  add_recommended(j, summary.recommended.front());
  for (const Outcome& outcome : summary.outcomes) j["starts"].push_back(outcome_json(outcome));
  for (std::size_t g = 0; g < summary.task->graphs.size() && summary.task->graphs.size() > 1; ++g) {
    const actors::TaskGraph& one = summary.task->graphs[g];
    json graph{{"graph", one.graph.name()}, {"graph_sha256", one.sha256}};
    of_graph(graph, summary.heuristics[g]);
    add_recommended(graph, summary.recommended[g]);
    for (const Outcome& outcome : summary.outcomes)
      graph["best_step_time_s"].push_back(best_or_null(outcome.rows[g]));
    j["graphs"].push_back(std::move(graph));
  }
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<RunSummary> perform(RunOrder order) {
  const SystemClock clock;
  EMPLACE_TRY_ASSIGN(RunPlan plan, make_plan(std::move(order)));
  EMPLACE_TRY(check_plan(plan));
  EMPLACE_TRY_ASSIGN(const LockedRun locked, lock_run(plan));
  RunObserver unobserved;
  RunObserver& observer = plan.order.observer != nullptr ? *plan.order.observer : unobserved;
  Progress progress{STDERR_FILENO, plan.order.quiet, clock, &observer};
  observer.on_planned(plan);
  if (plan.order.announce_machine)
    for (const std::string& note : plan.notes) progress.note(note);
  EMPLACE_TRY(prepare_hosts(plan, progress));
  RunSummary summary;
  summary.task = plan.task;
  summary.directory = plan.order.directory;
  StopSignal stop;
  EMPLACE_TRY_ASSIGN(summary.heuristics, prepare_heuristics(plan, locked, stop, progress, clock));
  if (stop.received() == 0) announce(plan, progress);
  EMPLACE_TRY(run_starts(summary, plan, locked, stop, progress, clock));
  observer.on_ended();
  if (!summary.outcomes.empty()) EMPLACE_TRY(recommend(summary, plan.order.config, clock));
  return summary;
}

Result<Manifests> write_manifests(RunRequest request, const std::filesystem::path& file) {
  EMPLACE_TRY_ASSIGN(const std::optional<Cluster> cluster, cluster_of(request));
  EMPLACE_TRY_ASSIGN(const RunConfig config, resolve(request));
  if (config.run.starts.front() != "scratch")
    return invalid("run.starts",
                   "starts with '" + config.run.starts.front() + "', which needs a run directory",
                   "put scratch first");
  EMPLACE_TRY_ASSIGN(const auto manifest, make_manifest(config, {}, {}, {"scratch", {}}));
  EMPLACE_TRY_ASSIGN(const std::string text,
                     kubernetes_manifests(*cluster, config, manifest, request.config.stem().string()));
  EMPLACE_TRY(write_file(file, text));
  return Manifests{file.string(), cluster->kubernetes.key_secret.empty()};
}

Result<FinishedRun> run(RunRequest request) {
  process::ignore_broken_pipes();  // The run continues if the reader of its output exits.
  EMPLACE_TRY_ASSIGN(const std::optional<Cluster> cluster, cluster_of(request));
  EMPLACE_TRY(check_request(request, cluster));
  EMPLACE_TRY_ASSIGN(const RunConfig config, resolve(request));
  const SystemClock clock;
  const RunOrder order{.config = config,
                       .directory = choose_directory(request, config, clock),
                       .resume = request.resume,
                       .inputs_of = inputs_of(request),
                       .quiet = request.quiet,
                       .cluster = cluster,
                       .push = request.push,
                       .observer = request.observer};
  auto summary = perform(order);
  FinishedRun finished;
  // A run that was refused has written no trace; files in its directory belong to another run.
  if (config.record.trace && (summary || summary.error().code == Errc::kRunFailed)) {
    finished.trace_file =
        request.trace.empty() ? order.directory / "trace.json.gz" : std::filesystem::path{request.trace};
    finished.trace = collect_trace(order, finished.trace_file);
  }
  EMPLACE_TRY_ASSIGN(finished.summary, std::move(summary));
  if (finished.summary.outcomes.empty()) return finished;
  finished.page = order.directory / "report.html";
  if (auto written = write_report(order.directory, finished.page, clock); !written)
    finished.page_failure = written.error();
  return finished;
}

}  // namespace emplace::launcher
