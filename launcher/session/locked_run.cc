#include "launcher/session/locked_run.h"

#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/file.h"
#include "launcher/session/leftovers.h"
#include "record/store/run_folder.h"

namespace emplace::launcher {
namespace {

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
  if (!plan.this_machine.empty()) EMPLACE_TRY(write_file(plan.order.config.input.devices, plan.this_machine));
  EMPLACE_TRY(write_file(plan.topology.config, to_toml(plan.order.config, false)));
  if (plan.order.cluster)
    EMPLACE_TRY(write_private_file(plan.topology.cluster, to_toml(*plan.order.cluster)));
  return run;
}

}  // namespace emplace::launcher
