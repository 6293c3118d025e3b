#include "launcher/session/preparation.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "launcher/cluster/operator/operator.h"
#include "launcher/inputs/inputs.h"
#include "launcher/session/leftovers.h"
#include "launcher/settings/placers.h"
#include "record/run_reader.h"
#include "record/store/packed.h"
#include "record/store/run_folder.h"

namespace emplace::launcher {
namespace {

constexpr double kMaxAuto_s = 60;

/// Time of auto on one graph: that of one start, which its result is compared with. 0, auto is left out: it
/// is not listed, starts end by episodes, or the machines of a cluster would wait for it.
double auto_time_s(const RunPlan& plan, const LockedRun& run) {
  const RunConfig& config = plan.order.config;
  const auto& methods = config.compare.methods;
  const bool listed = std::find(methods.begin(), methods.end(), "auto") != methods.end();
  const bool timed = config.run.episodes == 0 && config.run.evaluations == 0;
  if (!listed || !timed || plan.order.cluster) return 0;
  const auto parts = static_cast<double>(run.starts.size() * plan.task->graphs.size());
  return std::min(kMaxAuto_s, config.run.budget.seconds / parts);
}

/// Returns the heuristics that a run recorded when it started; empty for a new run and for records of
/// schema 3.
Result<std::vector<record::HeuristicRow>> recorded_rows(const LockedRun& run) {
  if (run.starts.empty() || !run.starts.front().resume) return std::vector<record::HeuristicRow>{};
  EMPLACE_TRY_ASSIGN(const auto db,
                     record::RunReader::open(run.starts.front().directory, record::Reading::kQuiet));
  return db->header().heuristics();
}

/// Returns the predicted size of a run on disk, from one episode of its untrained policy: "about 2.1 kB per
/// episode of 4 placements, 210 MB for 100000". Placements compress by runs of equal devices, which are
/// longer for a trained policy.
Result<std::string> predicted_size(const RunConfig& config, const actors::Task& task) {
  EMPLACE_TRY_ASSIGN(const auto placer, make_placer(config, task, {}));
  const policy::Actions actions = placer->sample(0, 0);
  EMPLACE_TRY_ASSIGN(const auto drawn, placer->expand(actions));
  Bytes placements;
  for (const Placement& placement : drawn) {
    const auto bytes = std::as_bytes(std::span{placement});
    placements.insert(placements.end(), bytes.begin(), bytes.end());
  }
  const std::int64_t each =
      record::episode_bytes(placements, drawn.size(), actions.bytes, task.graphs.front().devices.size());
  const RunSection& run = config.run;
  std::uint64_t episodes = run.episodes;
  if (run.evaluations > 0) {
    const std::uint64_t measured = (run.evaluations + drawn.size() - 1) / drawn.size();
    episodes = episodes == 0 ? measured : std::min(episodes, measured);
  }
  if (episodes == 0) episodes = 100'000;
  return fmt::format("about {} per episode of {} placement{}, {} for {}", format_bytes(each), drawn.size(),
                     drawn.size() == 1 ? "" : "s", format_bytes(each * static_cast<std::int64_t>(episodes)),
                     episodes);
}

bool holds_only_the_lock(const std::filesystem::path& directory) {
  std::error_code failure;
  const std::filesystem::directory_iterator entries{directory, failure};
  return !failure && std::distance(begin(entries), end(entries)) == 1;
}

/// Checks that every start can start or resume.
Result<Unit> check_starts(const RunPlan& plan, const std::vector<Start>& starts) {
  EMPLACE_TRY(check_free(plan.order));
  for (const Start& start : starts) EMPLACE_TRY(check_start(plan.order.config, *plan.task, start));
  return Unit{};
}

}  // namespace

Result<LockedRun> lock_run(const RunPlan& plan) {
  const std::filesystem::path& directory = plan.order.directory;
  EMPLACE_TRY(record::make_private_folder(directory));
  LockedRun run;
  // The lock ensures that no other process writes to the directory, so checks stay valid and the processes of
  // the run read the config that is recorded.
  EMPLACE_TRY_ASSIGN(run.lock, record::LaunchLock::take(directory));
  run.fresh = holds_only_the_lock(directory);
  run.starts = starts_of(plan.order);
  if (auto checked = check_starts(plan, run.starts); !checked) {
    if (run.fresh) remove_failed_start(directory);
    return checked.error();
  }
  for (const auto& [file, content] : plan.inputs) {
    std::error_code ignored;  // write_file() fails then.
    std::filesystem::create_directories(file.parent_path(), ignored);
    EMPLACE_TRY(write_file(file, content));
  }
  EMPLACE_TRY(write_file(plan.topology.config, to_toml(plan.order.config, false)));
  if (plan.order.cluster)
    EMPLACE_TRY(write_private_file(plan.topology.cluster, to_toml(*plan.order.cluster)));
  return run;
}

Result<Unit> prepare_hosts(RunPlan& plan, Progress& progress) {
  const std::string& kind = plan.order.config.executor.kind;
  for (const auto& [host, executors] : plan.executors_at)
    if ((kind == "cpu" || kind == "torch") && executors > 1)
      progress.note(fmt::format(
          "warning: {} {} executors on {} disturb each other's timing if they share cores; use one",
          executors, kind, host.empty() ? "this machine" : printable(host)));
  for (const std::vector<NodePlan>& member : plan.topology.members)
    if (member.front().start == StartBy::kRay) EMPLACE_TRY(check_ray(member.front()));
  std::vector<NodePlan*> far;
  for (std::vector<NodePlan>& member : plan.topology.members)
    if (plan.order.push && member.front().start == StartBy::kSsh) far.push_back(&member.front());
  if (!far.empty()) {
    progress.note(fmt::format("copying emplace to the hosts of {} nodes", far.size()));
    EMPLACE_TRY(push_program(program_path(), far));
  }
  return Unit{};
}

Result<std::vector<Heuristics>> prepare_heuristics(const RunPlan& plan, const LockedRun& run,
                                                   const StopSignal& stop, Progress& progress,
                                                   const Clock& clock) {
  const bool from_heuristics = std::any_of(run.starts.begin(), run.starts.end(),
                                           [](const Start& s) { return s.name == kBestHeuristic; });
  const RunConfig& config = plan.order.config;
  EMPLACE_TRY_ASSIGN(const auto recorded, recorded_rows(run));
  const double auto_s = recorded.empty() ? auto_time_s(plan, run) : 0;
  const auto& listed = config.compare.methods;
  if (plan.order.cluster && run.fresh && std::find(listed.begin(), listed.end(), "auto") != listed.end())
    progress.note("auto is left out of the table: the machines of the cluster would wait for it");
  std::vector<Heuristics> all;
  for (const actors::TaskGraph& one : plan.task->graphs) {
    if (auto_s > 0)
      progress.note(fmt::format("{}: heuristics, and auto for {}", printable(one.graph.name()),
                                format_seconds(auto_s)));
    const auto find = [&]() -> Result<Heuristics> {
      if (recorded.empty())
        return run_heuristics(one, config, auto_s, clock, [&] { return stop.received() != 0; });
      EMPLACE_TRY_ASSIGN(Heuristics known, recorded_heuristics(recorded, one, *model_of(config, one)));
      known.bound = bound_of(config, one);
      return known;
    };
    EMPLACE_TRY_ASSIGN(Heuristics heuristics, find());
    if (stop.received() != 0) return all;
    std::string about = fmt::format("{}: {} ops on {} devices", printable(one.graph.name()),
                                    one.graph.num_ops(), one.devices.size());
    if (heuristics.best)
      about += "; best heuristic " + heuristics.rows[*heuristics.best].method + " " +
               format_seconds(heuristics.best_step_time_s());
    else if (!heuristics.rows.empty())
      about += "; no heuristic fits";
    progress.note(about);
    if (!heuristics.start && from_heuristics) {
      if (run.fresh) remove_failed_start(plan.order.directory);
      return Error{Errc::kNoPlacement, "run.starts: best-heuristic is impossible, no heuristic of " +
                                           printable(one.graph.name()) + " fits this machine; use scratch"};
    }
    all.push_back(std::move(heuristics));
  }
  return all;
}

void announce(const RunPlan& plan, Progress& progress) {
  const auto size = predicted_size(plan.order.config, *plan.task);  // The head reports its errors.
  progress.note("run directory " + printable_path(plan.order.directory) +
                (size ? ", run.db " + *size : std::string{}));
  if (plan.topology.endpoint.empty())
    progress.note("emplace ps is unavailable: the path of the run directory is too long for a socket");
}

}  // namespace emplace::launcher
