#include "launcher/session/run_list.h"

#include <algorithm>
#include <array>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/text/words.h"
#include "launcher/inputs/machine_form.h"
#include "launcher/session/recorded_starts.h"
#include "record/store/launch_lock.h"

namespace emplace::launcher {
namespace {

/// A start ends some time after its last record: nothing was left to record, or it did not fit any more.
constexpr double kUsedShare = 0.9;

double seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  return from_ns == 0 || to_ns == 0 ? 0 : std::max(0.0, static_cast<double>(to_ns - from_ns) * 1e-9);
}

bool is_run(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(directory / "run.db", ignored);
}

/// Returns the folders in a folder, sorted. Errors: kIo.
Result<std::vector<std::filesystem::path>> folders_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> folders;
  std::error_code failure;
  for (std::filesystem::directory_iterator at{folder, failure}, end; !failure && at != end;
       at.increment(failure)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) folders.push_back(at->path());
  }
  if (failure) return Error{Errc::kIo, printable_path(folder) + ": cannot be read: " + failure.message()};
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string machine_of(const RunConfig& config) {
  const std::string& devices = config.input.devices;
  if (machine_form(devices) != MachineForm::kFile) return devices;
  return std::filesystem::path{devices}.stem().string();
}

/// Whether a start has done all that its config permits.
Result<bool> used_up(const RecordedStart& start, const RunConfig& config, std::int64_t last_ns) {
  const RunSection& run = config.run;
  const double budget_s =
      run.budget.seconds / static_cast<double>(std::max<std::size_t>(1, run.starts.size()));
  if (budget_s > 0 && seconds_between(start.facts.started_wall_ns, last_ns) >= kUsedShare * budget_s)
    return true;
  if (run.episodes == 0 && run.evaluations == 0) return budget_s == 0;  // Only a person ends such a run.
  EMPLACE_TRY_ASSIGN(const record::Counters counters, start.db->results().counters());
  return (run.episodes > 0 && counters.episodes >= run.episodes) ||
         (run.evaluations > 0 && counters.measurements >= run.evaluations);
}

/// Adds what one start has found for a graph. `started_ns`: start of the run.
Result<Unit> add_best(ListedGraph& graph, const RecordedStart& start, std::int64_t started_ns,
                      bool only_graph, bool& simulated) {
  // A run of one graph needs no look at the hash of each episode.
  EMPLACE_TRY_ASSIGN(const auto best, start.db->results().best_time(only_graph ? "" : graph.sha256));
  if (!best) return Unit{};
  simulated &= best->label == MeasurementLabel::kSimulated;
  if (graph.best_s > 0 && best->step_time_s >= graph.best_s) return Unit{};
  graph.best_s = best->step_time_s;
  graph.best_after_s = seconds_between(started_ns, best->wall_ns);
  return Unit{};
}

Result<ListedRun> read_run(const std::filesystem::path& directory) {
  EMPLACE_TRY_ASSIGN(const RecordedStarts run, open_starts(directory));
  const record::RunFacts& facts = run.starts.front().facts;
  ListedRun listed;
  listed.method = run.config.policy.method;
  listed.machine = machine_of(run.config);
  listed.host = facts.host;
  listed.started = Nanos{facts.started_wall_ns};
  listed.config_toml = facts.config_toml;
  EMPLACE_TRY_ASSIGN(const auto graphs, run.starts.front().db->header().graph_facts());
  for (const record::GraphFacts& graph : graphs)
    listed.graphs.push_back(
        {graph.name, graph.sha256, 0, 0, graph.heuristic, graph.heuristic_s, graph.lower_bound_s});
  if (graphs.empty()) listed.graphs.push_back({facts.graph, facts.graph_sha256});  // Schema 3.
  bool in_progress = record::LaunchLock::is_held(directory);
  bool used = run.starts.size() >= run.config.run.starts.size();
  bool simulated = true;
  for (const RecordedStart& start : run.starts) {
    in_progress |= start.in_progress;
    EMPLACE_TRY_ASSIGN(const std::uint64_t measured, start.db->results().measured());
    listed.measurements += measured;
    EMPLACE_TRY_ASSIGN(const std::int64_t last_ns, start.db->results().last_wall_ns());
    listed.wall_s = std::max(listed.wall_s, seconds_between(facts.started_wall_ns, last_ns));
    EMPLACE_TRY_ASSIGN(const bool all, used_up(start, run.config, last_ns));
    used &= all;
    EMPLACE_TRY_ASSIGN(auto learning, learning_of(*start.db, run.config));
    if (learning.updates > 0) listed.policies.push_back({start.start.name, std::move(learning)});
    for (ListedGraph& graph : listed.graphs)
      EMPLACE_TRY(add_best(graph, start, facts.started_wall_ns, listed.graphs.size() == 1, simulated));
  }
  // A launcher that was killed leaves its lock file.
  std::error_code ignored;
  const bool killed = std::filesystem::exists(directory / "lock", ignored);
  listed.state = in_progress       ? ListedState::kInProgress
                 : used && !killed ? ListedState::kEnded
                                   : ListedState::kInterrupted;
  for (ListedGraph& graph : listed.graphs)
    if (!simulated) graph.heuristic.clear(), graph.heuristic_s = graph.bound_s = 0;
  return listed;
}

ListedRun listed_run(const std::filesystem::path& directory, std::string name) {
  ListedRun run;
  if (auto read = read_run(directory))
    run = *std::move(read);
  else
    run.why = read.error().context;
  run.directory = directory;
  run.name = std::move(name);
  return run;
}

/// Adds the runs of a folder and of its folders. Errors: kIo if the folder itself cannot be read.
Result<Unit> add_folder(std::vector<ListedRun>& runs, const std::filesystem::path& folder,
                        const std::string& within, bool deeper) {
  EMPLACE_TRY_ASSIGN(const auto folders, folders_in(folder));
  for (const std::filesystem::path& one : folders) {
    const std::string name = within + one.filename().string();
    if (is_run(one)) {
      runs.push_back(listed_run(one, name));
    } else if (deeper) {
      (void)add_folder(runs, one, name + "/",
                       false);  // Folders that are not runs may be closed to this user.
    }
  }
  return Unit{};
}

/// The number that a key sorts by; 0: unknown.
double number_of(const ListedRun& run, std::string_view key) {
  const ListedGraph none;
  const ListedGraph& graph = run.graphs.empty() ? none : run.graphs.front();
  if (key == "measurements") return static_cast<double>(run.measurements);
  if (key == "after") return graph.best_after_s;
  if (key == "heuristic") return graph.heuristic_s > 0 ? graph.best_s / graph.heuristic_s : 0;
  if (key == "bound") return graph.bound_s > 0 ? graph.best_s / graph.bound_s : 0;
  return graph.best_s;
}

std::string text_of(const ListedRun& run, std::string_view key) {
  if (key == "method") return run.method;
  if (key == "graph") return run.graphs.empty() ? "" : run.graphs.front().name;
  if (key == "state") return std::string{word_of(run.state)};
  return run.name;
}

constexpr std::array<std::string_view, 10> kSorts{"time",         "name", "method",    "graph", "state",
                                                  "measurements", "best", "heuristic", "bound", "after"};
constexpr std::array<std::string_view, 4> kTexts{"name", "method", "graph", "state"};

}  // namespace

Result<std::vector<ListedRun>> list_runs(std::span<const std::string> paths) {
  std::vector<ListedRun> runs;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (is_run(path)) {
      runs.push_back(listed_run(path, path));
    } else if (std::filesystem::is_directory(path, ignored)) {
      // With several folders a name alone is not unique.
      EMPLACE_TRY(
          add_folder(runs, path, paths.size() > 1 ? (std::filesystem::path{path} / "").string() : "", true));
    } else {
      return Error{Errc::kIo,
                   printable(path) + ": is no folder; give the directory of a run, or a folder of runs"};
    }
  }
  return runs;
}

Result<Unit> sort_runs(std::vector<ListedRun>& runs, std::string_view key) {
  if (const auto known = find_word("key", key, kSorts); !known)
    return invalid("--sort", known.error().context);
  const bool text = std::find(kTexts.begin(), kTexts.end(), key) != kTexts.end();
  std::stable_sort(runs.begin(), runs.end(), [&](const ListedRun& a, const ListedRun& b) {
    const bool a_last = a.state == ListedState::kUnreadable, b_last = b.state == ListedState::kUnreadable;
    if (a_last != b_last) return b_last;
    if (key == "time") return a.started > b.started;
    if (text) return text_of(a, key) < text_of(b, key);
    const double x = number_of(a, key), y = number_of(b, key);
    // The most measurements first, but the smallest times; unknown ones last.
    if (key == "measurements") return x > y;
    return std::tuple{!(x > 0), x} < std::tuple{!(y > 0), y};
  });
  return Unit{};
}

std::string entropy_text(std::span<const ListedPolicy> policies) {
  std::string text;
  for (const ListedPolicy& policy : policies)
    text += (text.empty() ? "" : " | ") + record::entropy_text(policy.learning.entropy);
  return text;
}

Result<record::RunRow> page_row(const ListedRun& run) {
  record::RunRow row;
  row.name = run.name;
  row.directory = run.directory.string();
  row.state =
      run.state == ListedState::kUnreadable ? "cannot be read: " + run.why : std::string{word_of(run.state)};
  if (run.state == ListedState::kUnreadable) return row;
  const ListedGraph& graph = run.graphs.front();
  row.method = run.method;
  row.graph = graph.name;
  row.machine = run.machine;
  row.best_s = graph.best_s;
  row.bound_s = graph.bound_s;
  row.heuristic_s = graph.heuristic_s;
  row.measurements = run.measurements;
  row.wall_s = run.wall_s;
  row.entropy = entropy_text(run.policies);
  for (const ListedPolicy& policy : run.policies)
    if (row.warning.empty()) row.warning = policy.learning.warning;
  EMPLACE_TRY_ASSIGN(const RecordedStarts opened, open_starts(run.directory));
  for (const RecordedStart& start : opened.starts) {
    EMPLACE_TRY_ASSIGN(const auto samples, start.db->results().samples(graph.sha256));
    const double shift_s =
        seconds_between(opened.starts.front().facts.started_wall_ns, start.facts.started_wall_ns);
    for (const record::CurveSample& sample : samples) {
      if (!sample.valid || sample.wall_s == 0) continue;
      if (row.curve.empty() || sample.step_time_s < row.curve.back().best_s)
        row.curve.push_back({shift_s + sample.wall_s, sample.step_time_s});
    }
  }
  // It stays the best until the end.
  if (!row.curve.empty() && row.wall_s > row.curve.back().seconds)
    row.curve.push_back({row.wall_s, row.curve.back().best_s});
  return row;
}

std::vector<std::string> differing_keys_of(std::span<const ListedRun> runs) {
  std::set<std::string> keys;
  std::vector<RunConfig> configs;
  for (const ListedRun& run : runs)
    if (auto config = recorded_config(run.config_toml, run.name); config && !run.config_toml.empty())
      configs.push_back(*std::move(config));
  for (std::size_t i = 1; i < configs.size(); ++i)
    for (std::string& key : differing_keys(configs.front(), configs[i])) keys.insert(std::move(key));
  keys.erase("run.dir");
  return {keys.begin(), keys.end()};
}

}  // namespace emplace::launcher
