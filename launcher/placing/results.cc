#include "launcher/placing/results.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fields.h"
#include "base/text/words.h"
#include "base/units.h"
#include "executor/pipeline/pipeline_simulator.h"
#include "executor/timing.h"
#include "graph/formats/graph_file.h"
#include "graph/training/micro_batch.h"
#include "launcher/inputs/costs_json.h"
#include "placement/table.h"

namespace emplace::launcher {
namespace {

/// Returns "gpu:0 on a CPU core" for each of these devices.
std::vector<std::string> on_cores(std::span<const DeviceId> stand_ins, const DeviceSet& devices) {
  std::vector<std::string> names;
  for (const DeviceId id : stand_ins) names.push_back(printable(devices[id].name, 60) + " on a CPU core");
  return names;
}

/// Spread of the timed steps around their median.
struct Spread {
  double median_s = 0, mad_s = 0;  ///< Median; median absolute deviation from it.
  double min_s = 0, max_s = 0;
  std::int64_t long_tail = 0;  ///< Steps that took more than twice the median.
  bool noisy = false;          ///< Too large to trust the step time: MAD above 5 % of the median.
  EMPLACE_FIELDS(median_s, mad_s, min_s, max_s, long_tail, noisy)
};
/// @pre not empty.
Spread spread_of(const std::vector<double>& samples) {
  Spread spread{.median_s = median(samples), .mad_s = median_deviation(samples)};
  const auto [least, most] = std::ranges::minmax(samples);
  spread.min_s = least;
  spread.max_s = most;
  spread.long_tail = std::ranges::count_if(samples, [&](double s) { return s > 2 * spread.median_s; });
  spread.noisy = spread.mad_s > 0.05 * spread.median_s;
  return spread;
}

std::string format_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// Returns "costs      81 % measured, 19 % family (version 2)".
std::string costs_line(const StepCosts& costs) {
  std::string text;
  for (std::size_t source = 0; source < kNumCostSources; ++source) {
    if (std::lround(100 * costs.share[source]) == 0) continue;
    text += fmt::format("{}{} % {}", text.empty() ? "" : ", ", std::lround(100 * costs.share[source]),
                        word_of(static_cast<CostSource>(source)));
  }
  return fmt::format("costs      {} (version {})\n", text.empty() ? "none" : text, word_of(costs.version));
}

}  // namespace

std::string misfit(const Measurement& measured, const DeviceSet& devices) {
  if (!measured.valid && !measured.failure.empty()) return printable(measured.failure, 400);
  std::string text;
  for (std::size_t d = 0; d < devices.size() && !measured.valid; ++d) {
    const Device& device = devices[static_cast<DeviceId>(d)];
    if (measured.peak_bytes[d] <= device.memory_bytes) continue;
    text += (text.empty() ? "" : ", ") + printable(device.name) + " needs " +
            format_bytes(measured.peak_bytes[d]) + " and has " + format_bytes(device.memory_bytes);
  }
  if (!measured.valid && text.empty()) text = "the pieces of its devices wait for each other in a cycle";
  return text;
}

std::string joined(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += (text.empty() ? "" : "; ") + note;
  return text;
}

std::optional<StepCosts> costs_of(const Inputs& inputs, const Placement& placement) {
  if (placement.empty() || inputs.judge.objective != Objective::kStepTime) return std::nullopt;
  return PlacementCosts{inputs.graph, inputs.devices}.of(placement);
}

void add_assumptions(Json& json, const OpGraph& graph) {
  json["assumed"] = graph_notes(graph);
  auto uncounted = Json::array();
  for (const UncountedOps& one : uncounted_ops(graph))
    uncounted.push_back({{"type", one.type},
                         {"ops", one.ops},
                         {"bytes", one.bytes},
                         {"share", one.share},
                         {"bytes_share", one.share}});
  json["uncounted"] = std::move(uncounted);
}

Json measured_json(const Measurement& measured, const Inputs& inputs, std::string_view executor,
                   std::span<const DeviceId> stand_ins) {
  const DeviceSet& devices = inputs.devices;
  auto json = Json::object();
  json["step_time_s"] = measured.valid ? measured.step_time_s : kJsonNull;
  json["valid"] = measured.valid;
  if (!measured.valid) json["reason"] = misfit(measured, devices);
  json["peak_memory_bytes"] = measured.peak_bytes;
  json["busy_s"] = measured.busy_s;
  json["bytes_moved"] = measured.bytes_moved;
  json["executor"] = executor;
  json["label"] = label_name(measured.label);
  if (measured.samples_s.empty()) {
    const std::array samples{measured.step_time_s};
    json["samples_s"] = std::span<const double>{samples.data(), measured.valid ? samples.size() : 0};
  } else {
    json["samples_s"] = measured.samples_s;
    json["spread"] = fields_json(spread_of(measured.samples_s));
  }
  if (measured.label != MeasurementLabel::kSimulated) {
    json["synthetic_share"] = measured.synthetic_share;
    json["stand_ins"] = on_cores(stand_ins, inputs.devices);
  }
  json["objective"] = word_of(inputs.judge.objective);
  json["objective_value"] = measured.valid ? inputs.in_file_unit(measured.step_time_s) : kJsonNull;
  return json;
}

std::string measured_text(const Measurement& measured, const Inputs& inputs,
                          std::span<const DeviceId> stand_ins, const std::optional<StepCosts>& costs) {
  const DeviceSet& devices = inputs.devices;
  std::string what{inputs.judge.objective == Objective::kStepTime ? "step time"
                                                                  : word_of(inputs.judge.objective)};
  what.resize(11, ' ');
  const bool memory = out_of_memory(measured.valid, measured.failure);
  std::string text = measured.valid
                         ? what + step_text(measured.step_time_s, costs) + "\n"
                         : (memory ? "does not fit: " : "did not run: ") + misfit(measured, devices) + "\n";
  if (measured.label != MeasurementLabel::kSimulated) {
    text += "label      " + std::string{label_name(measured.label)};
    for (const std::string& device : on_cores(stand_ins, devices)) text += ", " + device;
    if (measured.synthetic_share > 0)
      text += ", " + format_percent(measured.synthetic_share) + " of the time in synthetic ops";
    text += "\n";
  }
  if (!measured.samples_s.empty()) {
    const Spread spread = spread_of(measured.samples_s);
    text += fmt::format("samples    {}, from {} to {}, MAD {}", measured.samples_s.size(),
                        format_seconds(spread.min_s), format_seconds(spread.max_s),
                        format_percent(spread.median_s > 0 ? spread.mad_s / spread.median_s : 0));
    if (spread.noisy) text += ", noisy: another process may use this machine";
    if (spread.long_tail > 0) text += fmt::format("; {} took more than twice the median", spread.long_tail);
    text += "\n";
  }
  if (costs) text += costs_line(*costs);
  text += "moved      " + format_bytes(measured.bytes_moved) + "\n";
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const Device& device = devices[static_cast<DeviceId>(d)];
    const double busy = measured.step_time_s > 0 ? 100 * measured.busy_s[d] / measured.step_time_s : 0;
    std::string name = printable(device.name);
    name.resize(std::max<std::size_t>(name.size(), 10), ' ');
    text +=
        fmt::format("{} peak {} of {}, busy {} ({} %)\n", name, format_bytes(measured.peak_bytes[d]),
                    format_bytes(device.memory_bytes), format_seconds(measured.busy_s[d]), std::lround(busy));
  }
  return text;
}

std::optional<PipelineFacts> pipeline_facts(const Inputs& inputs, const Placement& placement,
                                            const Measurement& measured) {
  const Strategy& strategy = inputs.judge.strategy;
  if (!strategy.pipelined() || placement.empty()) return std::nullopt;
  PipelineFacts facts{.strategy = strategy};
  for (const std::vector<DeviceId>& group : strategy.replicas) {
    facts.groups.emplace_back();
    for (const DeviceId device : group) facts.groups.back().push_back(inputs.devices[device].name);
  }
  // The stages of a replica do not depend on the others.
  const Strategy one{.micro_batches = strategy.micro_batches, .schedule = strategy.schedule};
  const auto chunks = PipelineSimulator(inputs.graph, inputs.devices, one).chunks(placement);
  EMPLACE_CHECK(chunks.ok(), "a placement that was measured");
  facts.stages = static_cast<std::size_t>(
      std::ranges::count(chunks->chunks, Phase::kForward, [](const Chunk& chunk) { return chunk.phase; }));
  double busy_s = 0;
  std::size_t used = 0;
  for (const double own : measured.busy_s) {
    busy_s += own;
    used += own > 0;
  }
  if (used > 0 && measured.step_time_s > 0)
    facts.busy_share = busy_s / static_cast<double>(used) / measured.step_time_s;
  if (measured.valid)
    facts.samples_per_s =
        static_cast<double>(batch_of(inputs.graph)) * strategy.micro_batches / measured.step_time_s;
  return facts;
}

void add_pipeline(Json& json, const std::optional<PipelineFacts>& facts) {
  if (!facts) return;
  json["strategy"] = {{"micro_batches", facts->strategy.micro_batches},
                      {"replicas", facts->strategy.num_replicas()},
                      {"stages", facts->stages},
                      {"shards", 1},
                      {"schedule", word_of(facts->strategy.schedule)}};
  if (!facts->groups.empty()) json["strategy"]["groups"] = facts->groups;
  if (!facts->strategy.shares.empty()) json["strategy"]["shares"] = facts->strategy.shares;
  json["busy_share"] = facts->busy_share;
  json["samples_per_s"] = facts->samples_per_s > 0 ? facts->samples_per_s : kJsonNull;
}

std::string pipeline_line(const std::optional<PipelineFacts>& facts) {
  if (!facts) return {};
  const std::uint32_t replicas = facts->strategy.num_replicas();
  std::string text = fmt::format("strategy   {} micro-batches", facts->strategy.micro_batches);
  if (replicas > 1) text += fmt::format(" on {} replicas", replicas);
  if (!facts->strategy.shares.empty()) text += fmt::format(" ({})", fmt::join(facts->strategy.shares, ", "));
  text += fmt::format("{} {} stage{}, {}; devices are busy for {:.0f} %", replicas > 1 ? ", each in" : " in",
                      facts->stages, facts->stages == 1 ? "" : "s", word_of(facts->strategy.schedule),
                      100 * facts->busy_share);
  if (facts->samples_per_s > 0) text += fmt::format(", {:.4g} samples/s", facts->samples_per_s);
  return text + "\n";
}

Result<std::optional<SingleBest>> best_single_device(const Inputs& inputs, Executor& executor) {
  std::optional<SingleBest> best;
  Measurement measured;
  if (!inputs.judge.strategy.replicas.empty()) {  // All micro-batches on one device.
    Inputs one = inputs;
    one.judge.strategy.replicas.clear();
    one.judge.strategy.shares.clear();
    return best_single_device(one, *make_model(one.graph, one.devices, one.judge));
  }
  for (std::size_t d = 0; d < inputs.devices.size(); ++d) {
    const auto device = static_cast<DeviceId>(d);
    Placement placement(inputs.graph.num_ops(), device);
    if (inputs.constraints.repair(placement) > 0) continue;  // Some op may not run on this device.
    EMPLACE_TRY(executor.measure(placement, measured));
    if (measured.valid && (!best || measured.step_time_s < best->step_time_s))
      best = SingleBest{device, measured.step_time_s};
  }
  return best;
}

std::string slower_than_single(double step_time_s, const std::optional<SingleBest>& single,
                               const DeviceSet& devices) {
  if (!single || step_time_s <= single->step_time_s) return {};
  return "slower than running everything on " + printable(devices[single->device].name) + ", which takes " +
         format_seconds(single->step_time_s);
}

void WatchedExecutor::start(std::string what, bool polls) {
  const MutexLock lock{mutex_};
  shown_.activity = std::move(what);
  polls_ = polls;
  evaluations_ = 0;
}

void WatchedExecutor::record_value(double seconds) {
  const MutexLock lock{mutex_};
  if (shown_.best_s == 0 || seconds < shown_.best_s) shown_.best_s = seconds;
  // Searches poll; what other methods find is what the best is compared with.
  if (polls_ || (shown_.heuristic_s > 0 && seconds >= shown_.heuristic_s)) return;
  shown_.heuristic = shown_.activity.substr(0, shown_.activity.find(' '));
  shown_.heuristic_s = seconds;
}

bool WatchedExecutor::stopped() {
  view_.show([&] {
    const MutexLock lock{mutex_};
    shown_.details = evaluations_ > 0 ? fmt::format("{} evaluations", evaluations_) : "";
    return shown_;
  });
  return stop_.received() != 0;
}

Result<Unit> WatchedExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  const bool polls = [&] {
    const MutexLock lock{mutex_};
    return polls_;
  }();
  if (stopped() && !polls) return Error{Errc::kRunFailed, "stopped by a signal"};
  EMPLACE_TRY(executor_.measure(placement, out));
  ++evaluations_;
  if (out.valid) record_value(out.step_time_s);
  return Unit{};
}

ExitStatus stopped_by(int signal) {
  return signal == SIGTERM ? ExitStatus::kTerminated : ExitStatus::kInterrupted;
}

}  // namespace emplace::launcher
