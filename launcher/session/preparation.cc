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

Result<Unit> prepare_hosts(RunPlan& plan, Progress& progress) {
  for (const auto& [host, executors] : plan.executors_at)
    if (plan.order.config.executor.kind == "cpu" && executors > 1)
      progress.note(fmt::format(
          "warning: {} executors of kind cpu on {} time each other's work if they share cores; one is right",
          executors, host.empty() ? "this machine" : printable(host)));
  std::vector<NodePlan*> far;
  for (std::vector<NodePlan>& member : plan.topology.members)
    if (plan.order.push && member.front().start == "ssh") far.push_back(&member.front());
  if (!far.empty()) {
    progress.note(fmt::format("bringing emplace to the hosts of {} nodes", far.size()));
    EMPLACE_TRY(push_program(program_path(), far));
  }
  return Unit{};
}

Result<std::vector<Baselines>> prepare_baselines(const RunPlan& plan, const BegunRun& begun,
                                                 Progress& progress, const Clock& clock) {
  const bool begins_there = std::any_of(begun.starts.begin(), begun.starts.end(),
                                        [](const Start& s) { return s.name == kBestBaseline; });
  std::vector<Baselines> all;
  for (const actors::TaskGraph& one : plan.task->graphs) {
    EMPLACE_TRY_ASSIGN(Baselines baselines, find_baselines(one, plan.order.config, clock));
    progress.note(fmt::format(
        "{}: {} ops on {} devices; best baseline {}", printable(one.graph.name()), one.graph.num_ops(),
        one.devices.size(),
        baselines.best.empty() ? "none fits"
                               : baselines.best_method + " " + format_seconds(baselines.best_step_time_s)));
    if (baselines.best.empty() && begins_there) {
      if (begun.fresh) remove_unbegun(plan.order.directory);
      return Error{Errc::kNoPlacement, "run.starts: no baseline of " + printable(one.graph.name()) +
                                           " fits this machine, so none can be started from"};
    }
    all.push_back(std::move(baselines));
  }
  return all;
}

void announce(const RunPlan& plan, Progress& progress) {
  const auto size =
      predict_size(plan.order.config, *plan.task);  // What it refuses, the head refuses by name.
  progress.note("run directory " + printable_path(plan.order.directory) +
                (size ? ", run.db " + size->text() : std::string{}));
  if (plan.topology.endpoint.empty())
    progress.note("nobody can look in by ps: the directory's path is too long for a socket");
}

}  // namespace emplace::launcher
