#include "launcher/session/run.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/keys.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/actor_trace.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/kubernetes.h"
#include "launcher/cluster/operator.h"
#include "launcher/cluster/remote_host.h"
#include "launcher/cluster/supervised.h"
#include "launcher/cluster/topology.h"
#include "launcher/cluster/wiring.h"
#include "launcher/session/metrics.h"
#include "launcher/session/progress.h"
#include "launcher/session/report.h"
#include "launcher/settings/inputs.h"
#include "launcher/settings/placers.h"
#include "record/run_reader.h"
#include "record/store/folder_lock.h"
#include "record/store/launch_lock.h"
#include "record/store/run_folder.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

using nlohmann::json;

/// The config that a branch goes on with, of the run that it leaves.
Result<RunConfig> config_of_branch(const RunRequest& request) {
  const std::filesystem::path parent = parse_checkpoint_name(request.branch).run;
  const auto db = record::RunReader::open(parent, record::Reading::kQuiet);
  if (!db) return db.error();
  if (auto whole = (*db)->verify(); !whole) return whole.error();
  const auto facts = (*db)->header().facts();
  if (!facts) return facts.error();
  if (!request.config.empty()) return load_config(request.config, request.settings);
  auto config =
      recorded_config(facts->config_toml, printable(parent.string()) + ": config", request.settings);
  if (config) config->run.dir.clear();  // It has its own.
  return config;
}

Result<RunConfig> resolve(const RunRequest& request) {
  auto config = !request.branch.empty() ? config_of_branch(request)
                : request.resume        ? load_config(std::filesystem::path{request.run_dir} / "config.toml",
                                                      request.settings, ConfigFrom::kRecord)
                                        : load_config(request.config, request.settings);
  if (!config) return config;
  if (request.seed) config->run.seed = *request.seed;
  if (request.episodes) config->run.episodes = *request.episodes;
  if (request.budget_s) config->run.budget.seconds = *request.budget_s;
  if (!request.trace.empty()) config->record.trace = true;
  if (auto checked = check_config(*config); !checked) return checked.error();
  if (!request.branch.empty()) {
    config->run.policy = request.branch;
    config->run.optimizer = true;
  }
  std::vector<std::string*> paths{&config->input.graph, &config->input.devices, &config->input.rules,
                                  &config->run.policy, &config->executor.log};
  for (std::string& graph : config->input.graphs) paths.push_back(&graph);
  for (std::string* path : paths) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
    if (!is_utf8(*path))
      return invalid(printable(*path), "is no UTF-8, and the run's config must be", "give it another name");
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

/// The file of an ipc endpoint; empty: it is none.
std::filesystem::path socket_of(const std::string& endpoint) {
  return endpoint.starts_with("ipc://") ? std::filesystem::path{endpoint.substr(6)} : std::filesystem::path{};
}

/// What killed processes leave once all have ended: files half-written, the head's sockets.
void remove_leftovers(const std::filesystem::path& directory, const Topology& topology) {
  std::error_code ignored;
  for (const std::string& endpoint : {topology.endpoint, topology.beside}) {
    const std::filesystem::path socket = socket_of(endpoint);
    if (socket.empty()) continue;
    std::filesystem::remove(socket, ignored);
    if (socket.parent_path().filename() == "private") std::filesystem::remove(socket.parent_path(), ignored);
  }
  for (const std::filesystem::path& folder : {directory, directory / "best", directory / "baseline"}) {
    for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
      const std::string extension = entry.path().extension().string();
      const std::size_t digits = extension.find_first_not_of("0123456789", 5);
      if (extension.starts_with(".part") && digits == std::string::npos)
        std::filesystem::remove(entry.path(), ignored);
    }
  }
}

/// What was made for a run that could not begin, so that the next try finds the directory as this one did.
void remove_unbegun(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory / "run.db", ignored)) {
    const auto db = record::RunReader::open(directory, record::Reading::kQuietOrLive);
    const auto counters = db ? (*db)->results().counters() : Result<record::Counters>{db.error()};
    if (!counters || counters->episodes > 0) return;  // What cannot be read is not ours to remove.
  }
  for (const auto& entry : std::filesystem::directory_iterator{directory, ignored})
    if (entry.path().filename() != "lock") std::filesystem::remove_all(entry.path(), ignored);
  std::filesystem::remove(directory / "lock", ignored);
  std::filesystem::remove(directory, ignored);
}

bool holds_only_the_lock(const std::filesystem::path& directory) {
  std::error_code failure;
  const std::filesystem::directory_iterator entries{directory, failure};
  return !failure && std::distance(begin(entries), end(entries)) == 1;
}

/// Runs the processes of a start until it ends by itself; what is killed comes back and goes on.
Result<int> run_start(Outcome& outcome, const Topology& topology, const record::LaunchLock& lock,
                      double baseline_s, Progress& progress, const Clock& clock) {
  const Nanos began = clock.now();
  const auto elapsed = [&] { return std::chrono::duration<double>(clock.now() - began).count(); };
  const Start& start = outcome.start;
  for (const std::string& socket : {topology.endpoint, topology.beside})
    if (const auto file = socket_of(socket); !file.empty())
      if (auto made = record::make_private_folder(file.parent_path()); !made) return made.error();
  std::string endpoint = topology.endpoint;
  outcome.restarts.assign(topology.members.size(), 0);
  Supervised supervised;
  supervised.options = topology.supervision;
  for (const std::vector<NodePlan>& member : topology.members) {
    supervised.children.push_back(child_of(member));
    outcome.nodes.push_back(supervised.children.back().name);
  }
  supervised.program = [&](std::size_t i) {
    const double left = start.budget_s == 0 ? 0 : std::max(0.1, start.budget_s - elapsed());
    return program_of(topology, topology.members[i], start, endpoint, left, outcome.restarts[i]);
  };
  supervised.on_ready = [&](std::size_t i, const std::string& bound) {
    if (i != 0) return;
    if (!bound.empty() && bound != endpoint && endpoint.starts_with("tcp://"))
      endpoint = bound;  // It keeps its port.
    if (endpoint.starts_with("tcp://")) progress.note("the head listens at " + endpoint);
  };
  supervised.on_line = [&](const std::string& line) {
    const json parsed = json::parse(line, nullptr, false);
    if (!parsed.is_object()) return;
    outcome.progress = line;
    // For whoever watches; a disk that is full takes it later.
    if (lock.held()) (void)write_file(start.directory / "metrics.prom", metrics_text(line));
    progress.show({start.name, outcome.nodes, outcome.restarts, baseline_s}, parsed);
  };
  supervised.on_death = [&](std::size_t i, const std::string& note) {
    ++outcome.restarts[i];
    progress.note(outcome.nodes[i] + " " + note + "; going on from run.db");
  };
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

/// Reads what a start left, and measures its best placement once more.
Result<Unit> sum_up(Outcome& outcome, const RunConfig& config, const actors::Task& task) {
  auto db = record::RunReader::open(outcome.start.directory, record::Reading::kQuietOrLive);
  if (!db) return db.error();
  const auto counters = (*db)->results().counters();
  const auto updates = (*db)->log().updates();
  if (!counters || !updates) return Error{Errc::kIo, "run.db cannot be read"};
  outcome.counters = *counters;
  if (!updates->empty()) outcome.parameters_sha256 = updates->back().parameters_sha256;
  std::set<std::uint64_t> consumed;
  for (const record::UpdateRow& update : *updates)
    for (const std::uint64_t episode : update.episodes)
      outcome.consumed_twice += consumed.insert(episode).second ? 0 : 1;
  for (const actors::TaskGraph& one : task.graphs) {
    record::TableRow& row = outcome.rows.emplace_back();
    row.method = config.policy.method +
                 (outcome.start.name == "scratch" ? ", from scratch" : ", from the best baseline");
    row.evaluations = counters->measurements;
    row.wall_s = outcome.wall_s;
    row.note = "no placement fitted";
    const auto best = (*db)->results().best(one.sha256);
    if (!best) return best.error();
    if (!*best) continue;
    const auto model = make_model(one.graph, one.devices, judge_of(config));
    Placement placement;
    for (const std::byte device : (**best).placement) placement.push_back(static_cast<DeviceId>(device));
    if (auto measured = model->measure(placement, row.measurement); !measured) return measured;
    row.found = true;
    if ((**best).label == MeasurementLabel::kSimulated) continue;
    // What was measured is shown; memory and copies as far as the record has them.
    row.measurement.valid = true;
    row.measurement.step_time_s = (**best).step_time_s;
    row.measurement.peak_bytes = (**best).peak_bytes;
    row.measurement.bytes_moved = (**best).bytes_moved;
    row.measurement.label = (**best).label;
  }
  return Unit{};
}

json best_json(const record::TableRow& row) {
  return row.found ? json(row.measurement.step_time_s) : json(nullptr);
}

json outcome_json(const Outcome& o) {
  json progress = json::parse(o.progress, nullptr, false);
  if (!progress.is_object()) progress = json::object();
  json j{{"start", o.start.name},
         {"run_dir", o.start.directory.string()},
         {"episodes", o.counters.episodes},
         {"measurements", o.counters.measurements},
         {"updates", o.counters.updates},
         {"lost", progress.value("lost", std::uint64_t{0})},
         {"duplicated", o.consumed_twice},
         {"refused_results", progress.value("duplicated", std::uint64_t{0})},
         {"best_step_time_s", best_json(o.rows.front())},
         {"best_label",
          o.rows.front().found ? json(label_name(o.rows.front().measurement.label)) : json(nullptr)},
         {"parameters_sha256", o.parameters_sha256},
         {"executor_utilisation", progress.value("utilisation", 0.0)},
         {"wall_s", o.wall_s}};
  j["restarts"] = json::object();
  for (std::size_t i = 0; i < o.restarts.size(); ++i) j["restarts"][o.nodes[i]] = o.restarts[i];
  if (progress.contains("leases")) j["leases"] = progress["leases"];
  return j;
}

/// The summary as one JSON object.
json summary_json(const RunSummary& summary) {
  json j = outcome_json(summary.outcomes.front());
  j["run_dir"] = summary.directory.string();
  double wall_s = 0;
  for (const Outcome& outcome : summary.outcomes) wall_s += outcome.wall_s;
  j["wall_s"] = wall_s;
  const auto of_graph = [](json& into, const Baselines& baselines) {
    into["lower_bound_s"] = baselines.bound.seconds;
    into["baseline_step_time_s"] = json::object();
    for (const record::TableRow& row : baselines.rows) {
      into["baseline_step_time_s"][row.method] =
          row.found && row.measurement.valid ? json(row.measurement.step_time_s) : json(nullptr);
    }
  };
  of_graph(j, summary.baselines.front());
  for (const Outcome& outcome : summary.outcomes) j["starts"].push_back(outcome_json(outcome));
  for (std::size_t g = 0; g < summary.task->graphs.size() && summary.task->graphs.size() > 1; ++g) {
    const actors::TaskGraph& one = summary.task->graphs[g];
    json graph{{"graph", one.graph.name()}, {"graph_sha256", one.sha256}};
    of_graph(graph, summary.baselines[g]);
    for (const Outcome& outcome : summary.outcomes)
      graph["best_step_time_s"].push_back(best_json(outcome.rows[g]));
    j["graphs"].push_back(std::move(graph));
  }
  return j;
}

void print_summary(const RunSummary& summary) {
  for (std::size_t g = 0; g < summary.task->graphs.size(); ++g) {
    const actors::TaskGraph& one = summary.task->graphs[g];
    const Baselines& baselines = summary.baselines[g];
    std::vector<record::TableRow> rows = baselines.rows;
    for (const Outcome& outcome : summary.outcomes) rows.push_back(outcome.rows[g]);
    if (summary.task->graphs.size() > 1) std::printf("\n%s", printable(one.graph.name()).c_str());
    std::printf("\n%s",
                record::render_table(rows, baselines.bound.seconds, device_names(one.devices)).c_str());
    for (const Outcome& outcome : summary.outcomes) {
      const record::TableRow& row = outcome.rows[g];
      if (row.found && row.measurement.label == MeasurementLabel::kSimulated &&
          baselines.best_step_time_s > 0 && row.measurement.step_time_s >= baselines.best_step_time_s) {
        std::printf("%s did not beat %s: use that placement instead\n", row.method.c_str(),
                    baselines.best_method.c_str());
      }
    }
  }
  std::printf("results: %s\n", printable(summary.directory.string()).c_str());
}

/// The cluster that a request names, changed as it says; none: everybody lives in the head.
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
    if (!std::filesystem::exists(allowed)) {  // The simplest of clusters: one key for everybody.
      const auto pair = load_key_pair(key);
      if (!pair) return pair.error();
      const Roles all{Role::kExecutor, Role::kActor, Role::kOperator};
      if (auto added = add_to_allow_list(allowed, {pair->name, pair->public_key, all}, false); !added)
        return added.error();
    }
    ours.push_back("head.key=" + key.string());
    ours.push_back("head.allowed=" + allowed.string());
  }
  if (request.insecure) ours.push_back("head.insecure=true");
  auto cluster = load_cluster(request.cluster, ours);
  if (!cluster) return cluster.error();
  if (request.config.empty() && !request.resume) {
    if (cluster->run.config.empty())
      return invalid(printable(request.cluster.filename().string()) + ": run.config", "is missing",
                     "name the config that is to be run");
    request.config = std::filesystem::path{cluster->paths_from} / cluster->run.config;
  }
  if (request.run_dir.empty()) request.run_dir = cluster->run.dir;
  return std::optional<Cluster>{*std::move(cluster)};
}

/// Where each start of a config is kept, and which of them there are already.
std::vector<Start> starts_of(const RunConfig& config, const std::filesystem::path& directory, bool resume) {
  std::vector<Start> starts;
  for (const std::string& name : config.run.starts) {
    Start& start = starts.emplace_back();
    start.name = name;
    start.directory = starts.size() == 1 ? directory : directory / ("from-" + name);
    start.budget_s = config.run.budget.seconds / static_cast<double>(config.run.starts.size());
    start.resume = resume && std::filesystem::exists(start.directory / "run.db");
  }
  return starts;
}

/// Errors: kInvalid if the folder holds a run that is not resumed.
Result<Unit> check_free(const std::filesystem::path& directory, bool resume) {
  if (resume || !std::filesystem::exists(directory / "run.db")) return Unit{};
  return invalid(printable(directory.string()), "holds a run already",
                 "go on with it by --resume, or choose another --run-dir");
}

/// That every start can begin, or be gone on with. Errors: as check_start(); kInvalid if the folder holds a
/// run that is not resumed.
Result<Unit> check_starts(const RunConfig& config, const actors::Task& task, const std::vector<Start>& starts,
                          const std::filesystem::path& directory, bool resume) {
  if (auto free = check_free(directory, resume); !free) return free;
  for (const Start& start : starts)
    if (auto checked = check_start(config, task, start); !checked) return checked;
  return Unit{};
}

/// How far the nearest miss was over, for a run in which nothing fitted.
std::string nearest_miss(const RunSummary& summary) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Outcome& outcome : summary.outcomes) {
    const auto db = record::RunReader::open(outcome.start.directory, record::Reading::kQuietOrLive);
    const auto over =
        db ? (*db)->results().least_bytes_over() : Result<std::optional<std::int64_t>>{std::nullopt};
    if (over && *over) least = std::min(least, **over);
  }
  if (least == std::numeric_limits<std::int64_t>::max()) return "";
  return ", the nearest one was " + format_bytes(least) + " over";
}

/// Makes one file of what the processes of every start have noted; then theirs are gone. What goes wrong is
/// said where the run itself `went_well`, and no more: nobody fails for a trace.
void write_trace(const RunConfig& config, const std::filesystem::path& directory,
                 const std::filesystem::path& path, bool quiet, bool went_well) {
  std::vector<TraceSource> sources;
  const std::vector<Start> starts = starts_of(config, directory, false);
  for (const Start& start : starts)
    sources.push_back({starts.size() == 1 ? "" : start.name, trace_folder(start.directory)});
  const auto merged = merge_traces(sources, path);
  if (!merged) {
    if (went_well) std::fprintf(stderr, "warning: %s\n", merged.error().context.c_str());
    return;
  }
  std::error_code ignored;
  for (const TraceSource& source : sources) std::filesystem::remove_all(source.folder, ignored);
  if (quiet || !went_well) return;
  const std::string lost =
      merged->overwritten == 0 ? "" : "; the oldest " + std::to_string(merged->overwritten) + " were let go";
  std::fprintf(stderr, "trace %s: %llu slices%s\n", printable(path.string()).c_str(),
               static_cast<unsigned long long>(merged->slices), lost.c_str());
}

}  // namespace

Result<RunSummary> perform(RunConfig config, const std::filesystem::path& directory, bool resume, bool quiet,
                           const std::optional<Cluster>& cluster, bool push) {
  const SystemClock clock;
  RunSummary summary;
  summary.directory = directory;
  auto topology = lay_out(cluster.value_or(Cluster{}), config, directory);
  if (!topology) return topology.error();
  auto task = load_task(config);
  if (!task) return task.error();
  summary.task = *std::move(task);
  std::map<std::string, int> executors_at;  // By host; "": here.
  for (const NodePlan& node : topology->nodes)
    for (const std::string& actor : node.actors)
      if (actor.starts_with("executor/")) ++executors_at[node.start == "local" ? "" : node.host];
  if (uses_processes(config) && executors_at.contains("")) {
    // Better now than once the baselines are found. Other machines answer for themselves.
    auto can = check_process_executor(config.executor.kind, judge_of(config), process_request_of(config));
    if (!can) return can.error();
  }
  if (auto may = record::check_folder(directory); !may) return may.error();
  if (auto free = check_free(directory, resume); !free) return free.error();
  if (auto made = record::make_private_folder(directory); !made) return made.error();
  // From here on nobody else writes into the folder: what is checked stays so, and the processes of the run
  // find the config that is recorded.
  const auto lock = record::LaunchLock::take(directory);
  if (!lock) return lock.error();
  const bool fresh = holds_only_the_lock(directory);
  const std::vector<Start> starts = starts_of(config, directory, resume);
  const auto checked = check_starts(config, *summary.task, starts, directory, resume);
  if (!checked) {
    if (fresh) remove_unbegun(directory);
    return checked.error();
  }
  if (auto written = write_file(topology->config, to_toml(config, false)); !written) return written.error();
  if (cluster) {
    topology->cluster = directory / "cluster.toml";
    if (auto kept = write_private_file(topology->cluster, to_toml(*cluster)); !kept) return kept.error();
  }

  Progress progress{STDERR_FILENO, quiet, clock};
  for (const auto& [host, executors] : executors_at)
    if (config.executor.kind == "cpu" && executors > 1)
      progress.note("warning: " + std::to_string(executors) + " executors of kind cpu on " +
                    (host.empty() ? "this machine" : printable(host)) +
                    " time each other's work if they share cores; one is right");
  std::vector<NodePlan*> far;
  for (std::vector<NodePlan>& member : topology->members)
    if (push && member.front().start == "ssh") far.push_back(&member.front());
  if (!far.empty()) {
    progress.note("bringing emplace to the hosts of " + std::to_string(far.size()) + " nodes");
    if (auto pushed = push_program(program_path(), far); !pushed) return pushed.error();
  }
  for (const actors::TaskGraph& one : summary.task->graphs) {
    auto baselines = find_baselines(one, config, clock);
    if (!baselines) return baselines.error();
    progress.note(printable(one.graph.name()) + ": " + std::to_string(one.graph.num_ops()) + " ops on " +
                  std::to_string(one.devices.size()) + " devices; best baseline " +
                  (baselines->best.empty()
                       ? "none fits"
                       : baselines->best_method + " " + format_seconds(baselines->best_step_time_s)));
    const bool begins_there =
        std::any_of(starts.begin(), starts.end(), [](const Start& s) { return s.name == kBestBaseline; });
    if (baselines->best.empty() && begins_there) {
      if (fresh) remove_unbegun(directory);
      return Error{Errc::kNoPlacement, "run.starts: no baseline of " + printable(one.graph.name()) +
                                           " fits this machine, so none can be started from"};
    }
    summary.baselines.push_back(*std::move(baselines));
  }
  const auto size = predict_size(config, *summary.task);  // What it refuses, the head refuses by name.
  progress.note("run directory " + printable(directory.string()) +
                (size ? ", run.db " + size->text() : std::string{}));
  if (topology->endpoint.empty())
    progress.note("nobody can look in by ps: the directory's path is too long for a socket");
  // Baselines are simulated: measured times are not held against them.
  const bool comparable = config.executor.kind != "cpu" && config.executor.kind != "cuda";
  const double baseline_s =
      comparable && summary.baselines.size() == 1 ? summary.baselines.front().best_step_time_s : 0;
  for (std::size_t s = 0; s < starts.size() && summary.status == 0; ++s) {
    Outcome outcome;
    outcome.start = starts[s];
    if (auto prepared = prepare_start(config, *summary.task, outcome.start, summary.baselines, clock);
        !prepared)
      return prepared.error();
    const auto ended = run_start(outcome, *topology, *lock, baseline_s, progress, clock);
    if (!ended) {
      if (fresh && s == 0 && ended.error().code == Errc::kInvalid) remove_unbegun(directory);
      return ended.error();
    }
    summary.status = *ended;
    if (auto summed = sum_up(outcome, config, *summary.task); !summed) return summed.error();
    const json last = json::parse(outcome.progress, nullptr, false);
    const bool ended_by_people = last.is_object() && last.value("ends_by", "") == "down";
    summary.outcomes.push_back(std::move(outcome));
    if (ended_by_people) break;
  }
  return summary;
}

Result<std::string> write_manifests(RunRequest request, const std::filesystem::path& file) {
  const auto cluster = cluster_of(request);
  if (!cluster) return cluster.error();
  const auto config = resolve(request);
  if (!config) return config.error();
  if (config->run.starts.front() != "scratch")
    return invalid("run.starts",
                   "begins with '" + config->run.starts.front() + "', which needs a run directory",
                   "begin with scratch");
  const auto manifest = make_manifest(*config, {}, {}, {"scratch", {}});
  if (!manifest) return manifest.error();
  const auto text = kubernetes_manifests(**cluster, *config, *manifest, request.config.stem().string());
  if (!text) return text.error();
  if (auto written = write_file(file, *text); !written) return written.error();
  if ((**cluster).kubernetes.key_secret.empty())
    std::fprintf(
        stderr,
        "warning: kubernetes.key_secret is missing: every pod of the cluster may join this run and end it\n");
  return file.string();
}

Result<int> run(const RunRequest& asked) {
  process::ignore_broken_pipes();  // Whoever looked on may go; the run stays.
  RunRequest request = asked;
  const auto cluster = cluster_of(request);
  if (!cluster) return cluster.error();
  if (request.resume && request.run_dir.empty())
    return invalid("--resume", "needs --run-dir", "name the run to go on with");
  if (*cluster)
    for (const Cluster::Node& node : (**cluster).nodes)
      if (node.start == "kubernetes")
        return invalid("node '" + node.name + "'", "is not started from here, kubectl does that",
                       "emplace up CLUSTER --manifests FILE, then kubectl apply -f FILE");
  const auto config = resolve(request);
  if (!config) return config.error();
  const SystemClock clock;
  const std::filesystem::path directory = choose_directory(request, *config, clock);
  const auto summary = perform(*config, directory, request.resume, request.quiet, *cluster, request.push);
  // A run that was refused has noted nothing, and what lies there is another's.
  if (config->record.trace && (summary || summary.error().code == Errc::kRunFailed))
    write_trace(*config, directory,
                request.trace.empty() ? directory / "trace.json.gz" : std::filesystem::path{request.trace},
                request.quiet, summary.ok());
  if (!summary) return summary.error();
  // The run has its results by now: a page that cannot be written is no reason to fail.
  const std::filesystem::path page = summary->directory / "report.html";
  const auto written = write_report(summary->directory, page, clock);
  if (!written)
    std::fprintf(stderr, "warning: %s: not written: %s\n", printable(page.string()).c_str(),
                 written.error().context.c_str());
  if (request.json) {
    std::printf("%s\n", summary_json(*summary).dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    print_summary(*summary);
    if (written) std::printf("explained: %s\n", printable(page.string()).c_str());
  }
  const bool any =
      std::any_of(summary->outcomes.begin(), summary->outcomes.end(), [](const Outcome& outcome) {
        return std::any_of(outcome.rows.begin(), outcome.rows.end(),
                           [](const record::TableRow& row) { return row.found; });
      });
  if (summary->status == 0 && !any) {
    return Error{Errc::kNoPlacement, "no placement that fits was found" + nearest_miss(*summary) +
                                         "; give the devices so much more memory, or the run more time"};
  }
  return summary->status;
}

}  // namespace emplace::launcher
