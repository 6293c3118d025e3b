#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/file.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/timing.h"
#include "launcher/calibration/calibrated_machine.h"
#include "launcher/calibration/cost_ledger.h"
#include "launcher/calibration/study.h"
#include "launcher/commands/commands.h"
#include "launcher/placing/graph_options.h"
#include "launcher/placing/results.h"
#include "launcher/placing/torch_options.h"
#include "launcher/settings/host_facts.h"
#include "launcher/terminal/progress_view.h"
#include "launcher/terminal/setting_options.h"
#include "launcher/terminal/stop_signal.h"
#include "launcher/worker/executors.h"

namespace emplace::launcher {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

class Calibrate final : public Command {
 public:
  Calibrate()
      : Command{"calibrate", "Measure the costs of ops and transfers on this machine and write a device file",
                "emplace calibrate tests/fixtures/graphs/cifar10_cnn-bs4.json.gz --rounds 2 --placements 4 "
                "-o here.toml"} {}
  void declare(Options& options) override {
    options.operands("GRAPH", graphs_, "Graph files whose ops are measured")
        .option("--executor", executor_, "Executor that measures: cpu, cuda or torch")
        .required("-o,--output", output_, "Device file to write; NAME.costs.json is written beside it")
        .non_empty(
            "--devices,-d", devices_,
            "Machine to measure on, as for emplace place (default: 'here' for cuda, else one CPU device per "
            "core, sharing 80% of the memory)")
        .option("--count", count_, "Without --devices: number of CPU devices; 0: one per core")
        .option("--placements", placements_, "Placements per graph to compare with the simulator; 0: none")
        .option("--rounds", rounds_,
                "Rounds; each measures everything once, which spreads other load on the machine evenly")
        .option("--warmups", warmups_, "Warm-up steps before the timed ones, per round")
        .option("--samples", samples_, "Timed steps per round")
        .option("--deadline", deadline_, "Longest time without progress before an executor is restarted");
    declare_reading(options, reading_);
    torch_.declare(options);
  }
  Result<ExitStatus> run(Console& console) override;

 private:
  Result<DeviceSet> machine() const;
  Json as_json(const std::vector<StudiedGraph>& studied, const CostLedger& ledger, const Fit& fit,
               const std::string& costs_file) const;
  std::string as_text(const std::vector<StudiedGraph>& studied, const CostLedger& ledger,
                      const Fit& fit) const;

  std::vector<std::string> graphs_;
  TorchOptions torch_;
  std::string executor_ = "cpu", output_, devices_, deadline_ = "120s";
  std::uint64_t count_ = 0, placements_ = 50, rounds_ = 8, warmups_ = 1, samples_ = 1;
  GraphReading reading_;
};

/// Returns the devices to measure on. Without --devices: for the executor cuda this machine; else one per
/// core, which share four fifths of the memory, and the receiving device copies.
Result<DeviceSet> Calibrate::machine() const {
  if (!devices_.empty()) return open_devices(devices_, {}, CostVersion::k1);
  if (executor_ == "cuda") return open_devices("here", {}, CostVersion::k1);
  const std::uint64_t each = std::max<std::uint64_t>(torch_.threads, 1);
  const std::uint64_t count = count_ == 0 ? std::max<std::uint64_t>(usable_cores() / each, 1) : count_;
  if (count > kMaxDevices) return invalid("--count", "is too large", "at most 256 devices");
  const auto memory =
      static_cast<std::int64_t>(static_cast<double>(memory_bytes()) * 0.8 / static_cast<double>(count));
  Profile profile =
      *find_profile("haswell18");  // Op classes that no graph has keep the efficiencies of this profile.
  profile.name = "cpu";
  std::vector<Device> devices;
  for (std::uint64_t d = 0; d < count; ++d)
    devices.push_back({fmt::format("cpu:{}", d), profile, memory >> 20 << 20, ""});
  EMPLACE_TRY_ASSIGN(auto set, DeviceSet::make(std::move(devices), Link{10e9, 1e-6}));
  return set.with_copies(CopyEngine::kTarget);
}

Result<ExitStatus> Calibrate::run(Console& console) {
  if (!uses_real_devices(executor_))
    return invalid("--executor '" + printable(executor_, 40) + "'", "cannot calibrate",
                   "use cpu, cuda or torch");
  if (executor_ == "torch" && graphs_.size() > 1)
    return invalid("GRAPH", "is given more than once, but --model makes one graph",
                   "calibrate one graph at a time");
  const bool sensible =
      samples_ > 0 && samples_ <= 10'000 && warmups_ <= 10'000 && rounds_ > 0 && rounds_ <= 1'000;
  if (!sensible || placements_ > 100'000)
    return invalid("--rounds, --warmups, --samples, --placements", "are out of range", "use 8, 1, 1 and 50");
  const auto deadline = parse_budget(deadline_);
  if (!deadline) return invalid("--deadline", deadline.error().context);
  EMPLACE_TRY_ASSIGN(const auto devices, machine());
  const StopSignal stop;
  ProcessRequest request;
  request.real.timing = {static_cast<std::uint32_t>(warmups_), static_cast<std::uint32_t>(samples_),
                         static_cast<std::uint32_t>(3 * samples_)};
  request.deadline_s = *deadline;
  request.interrupted = [&] { return stop.received() != 0; };
  EMPLACE_TRY(torch_.fill(request, executor_));
  EMPLACE_TRY(check_process_executor(executor_, {}, request));
  EMPLACE_TRY(check_process_links(executor_, devices));
  std::vector<StudiedGraph> studied;
  for (const std::string& file : graphs_) {
    EMPLACE_TRY_ASSIGN(auto graph, open_graph(file, reading_));
    studied.push_back({.graph = std::move(graph), .file = file_name(file)});
  }

  CostLedger ledger;
  const SystemClock clock;
  ProgressView view{console, clock};
  StudyOptions options{placements_, rounds_, console.seed(), [&](const std::string& what) {
                         view.show([&] { return ProgressFacts{.activity = what, .has_best = false}; });
                       }};
  for (StudiedGraph& one : studied) {
    const auto executor = make_process_executor(executor_, one.graph, devices, request);
    auto done = study(one, devices, *executor, options);
    if (stop.received() != 0) return stopped_by(stop.received());
    if (!done) return done.error();
    ledger.add(one.graph, one.profile());
  }
  view.show([] { return ProgressFacts{.activity = "fit", .has_best = false}; });
  EMPLACE_TRY_ASSIGN(const auto fit, fit_and_predict(studied, devices, ledger));
  view.clear();

  const std::filesystem::path path = output_;
  const std::filesystem::path costs = std::filesystem::path{path}.replace_extension(".costs.json");
  EMPLACE_TRY(write_file(costs, costs_file_text(ledger, executor_, host_facts())));
  const std::string text = device_file_text(devices, ledger, fit, costs.filename().string());
  EMPLACE_TRY(write_file(path, text));
  console.print(console.json() ? json_text(as_json(studied, ledger, fit, costs.string())) + "\n"
                               : as_text(studied, ledger, fit));
  return ExitStatus::kDone;
}

Json Calibrate::as_json(const std::vector<StudiedGraph>& studied, const CostLedger& ledger, const Fit& fit,
                        const std::string& costs_file) const {
  Json out{{"devices", output_},
           {"costs", costs_file},
           {"executor", executor_},
           {"signatures", ledger.entries(0).size()},
           {"task_overhead_us", ledger.overhead_us(0)}};
  if (const double host_us = ledger.host_us(0); host_us > 0) out["task_host_us"] = host_us;
  if (const auto corun = ledger.corun()) out["corun_measured"] = *corun;
  if (const auto shares = ledger.hot_shares(0); !shares.empty())
    out["caches"] = Json{{"signatures", shares.size()}, {"hot_over_cold", median(shares)}};
  out["fit"] = fields_json(fit);
  auto graphs = Json::array();
  for (const StudiedGraph& one : studied) {
    const Agreement held_out = one.held_out();
    auto points = Json::array();
    for (const ComparedPlacement& point : one.placements) points.push_back(fields_json(point));
    graphs.push_back({{"graph", one.graph.name()},
                      {"step_time_s", one.step_time_s()},
                      {"ops_s", one.ops_s()},
                      {"synthetic_types", one.synthetic_types},
                      {"placements", one.placements.size()},
                      {"held_out", held_out.count},
                      {"mape", held_out.error_mean},
                      {"spearman", held_out.spearman},
                      {"kendall", held_out.kendall},
                      {"top5_overlap", held_out.top5_overlap},
                      {"drift", one.placements.empty() ? 0 : one.drift()},
                      {"repeatability", one.repeatability()},
                      {"points", std::move(points)}});
  }
  out["graphs"] = std::move(graphs);
  return out;
}

std::string Calibrate::as_text(const std::vector<StudiedGraph>& studied, const CostLedger& ledger,
                               const Fit& fit) const {
  std::string text = fmt::format("{}: {} op signatures measured, {} of overhead per op\n", printable(output_),
                                 ledger.entries(0).size(), format_seconds(ledger.overhead_us(0) * 1e-6));
  if (const double host_us = ledger.host_us(0); host_us > 0)
    text += "the host takes " + format_seconds(host_us * 1e-6) + " to enqueue an op\n";
  if (const auto shares = ledger.hot_shares(0); !shares.empty())
    text +=
        fmt::format("{} short op signatures take {} of their time if a cache has their operands (median)\n",
                    shares.size(), percent(median(shares)));
  if (const auto corun = ledger.corun())
    text +=
        fmt::format("devices that share a GPU are {:.2f} times slower while all of them are busy\n", *corun);
  for (const StudiedGraph& one : studied) {
    text += "\n" + one.graph.name() + ": step time on one device " + format_seconds(one.step_time_s()) +
            ", of which ops " + percent(one.ops_s() / one.step_time_s()) + "\n";
    if (!one.synthetic_types.empty())
      text += "  replaced by synthetic ops: " + joined(one.synthetic_types) + "\n";
    if (one.placements.empty()) continue;
    const Agreement held_out = one.held_out();
    text += fmt::format(
        "  {} held-out placements: error {}, Spearman {:.3f}, Kendall {:.3f}, {} of the 5 fastest found\n",
        held_out.count, percent(held_out.error_mean), held_out.spearman, held_out.kendall,
        held_out.top5_overlap);
    const auto [fastest, slowest] = std::ranges::minmax(one.column(&ComparedPlacement::measured_s, false));
    text += fmt::format(
        "  step times from {} to {}; drift of the machine's speed {}; Spearman {:.3f} between odd and even "
        "rounds\n",
        format_seconds(fastest), format_seconds(slowest), percent(one.drift()), one.repeatability());
    text += "    predicted     measured   error  kind\n";
    for (const ComparedPlacement& point : one.placements) {
      if (point.fitted) continue;
      text += fmt::format("  {:>11}  {:>11}{:>8}  {}\n", format_seconds(point.predicted_s),
                          format_seconds(point.measured_s), percent(point.predicted_s / point.measured_s - 1),
                          point.kind);
    }
  }
  return text +
         fmt::format(
             "\nfitted to the training half: {:.2f} us per op, links at {} of their measured bandwidth, "
             "concurrent ops {:.2f} times slower\n",
             fit.overhead_us, percent(fit.link_efficiency), fit.corun);
}

}  // namespace

std::unique_ptr<Command> make_calibrate() { return std::make_unique<Calibrate>(); }

}  // namespace emplace::launcher
