#include "launcher/session/preparation.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/cluster/operator.h"
#include "launcher/cluster/remote_host.h"
#include "launcher/session/leftovers.h"
#include "launcher/settings/placers.h"

namespace emplace::launcher {
namespace {

constexpr double kMaxAuto_s = 60;

/// Time of auto on one graph: that of one start, which its result is compared with. 0, auto is left out: it
/// is not listed, starts end by episodes, the run continues and its record has the row, or the machines of a
/// cluster would wait for it.
double auto_time_s(const RunPlan& plan, const LockedRun& run) {
  const RunConfig& config = plan.order.config;
  const auto& methods = config.compare.methods;
  const bool listed = std::find(methods.begin(), methods.end(), "auto") != methods.end();
  const bool timed = config.run.episodes == 0 && config.run.evaluations == 0;
  if (!listed || !timed || !run.fresh || plan.order.cluster) return 0;
  const auto parts = static_cast<double>(run.starts.size() * plan.task->graphs.size());
  return std::min(kMaxAuto_s, config.run.budget.seconds / parts);
}

}  // namespace

Result<Unit> prepare_hosts(RunPlan& plan, Progress& progress) {
  for (const auto& [host, executors] : plan.executors_at)
    if (plan.order.config.executor.kind == "cpu" && executors > 1)
      progress.note(fmt::format(
          "warning: {} cpu executors on {} disturb each other's timing if they share cores; use one",
          executors, host.empty() ? "this machine" : printable(host)));
  std::vector<NodePlan*> far;
  for (std::vector<NodePlan>& member : plan.topology.members)
    if (plan.order.push && member.front().start == "ssh") far.push_back(&member.front());
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
  const double auto_s = auto_time_s(plan, run);
  std::vector<Heuristics> all;
  for (const actors::TaskGraph& one : plan.task->graphs) {
    if (auto_s > 0)
      progress.note(fmt::format("{}: heuristics, and auto for {}", printable(one.graph.name()),
                                format_seconds(auto_s)));
    EMPLACE_TRY_ASSIGN(Heuristics heuristics,
                       run_heuristics(one, config, auto_s, clock, [&] { return stop.received() != 0; }));
    if (stop.received() != 0) return all;
    progress.note(fmt::format("{}: {} ops on {} devices; best heuristic {}", printable(one.graph.name()),
                              one.graph.num_ops(), one.devices.size(),
                              heuristics.best ? heuristics.rows[*heuristics.best].method + " " +
                                                    format_seconds(heuristics.best_step_time_s())
                                              : "none fits"));
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
  const auto size = predict_size(plan.order.config, *plan.task);  // The head reports its errors.
  progress.note("run directory " + printable_path(plan.order.directory) +
                (size ? ", run.db " + size->text() : std::string{}));
  if (plan.topology.endpoint.empty())
    progress.note("emplace ps is unavailable: the path of the run directory is too long for a socket");
}

}  // namespace emplace::launcher
