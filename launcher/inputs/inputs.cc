#include "launcher/inputs/inputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "graph/formats/graph_file.h"
#include "graph/training/micro_batch.h"
#include "launcher/inputs/this_machine.h"
#include "placement/bounds/feasibility.h"
#include "placement/machine/arithmetic_notes.h"
#include "placement/machine/device_file.h"
#include "placement/machine/machine_text.h"
#include "placement/partitioning_machine.h"
#include "placement/rules.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// Errors (kIo): no such file; the error gives the nearest file name in the same folder.
Result<Unit> must_exist(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return Unit{};
  const fs::path wanted{path};
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path{"."};
  std::vector<std::string> names;
  for (fs::directory_iterator it{folder, error}, end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> views{names.begin(), names.end()};
  const std::string_view near = nearest_word(wanted.filename().string(), views);
  std::string text = printable(path) + ": no such file";
  if (!near.empty()) text += "; did you mean '" + printable((wanted.parent_path() / near).string()) + "'?";
  return Error{Errc::kIo, std::move(text)};
}

}  // namespace

Result<OpGraph> open_graph(const std::string& path, const GraphReading& reading) {
  EMPLACE_TRY(must_exist(path));
  EMPLACE_TRY_ASSIGN(const auto options, reading.options());
  return load_graph(graph_file_of(path), options);
}

Result<CostVersion> InputOptions::cost_version() const {
  auto version = parse_word<CostVersion>(costs);
  if (!version) return invalid("--cost-version", version.error().context);
  return version;
}

namespace {

Result<std::uint32_t> parse_micro_batches(const std::string& text) {
  if (text == "auto") return kAutoMicroBatches;
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count == 0 || count > kMostMicroBatches)
    return invalid("--micro-batches '" + printable(text, 40) + "'", "is no number of micro-batches",
                   "use 1 to " + std::to_string(kMostMicroBatches) + ", or auto");
  return count;
}

}  // namespace

Result<Judge> InputOptions::judge() const {
  EMPLACE_TRY_ASSIGN(auto judge, parse_judge(objective, dispatch));
  const auto order = parse_word<PipelineSchedule>(schedule);
  if (!order) return invalid("--schedule", order.error().context);
  EMPLACE_TRY_ASSIGN(judge.strategy.micro_batches, parse_micro_batches(micro_batches));
  judge.strategy.schedule = *order;
  if (replicas != 1 && !judge.strategy.pipelined())
    return invalid("--replicas " + std::to_string(replicas), "need micro-batches to share",
                   "use --micro-batches with a multiple of their number");
  return judge;
}

Result<DeviceSet> open_resolved_devices(const std::string& devices, const Reserve& reserve,
                                        CostVersion costs) {
  switch (machine_form(devices)) {
    case MachineForm::kFile:
      EMPLACE_TRY(must_exist(devices));
      return load_devices(devices, reserve);
    case MachineForm::kHere: {
      const Result<ThisMachine>& machine = this_machine();
      if (!machine) return machine.error();
      return machine->devices(reserve, costs);
    }
    case MachineForm::kText:
      break;
  }
  return parse_machine(devices, reserve, costs);
}

std::vector<std::string> this_machine_notes(std::string_view reason) {
  const Result<ThisMachine>& machine = this_machine();
  if (!machine) return {};
  std::vector<std::string> notes{std::string{reason} + (reason.empty() ? "" : ": ") + "this machine, " +
                                 machine->summary};
  notes.insert(notes.end(), machine->notes.begin(), machine->notes.end());
  return notes;
}

Result<DeviceSet> open_devices(const std::string& devices, const Reserve& reserve, CostVersion costs) {
  // A file keeps the path that the user wrote, for errors.
  const std::string resolved = resolved_devices(devices);
  if (machine_form(resolved) != MachineForm::kFile) return open_resolved_devices(resolved, reserve, costs);
  EMPLACE_TRY(must_exist(devices));
  return load_devices(devices, reserve);
}

Result<AppliedRules> open_rules(const std::string& path, const OpGraph& graph, const DeviceSet& devices) {
  if (path.empty()) return AppliedRules{};
  EMPLACE_TRY(must_exist(path));
  EMPLACE_TRY_ASSIGN(const auto rules, load_rules(path));
  return apply_rules(graph, devices, rules);
}

Result<Unit> must_fit(const Inputs& inputs, bool recomputes) {
  if (!fits_a_step(inputs.judge, inputs.graph)) return Unit{};  // The proof counts the tensors of a step.
  return must_fit(inputs.graph, inputs.devices, inputs.constraints, recomputes);
}

Result<Inputs> open_inputs(const InputOptions& options) {
  EMPLACE_TRY_ASSIGN(auto judge, options.judge());
  EMPLACE_TRY(check_strategy(judge));
  EMPLACE_TRY_ASSIGN(const auto costs, options.cost_version());
  Reserve reserve;
  if (!options.reserve.empty()) {
    const auto parsed = parse_reserve(options.reserve);
    if (!parsed) return invalid("--reserve", parsed.error().context);
    reserve = *parsed;
  }
  const auto complete = [&](const DeviceSet& known) -> Result<Unit> {
    if (judge.strategy.micro_batches == kAutoMicroBatches)
      judge.strategy.micro_batches = micro_batches_for(known);
    if (options.replicas != 1) {
      const auto replicas = std::min(options.replicas, std::uint64_t{kMostMicroBatches});
      EMPLACE_TRY_ASSIGN(judge.strategy.replicas,
                         consecutive_groups(known, static_cast<std::uint32_t>(replicas)));
    }
    return check_strategy(judge.strategy, known);
  };
  std::optional<DeviceSet> devices;
  std::string machine = options.devices;
  MachineForm form = machine_form(resolved_devices(options.devices));
  if (!options.devices.empty()) {  // Read the small file first, so that its errors appear at once.
    EMPLACE_TRY_ASSIGN(auto opened, open_devices(options.devices, reserve, costs));
    devices = std::move(opened);
    EMPLACE_TRY(complete(*devices));
  }
  EMPLACE_TRY_ASSIGN(auto graph, open_graph(options.graph, options.reading));
  bool workload = false;
  if (!devices) {
    auto brought = machine_of(graph, judge.objective, reserve, costs);
    if (!brought) return invalid(printable(options.graph), brought.error().context);
    if (brought->has_value()) {
      workload = is_workload(graph);
      devices = **std::move(brought);
      machine = "its own machine";
    } else {
      form = MachineForm::kHere;
      EMPLACE_TRY_ASSIGN(auto opened, open_resolved_devices("here", reserve, costs));
      devices = std::move(opened);
    }
    EMPLACE_TRY(complete(*devices));
  }
  if (judge.strategy.pipelined())
    if (auto checked = check_micro_batches(graph); !checked)
      return invalid(printable(options.graph), checked.error().context);
  std::vector<std::string> notes;
  if (form == MachineForm::kFile) machine = file_name(machine);
  if (form == MachineForm::kHere) {
    machine = "this machine";
    notes = this_machine_notes(options.devices.empty() ? "no --devices" : "");
  }
  EMPLACE_TRY_ASSIGN(auto rules, open_rules(options.rules, graph, *devices));
  auto constraints = Constraints::make(graph, *devices, rules);
  if (!constraints) return invalid(printable(options.graph), constraints.error().context);
  if (std::string note = timing_note(graph, *devices, *constraints); !note.empty())
    notes.push_back(std::move(note));
  for (std::string& note : arithmetic_notes(graph, *devices)) notes.push_back(std::move(note));
  return Inputs{std::move(graph), *std::move(devices), std::move(rules), *std::move(constraints), judge,
                workload,         std::move(machine),  std::move(notes)};
}

std::string file_name(const std::string& path) { return fs::path{path}.filename().string(); }

}  // namespace emplace::launcher
