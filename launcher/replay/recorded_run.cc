#include "launcher/replay/recorded_run.h"
#include "launcher/inputs/inputs.h"

#include <fmt/core.h>

#include <span>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "launcher/settings/host_facts.h"
#include "launcher/settings/placers.h"
#include "placement/machine/machine_text.h"
#include "placement/partitioning_machine.h"
#include "placement/placement_file.h"
#include "policy/training/trainer.h"

namespace emplace::launcher {
namespace {

/// Returns the task of a run without recorded graphs, from its input files.
Result<actors::TaskPtr> task_from_files(const RecordedRun& run, const std::string& where) {
  auto task = load_task(run.config);
  if (!task)
    return invalid(where, "has no recorded graph, and the graph file cannot be read: " + task.error().context,
                   "restore the file");
  if (const std::string& found = (*task)->graphs.front().sha256; found != run.facts.graph_sha256)
    return invalid(where, "was recorded with another graph than the one that its config names now",
                   "restore the file with sha256 " + run.facts.graph_sha256.substr(0, 16) + "…");
  const std::string& devices = (*task)->graphs.front().devices.sha256();
  if (devices != run.facts.devices_json)
    return invalid(where, "was recorded with other devices than those that its config names now",
                   "restore the device file of the run");
  return task;
}

/// Returns the recorded devices, or those that the graph contains.
Result<DeviceSet> kept_devices(const record::GraphRow& row, const OpGraph& graph, const std::string& where,
                               const RunConfig& config) {
  const CostVersion costs = config.input.cost_version();
  if (word_of(costs).empty())
    return invalid(where, fmt::format("have cost version {}, which this program lacks", config.input.costs),
                   "use a newer emplace");
  const Reserve reserve = Reserve::from_recorded(row.reserve);
  if (!row.devices_toml.empty()) return parse_recorded_devices(row.devices_toml, where, reserve, costs);
  EMPLACE_TRY_ASSIGN(auto own, machine_of(graph, judge_of(config).objective, reserve, costs));
  if (!own) return invalid(where, "are not in the record", "use an intact copy of the run");
  return *std::move(own);
}

}  // namespace

Result<actors::TaskPtr> kept_task(const std::vector<record::GraphRow>& rows, const std::string& where,
                                  const RunConfig& config) {
  auto task = std::make_shared<actors::Task>();
  task->host = host_name();
  for (const record::GraphRow& row : rows) {
    const std::string here = where + ": graph " + printable(row.name);
    EMPLACE_TRY_ASSIGN(auto graph, parse_graph(row.content, here));
    EMPLACE_TRY_ASSIGN(auto devices, kept_devices(row, graph, where + ": devices", config));
    EMPLACE_TRY_ASSIGN(const auto rules, open_rules(config.input.rules, graph, devices));
    EMPLACE_TRY_ASSIGN(auto constraints, Constraints::make(graph, devices, rules, config.input.by_bytes));
    std::string sha256 = graph_sha256(graph);
    if (sha256 != row.sha256)
      return invalid(here, "is not the graph of the run", "use an intact copy of the run");
    task->graphs.push_back({std::move(graph), std::move(devices), std::move(constraints), std::move(sha256)});
  }
  return actors::TaskPtr{std::move(task)};
}

Result<RecordedRun> open_recorded_run(const std::filesystem::path& directory) {
  RecordedRun run;
  run.directory = directory;
  EMPLACE_TRY_ASSIGN(run.db, record::RunReader::open(directory, record::Reading::kQuiet));
  EMPLACE_TRY(run.db->verify());
  EMPLACE_TRY_ASSIGN(run.facts, run.db->header().facts());
  const std::string where = printable_path(directory);
  EMPLACE_TRY_ASSIGN(run.config, recorded_config(run.facts.config_toml, where + ": config"));
  EMPLACE_TRY_ASSIGN(const auto rows, run.db->header().graphs());
  EMPLACE_TRY_ASSIGN(run.task,
                     rows.empty() ? task_from_files(run, where) : kept_task(rows, where, run.config));
  if (started_from_heuristics(run.facts)) {
    EMPLACE_TRY_ASSIGN(run.starting, load_starting_placements(directory, *run.task));
  }
  return run;
}

Result<std::unique_ptr<policy::Placer>> policy_of(const RecordedRun& run) {
  auto placer = make_placer(run.config, *run.task, run.starting);
  if (!placer) return placer;
  const Placement wanted = imitation_target(run.config, run.starting);
  if (!wanted.empty() && run.config.run.policy.empty()) {
    EMPLACE_TRY(policy::imitate(**placer, {wanted, run.config.policy.start_probability}));
  }
  return placer;
}

Result<std::vector<policy::ScoredEpisode>> batch_of(const RecordedRun& run, const record::UpdateRow& update) {
  const std::string where = printable_path(run.directory);
  // The last placement of a self-critic episode is its baseline, the first of some episodes of steps their
  // start: they were not sampled.
  policy::BaselineOptions baseline = run.config.reward.baseline;
  baseline.start_measured = measures_start(run.config);
  const std::size_t undrawn = policy::Baseline::has_one_less(baseline) ? 1 : 0;
  std::vector<policy::ScoredEpisode> batch;
  std::span<const float> advantages = update.advantages;
  for (const std::uint64_t episode : update.episodes) {
    EMPLACE_TRY_ASSIGN(auto logged, run.db->log().row_of(episode, true));
    if (!logged)
      return invalid(where, fmt::format("update {} consumed episode {}, which the log does not have",
                                        update.update, episode));
    const std::size_t count = logged->episode.count;
    if (count < undrawn || count - undrawn > advantages.size())
      return invalid(where, fmt::format("update {} has fewer advantages than placements", update.update));
    const auto own = advantages.first(count - undrawn);
    advantages = advantages.subspan(own.size());
    batch.push_back({{std::move(logged->episode.actions)}, {own.begin(), own.end()}});
  }
  return batch;
}

}  // namespace emplace::launcher
