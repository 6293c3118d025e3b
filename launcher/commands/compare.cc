#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/simulator.h"
#include "heuristics/anneal.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/results.h"
#include "launcher/inputs.h"
#include "placement/bound.h"
#include "record/table.h"

namespace emplace::launcher {
namespace {

class Compare final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "The table of methods: step time, memory, traffic, gap to the lower bound";
  }
  void declare(Options& options) override {
    options.operand("GRAPH", graph_, "Graph file").required("--devices,-d", devices_, "Device file");
    options.option("--methods,-m", methods_, "Methods, separated by commas (default: all of them)");
    options.option("--evaluations", evaluations_, "Placements that anneal measures; 0: what it thinks fit");
    options.option("--reserve", reserve_, "Memory kept free per device, as 10%");
    options.option("--dispatch", dispatch_, "Which ready op a device runs first: program or fifo");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  JsonObject as_json(const Inputs& inputs, double bound_s, const std::vector<record::TableRow>& rows) const;
  static std::string verdict(const std::vector<record::TableRow>& rows);

  std::string graph_, devices_, reserve_, dispatch_ = "program";
  std::vector<std::string> methods_;
  std::uint64_t evaluations_ = 0;
};

Result<std::vector<const Method*>> methods_of(const std::vector<std::string>& names) {
  const auto all = all_methods();
  std::vector<const Method*> methods;
  if (names.empty()) methods.assign(all.begin(), all.end());
  for (const std::string& name : names) {
    const auto method = find_method(name);
    if (!method) return method.error();
    methods.push_back(*method);
  }
  return methods;
}

const record::TableRow* fastest(const std::vector<record::TableRow>& rows) {
  const record::TableRow* best = nullptr;
  for (const record::TableRow& row : rows) {
    if (!row.found || !row.measurement.valid) continue;
    if (best == nullptr || row.measurement.step_time_s < best->measurement.step_time_s) best = &row;
  }
  return best;
}

/// One method's row. Errors: those that are not the method's own.
Result<record::TableRow> run_method(const Method& method, const Problem& problem, Executor& executor,
                                    const Clock& clock) {
  record::TableRow row{.method = std::string{method.name()}};
  const Nanos start = clock.now();
  auto found = method.find(problem, executor);
  row.wall_s = std::chrono::duration<double>(clock.now() - start).count();
  if (!found) {
    if (found.error().code != Errc::kNoPlacement) return found.error();
    row.note = found.error().context;
    return row;
  }
  row.found = true;
  row.measurement = std::move(found->measurement);
  row.evaluations = found->evaluations;
  row.note = misfit(row.measurement, problem.devices);
  return row;
}

JsonObject Compare::as_json(const Inputs& inputs, double bound_s,
                            const std::vector<record::TableRow>& rows) const {
  std::vector<JsonObject> methods;
  for (const record::TableRow& row : rows) {
    JsonObject method;
    const bool valid = row.found && row.measurement.valid;
    method.add("method", row.method).add("valid", valid);
    if (valid) {
      method.add("step_time_s", row.measurement.step_time_s);
    } else {
      method.add_null("step_time_s").add("reason", row.note);
    }
    method.add("peak_memory_bytes", std::span<const std::int64_t>{row.measurement.peak_bytes});
    method.add("bytes_moved", row.measurement.bytes_moved)
        .add("evaluations", row.evaluations)
        .add("wall_s", row.wall_s);
    methods.push_back(std::move(method));
  }
  JsonObject json;
  json.add("graph", inputs.graph.name())
      .add("devices", std::span<const std::string>{device_names(inputs.devices)});
  json.add("lower_bound_s", bound_s).add("methods", std::move(methods));
  return json;
}

std::string Compare::verdict(const std::vector<record::TableRow>& rows) {
  const record::TableRow* best = fastest(rows);
  if (best == nullptr) return "no method found a placement that fits\n";
  return "best: " + best->method + ", " + format_seconds(best->measurement.step_time_s) + "\n";
}

Result<ExitStatus> Compare::run(Console& console) {
  auto methods = methods_of(methods_);
  if (!methods) return methods.error();
  const Anneal anneal{{.evaluations = evaluations_}};
  for (const Method*& method : *methods) {
    if (method->name() == anneal.name()) method = &anneal;
  }
  const auto options = simulator_options(dispatch_);
  if (!options) return options.error();
  const auto inputs = open_inputs(graph_, devices_, reserve_);
  if (!inputs) return inputs.error();

  Simulator simulator{inputs->graph, inputs->devices, *options};
  const Problem problem{inputs->graph, inputs->devices, inputs->constraints, simulator.costs(),
                        console.seed()};
  const double bound_s =
      lower_bound(inputs->graph, inputs->devices, inputs->constraints, simulator.costs()).seconds();
  const SystemClock clock;
  const StopSignal stop;
  LiveView view = console.live_view(clock);
  WatchedExecutor executor{simulator, view, stop};
  std::vector<record::TableRow> rows;
  for (const Method* method : *methods) {
    executor.begin(std::string{method->name()} + " (" + std::to_string(rows.size() + 1) + " of " +
                   std::to_string(methods->size()) + ")");
    console.debug(std::string{method->name()} + " starts");
    auto row = run_method(*method, problem, executor, clock);
    if (stop.received() != 0) break;  // What is done is shown; the row that was cut short is not.
    if (!row) return row.error();
    rows.push_back(std::move(*row));
  }
  view.clear();

  if (console.json()) {
    console.print(as_json(*inputs, bound_s, rows).text());
  } else {
    console.print(printable(inputs->graph.name()) + " on " + printable(file_name(devices_)) + "\n" +
                  record::render_table(rows, bound_s, device_names(inputs->devices)) + verdict(rows));
  }
  if (stop.received() != 0) return stopped_by(stop.received());
  const record::TableRow* best = fastest(rows);
  if (best == nullptr)
    return Error{
        Errc::kNoPlacement,
        printable(graph_) + ": no method found a placement that fits; allow more memory or more devices"};
  const auto single = best_single_device(problem, simulator);
  if (!single) return single.error();
  if (const std::string slower = slower_than_single(best->measurement.step_time_s, *single, inputs->devices);
      !slower.empty()) {
    console.warn("the best of these methods is " + slower);
  }
  return ExitStatus::kDone;
}

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<Compare>(); }

}  // namespace emplace::launcher
