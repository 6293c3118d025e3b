#include "launcher/commands/commands.h"

#include <iterator>
#include <utility>

#include "launcher/commands/extensions.h"
#include "launcher/worker/executors.h"

namespace emplace::launcher {
namespace {

/// Starts an executor in a process beside the program.
Result<std::unique_ptr<RealExecutor>> start_executor(const std::string& kind, const OpGraph& graph,
                                                     const DeviceSet& devices, const Judge& judge,
                                                     const ProcessRequest& request) {
  EMPLACE_TRY(check_process_executor(kind, judge, request));
  EMPLACE_TRY(check_process_links(kind, devices));
  ProcessRequest leased = request;
  EMPLACE_TRY(lease_gpus(kind, devices, leased));
  return make_process_executor(kind, graph, devices, leased);
}

}  // namespace

Commands all_commands(const Laboratory& laboratory) {
  Commands commands;
  for (auto make : {make_run, make_up, make_join, make_ps, make_top, make_down}) commands.push_back(make());
  Commands placing =
      placing_commands({learned_methods, check_process_executor, start_executor, export_recorded_run});
  std::move(placing.begin(), placing.end(), std::back_inserter(commands));
  commands.push_back(make_generate(laboratory));
  if (laboratory.make_train != nullptr) commands.push_back(laboratory.make_train());
  for (auto make : {make_replay, make_report, make_runs, make_calibrate, make_keygen, make_doctor,
                    make_version, make_node}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace emplace::launcher
