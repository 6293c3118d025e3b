#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "launcher/calibration/agreement.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/cost_ledger.h"
#include "launcher/calibration/fit.h"
#include "launcher/calibration/sample_placements.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/results.h"
#include "launcher/executors.h"
#include "launcher/inputs.h"
#include "launcher/portfolio.h"
#include "launcher/run/host_facts.h"
#include "launcher/stop_signal.h"

namespace emplace::launcher {
namespace {

/// A placement that was run, and what the simulator says of it.
struct Point {
  std::string kind;
  Placement placement;
  double measured_s = 0, predicted_s = 0;
  double synthetic_share = 0;
  bool fitted = false;  ///< The fit has seen it.
};

/// A graph and what is known of it here.
struct Studied {
  OpGraph graph;
  std::string file;
  ExecutorProfile profile;
  std::vector<std::string> synthetic_types;
  std::vector<Point> points;
  double drift = 0;  ///< Of the first placement, measured again at the end, against the first time.

  std::vector<double> column(double Point::*value, bool fitted) const {
    std::vector<double> out;
    for (const Point& point : points)
      if (point.fitted == fitted) out.push_back(point.*value);
    return out;
  }
  /// On placements that the fit has not seen.
  Agreement held_out() const {
    return agreement(column(&Point::predicted_s, false), column(&Point::measured_s, false));
  }
};

std::string fixed(double value, int digits) {
  std::array<char, 48> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<std::size_t>(size)};
}
std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

class Calibrate final : public Command {
 public:
  std::string_view name() const override { return "calibrate"; }
  std::string_view summary() const override {
    return "Measures what ops and transfers cost on this machine, and writes a device file";
  }
  void declare(Options& options) override {
    options.operands("GRAPH", graphs_, "Graph files whose ops are measured")
        .option("--executor", executor_, "What measures: cpu or cuda")
        .required("-o,--output", output_, "Device file to write; NAME.costs.json comes beside it")
        .option("--devices,-d", devices_,
                "Devices to measure on (default: one per core, of this machine's memory)")
        .option("--count", count_, "Without --devices: so many CPU devices; 0: one per core")
        .option("--placements", placements_, "Placements per graph to compare with the simulator; 0: none")
        .option("--warmups", warmups_, "Steps before the timed ones")
        .option("--samples", samples_, "Timed steps of each placement, and of the profile")
        .option("--deadline", deadline_, "Longest time without progress");
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<DeviceSet> machine() const;
  Result<Unit> study(Studied& one, const DeviceSet& devices, const ProcessRequest& request, Console& console,
                     LiveView& view) const;
  Result<Unit> compare(std::vector<Studied>& studied, const DeviceSet& devices, const CostLedger& ledger,
                       Fit& fit) const;
  JsonObject as_json(const std::vector<Studied>& studied, const CostLedger& ledger, const Fit& fit,
                     const std::string& costs_file) const;
  std::string as_text(const std::vector<Studied>& studied, const CostLedger& ledger, const Fit& fit) const;

  std::vector<std::string> graphs_;
  std::string executor_ = "cpu", output_, devices_, deadline_ = "120s";
  std::uint64_t count_ = 0, placements_ = 50, warmups_ = 3, samples_ = 7;
};

/// Cores of this machine, with four fifths of its memory between them. Copies are made by who gets them.
Result<DeviceSet> Calibrate::machine() const {
  if (!devices_.empty()) return open_devices(devices_);
  if (executor_ != "cpu") return invalid("--devices", "is missing", "name the GPUs in a device file");
  const std::uint64_t count = count_ == 0 ? usable_cores() : count_;
  if (count > kMaxDevices) return invalid("--count", "is too large", "at most 256 devices");
  const auto memory =
      static_cast<std::int64_t>(static_cast<double>(memory_bytes()) * 0.8 / static_cast<double>(count));
  Profile profile =
      *find_profile("haswell18");  // Classes that no graph measures keep its prior efficiencies.
  profile.name = "cpu";
  std::vector<Device> devices;
  for (std::uint64_t d = 0; d < count; ++d)
    devices.push_back({"cpu:" + std::to_string(d), profile, memory >> 20 << 20, ""});
  auto set = DeviceSet::make(std::move(devices), Link{10e9, 1e-6});
  if (!set) return set.error();
  return set->with_copies(CopyEngine::kTarget);
}

Result<Unit> Calibrate::study(Studied& one, const DeviceSet& devices, const ProcessRequest& request,
                              Console& console, LiveView& view) const {
  const auto constraints = Constraints::make(one.graph, devices);
  if (!constraints) return invalid(printable(one.file), constraints.error().context);
  const auto executor = make_process_executor(executor_, one.graph, devices, request);
  view.show({}, one.graph.name() + ": profile");
  auto profile = executor->profile();
  if (!profile) return Error{profile.error().code, printable(one.file) + ": " + profile.error().context};
  one.profile = *std::move(profile);
  one.synthetic_types = executor->synthetic_types();
  if (placements_ == 0) return Unit{};
  CostLedger ledger;
  ledger.add(one.graph, one.profile);
  const auto prior = calibrated_devices(devices, ledger, {});
  if (!prior) return prior.error();
  Simulator model{one.graph, *prior};
  auto sampled =
      sample_placements(one.graph, devices, *constraints, model, placements_, console.options().seed);
  Measurement measured;
  const auto measure = [&](const Placement& placement) { return executor->measure(placement, measured); };
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    view.show({}, one.graph.name() + ": placement " + std::to_string(i + 1) + " of " +
                      std::to_string(sampled.size()));
    if (auto done = measure(sampled[i].placement); !done) return done;
    if (!measured.valid) continue;  // It does not fit: nothing to compare.
    one.points.push_back({sampled[i].kind, std::move(sampled[i].placement), measured.step_time_s, 0,
                          measured.synthetic_share, i % 2 == 1});
  }
  if (one.points.empty())
    return Error{Errc::kNoPlacement, printable(one.file) + ": no placement ran: " + measured.failure};
  if (auto done = measure(one.points.front().placement); !done) return done;
  if (measured.valid) one.drift = measured.step_time_s / one.points.front().measured_s - 1;
  return Unit{};
}

Result<Unit> Calibrate::compare(std::vector<Studied>& studied, const DeviceSet& devices,
                                const CostLedger& ledger, Fit& fit) const {
  std::vector<MeasuredPlacements> seen;
  for (const Studied& one : studied) {
    MeasuredPlacements half{&one.graph, {}, one.column(&Point::measured_s, true)};
    for (const Point& point : one.points)
      if (point.fitted) half.placements.push_back(point.placement);
    if (!half.placements.empty()) seen.push_back(std::move(half));
  }
  if (!seen.empty()) {
    auto fitted = fit_parameters(devices, ledger, seen);
    if (!fitted) return fitted.error();
    fit = *fitted;
  }
  const auto machine = calibrated_devices(devices, ledger, fit);
  if (!machine) return machine.error();
  for (Studied& one : studied) {
    std::vector<Placement> placements;
    for (const Point& point : one.points) placements.push_back(point.placement);
    const auto predicted = predict(one.graph, *machine, placements);
    if (!predicted) return predicted.error();
    for (std::size_t i = 0; i < one.points.size(); ++i) one.points[i].predicted_s = (*predicted)[i];
  }
  return Unit{};
}

Result<ExitStatus> Calibrate::run(Console& console) {
  if (executor_ != "cpu" && executor_ != "cuda")
    return invalid("--executor '" + printable(executor_, 40) + "'", "measures nothing", "use cpu or cuda");
  if (samples_ == 0 || samples_ > 10'000 || warmups_ > 10'000 || placements_ > 100'000)
    return invalid("--samples, --warmups, --placements", "are out of range", "use 7, 3 and 50");
  const auto deadline = parse_budget(deadline_);
  if (!deadline) return invalid("--deadline", deadline.error().context);
  const auto devices = machine();
  if (!devices) return devices.error();
  const StopSignal stop;
  ProcessRequest request;
  request.real.timing = {static_cast<std::uint32_t>(warmups_), static_cast<std::uint32_t>(samples_),
                         static_cast<std::uint32_t>(3 * samples_)};
  request.deadline_s = *deadline;
  request.interrupted = [&] { return stop.received() != 0; };
  if (auto there = check_process_executor(executor_, {}, request); !there) return there.error();
  std::vector<Studied> studied;
  for (const std::string& file : graphs_) {
    auto graph = open_graph(file);
    if (!graph) return graph.error();
    studied.push_back({*std::move(graph), file_name(file)});
  }

  CostLedger ledger;
  const SystemClock clock;
  LiveView view = console.live_view(clock);
  for (Studied& one : studied) {
    auto done = study(one, *devices, request, console, view);
    if (stop.received() != 0) return stopped_by(stop.received());
    if (!done) return done.error();
    ledger.add(one.graph, one.profile);
  }
  Fit fit;
  view.show({}, "fit");
  if (auto done = compare(studied, *devices, ledger, fit); !done) return done.error();
  view.clear();

  const std::filesystem::path path = output_;
  const std::filesystem::path costs = std::filesystem::path{path}.replace_extension(".costs.json");
  if (auto done = write_file(costs, costs_file_text(ledger, executor_, host_facts())); !done)
    return done.error();
  const std::string text = device_file_text(*devices, ledger, fit, costs.filename().string());
  if (auto done = write_file(path, text); !done) return done.error();
  console.print(console.json() ? as_json(studied, ledger, fit, costs.string()).text() + "\n"
                               : as_text(studied, ledger, fit));
  return ExitStatus::kDone;
}

JsonObject Calibrate::as_json(const std::vector<Studied>& studied, const CostLedger& ledger, const Fit& fit,
                              const std::string& costs_file) const {
  JsonObject out;
  out.add("devices", output_).add("costs", costs_file).add("executor", executor_);
  out.add("signatures", std::uint64_t{ledger.entries().size()}).add("task_overhead_us", ledger.overhead_us());
  JsonObject fitted;
  fitted.add("overhead_us", fit.overhead_us)
      .add("link_efficiency", fit.link_efficiency)
      .add("corun", fit.corun);
  out.add("fit", std::move(fitted));
  std::vector<JsonObject> graphs;
  for (const Studied& one : studied) {
    JsonObject graph;
    double sum_us = 0;
    for (const OpCost& cost : one.profile.ops.front()) sum_us += cost.us;
    graph.add("graph", one.graph.name())
        .add("step_time_s", one.profile.step_time_s)
        .add("ops_s", sum_us * 1e-6);
    graph.add("synthetic_types", std::span<const std::string>{one.synthetic_types});
    const Agreement held_out = one.held_out();
    graph.add("placements", std::uint64_t{one.points.size()}).add("held_out", std::uint64_t{held_out.count});
    graph.add("mape", held_out.mape).add("spearman", held_out.spearman).add("kendall", held_out.kendall);
    graph.add("top5_overlap", held_out.top5_overlap).add("drift", one.drift);
    std::vector<JsonObject> points;
    for (const Point& point : one.points) {
      JsonObject row;
      row.add("kind", point.kind).add("measured_s", point.measured_s).add("predicted_s", point.predicted_s);
      row.add("synthetic_share", point.synthetic_share).add("fitted", point.fitted);
      points.push_back(std::move(row));
    }
    graph.add("points", std::move(points));
    graphs.push_back(std::move(graph));
  }
  out.add("graphs", std::move(graphs));
  return out;
}

std::string Calibrate::as_text(const std::vector<Studied>& studied, const CostLedger& ledger,
                               const Fit& fit) const {
  std::string text = printable(output_) + ": " + std::to_string(ledger.entries().size()) +
                     " kinds of work measured, " + format_seconds(ledger.overhead_us() * 1e-6) +
                     " to start an op\n";
  for (const Studied& one : studied) {
    double sum_us = 0;
    for (const OpCost& cost : one.profile.ops.front()) sum_us += cost.us;
    text += "\n" + one.graph.name() + ": one device " + format_seconds(one.profile.step_time_s) +
            " a step, its ops " + percent(sum_us * 1e-6 / one.profile.step_time_s) + " of it\n";
    if (!one.synthetic_types.empty()) text += "  stood in for: " + joined(one.synthetic_types) + "\n";
    if (one.points.empty()) continue;
    const Agreement held_out = one.held_out();
    text += "  " + std::to_string(held_out.count) + " placements that the fit has not seen: error " +
            percent(held_out.mape) + ", Spearman " + fixed(held_out.spearman, 3) + ", Kendall " +
            fixed(held_out.kendall, 3) + ", " + fixed(5 * held_out.top5_overlap, 0) +
            " of the 5 fastest found\n";
    const auto [fastest, slowest] = std::ranges::minmax(one.column(&Point::measured_s, false));
    text += "  they take from " + format_seconds(fastest) + " to " + format_seconds(slowest) +
            "; the machine drifted by " + percent(std::abs(one.drift)) + " meanwhile\n";
    text += "    predicted     measured   error  kind\n";
    for (const Point& point : one.points) {
      if (point.fitted) continue;
      const auto cell = [](const std::string& value, std::size_t width) {
        return std::string(width - std::min(width, value.size()), ' ') + value;
      };
      text += "  " + cell(format_seconds(point.predicted_s), 11) + "  " +
              cell(format_seconds(point.measured_s), 11) +
              cell(percent(point.predicted_s / point.measured_s - 1), 8) + "  " + point.kind + "\n";
    }
  }
  text += "\nfitted to the other half: " + fixed(fit.overhead_us, 2) + " us per op, links at " +
          percent(fit.link_efficiency) + " of their measured rate, ops beside others " + fixed(fit.corun, 2) +
          " times as long\n";
  return text;
}

}  // namespace

std::unique_ptr<Command> make_calibrate() { return std::make_unique<Calibrate>(); }

}  // namespace emplace::launcher
