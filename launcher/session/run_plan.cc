#include "launcher/session/run_plan.h"

#include <fmt/core.h>

#include <utility>

#include "base/text/words.h"
#include "graph/memory_plan.h"
#include "launcher/cluster/roles.h"
#include "launcher/inputs/inputs.h"
#include "launcher/inputs/this_machine.h"
#include "launcher/replay/recorded_run.h"
#include "launcher/settings/executor_gpus.h"
#include "launcher/settings/placers.h"
#include "record/run_reader.h"
#include "record/store/run_folder.h"

namespace emplace::launcher {

namespace {

/// Number of executors on this machine.
std::uint32_t executors_here(const RunPlan& plan) {
  const auto here = plan.executors_at.find("");
  return here == plan.executors_at.end() ? 0 : static_cast<std::uint32_t>(here->second);
}

/// Takes graphs and machine from the record of a run: today's readers and costs may make others of the files
/// that they came from. The processes of the new run read copies in its directory. Runs of schema 3 recorded
/// none. Errors: kInvalid, kIo.
Result<Unit> take_inputs(RunPlan& plan) {
  const std::filesystem::path& run = plan.order.inputs_of;
  RunConfig& config = plan.order.config;
  std::vector<record::GraphRow> rows;
  if (!run.empty()) {
    EMPLACE_TRY_ASSIGN(const auto db, record::RunReader::open(run, record::Reading::kQuietOrInProgress));
    EMPLACE_TRY_ASSIGN(rows, db->header().graphs());
  }
  if (rows.empty()) {
    EMPLACE_TRY_ASSIGN(plan.task, load_task(config));
    return Unit{};
  }
  EMPLACE_TRY_ASSIGN(plan.task, kept_task(rows, printable_path(run), config));
  const auto keep = [&](const std::string& name, std::string content) {
    const std::filesystem::path directory =
        std::filesystem::absolute(plan.order.directory).lexically_normal();
    return plan.inputs.emplace_back(directory / "inputs" / name, std::move(content)).first.string();
  };
  std::vector<std::string> graphs;
  for (const record::GraphRow& row : rows)
    graphs.push_back(keep(fmt::format("graph-{}.epg", graphs.size()),
                          {reinterpret_cast<const char*>(row.content.data()), row.content.size()}));
  if (config.input.graphs.empty()) {
    config.input.graph = graphs.front();
  } else {
    config.input.graphs = std::move(graphs);
  }
  config.input.reading = {.float32 = config.input.reading.float32};  // A part of the record.
  if (machine_form(config.input.devices) == MachineForm::kFile)
    config.input.devices = keep("devices.toml", rows.front().devices_toml);
  return Unit{};
}

}  // namespace

Result<RunPlan> make_plan(RunOrder order) {
  RunPlan plan;
  plan.order = std::move(order);
  RunConfig& config = plan.order.config;
  EMPLACE_TRY(take_inputs(plan));
  EMPLACE_TRY(fill_words(config, *plan.task));
  if (config.executor.count == 0 && plan.order.cluster)
    return invalid("executor.count",
                   "= 'auto' counts the GPUs of this machine, but the run has a cluster file",
                   "give the number of executors");
  EMPLACE_TRY(count_by_gpus(config, *plan.task));
  EMPLACE_TRY_ASSIGN(plan.topology,
                     make_topology(plan.order.cluster.value_or(Cluster{}), config, plan.order.directory));
  if (plan.order.cluster) plan.topology.cluster = plan.order.directory / "cluster.toml";
  if (runs_here(config, *plan.task)) {
    const bool named = !config.input.devices.empty();
    EMPLACE_TRY_ASSIGN(const ThisMachine machine, this_machine());
    plan.notes = this_machine_notes(named ? "" : "no input.devices");
    // Resumed and other processes of the run read the machine as it is now.
    config.input.devices =
        std::filesystem::absolute(plan.order.directory / "devices.toml").lexically_normal().string();
    plan.inputs.emplace_back(config.input.devices, machine.device_file(config.input.cost_version()));
  }
  for (const actors::TaskGraph& one : plan.task->graphs)
    if (std::string note = timing_note(one.graph, one.devices, one.constraints); !note.empty())
      plan.notes.push_back(printable(one.graph.name(), 80) + ": " + note);
  for (const NodePlan& node : plan.topology.nodes)
    for (const std::string& actor : node.actors)
      if (is_executor(actor)) ++plan.executors_at[node.start == StartBy::kLocal ? "" : node.host];
  if (std::string note = shared_gpus_note(config, executors_here(plan)); !note.empty())
    plan.notes.push_back(std::move(note));
  return plan;
}

Result<Unit> check_plan(const RunPlan& plan) {
  const RunConfig& config = plan.order.config;
  for (const actors::TaskGraph& one : plan.task->graphs)
    if (auto can = check_plannable(one.graph); !can && allowed_of(config).memory())
      return invalid("executor.allow", printable(one.graph.name(), 80) + ": " + can.error().context);
  // Fail before the heuristics are computed. Other machines check their own executors.
  if (uses_processes(config) && plan.executors_at.contains("")) {
    EMPLACE_TRY(check_process_executor(config.executor.kind, judge_of(config), process_request_of(config)));
    for (const actors::TaskGraph& one : plan.task->graphs)
      EMPLACE_TRY(check_process_links(config.executor.kind, one.devices));
    EMPLACE_TRY(check_gpus(config, *plan.task, executors_here(plan)));
  }
  EMPLACE_TRY(record::check_folder(plan.order.directory));
  return check_free(plan.order);
}

Result<Unit> check_free(const RunOrder& order) {
  if (order.resume || !std::filesystem::exists(order.directory / "run.db")) return Unit{};
  return invalid(printable_path(order.directory), "already has a run",
                 "continue it with --resume, or choose another --run-dir");
}

std::vector<Start> starts_of(const RunOrder& order) {
  const RunConfig& config = order.config;
  std::vector<Start> starts;
  for (const std::string& name : config.run.starts) {
    Start& start = starts.emplace_back();
    start.name = name;
    start.directory = starts.size() == 1 ? order.directory : start_directory(order.directory, name);
    start.budget_s = config.run.budget.seconds / static_cast<double>(config.run.starts.size());
    start.resume = order.resume && std::filesystem::exists(start.directory / "run.db");
  }
  return starts;
}

}  // namespace emplace::launcher
