#include "launcher/commands/results.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "base/units.h"

namespace emplace::launcher {

std::string misfit(const Measurement& measured, const DeviceSet& devices) {
  std::string text;
  for (std::size_t d = 0; d < devices.size() && !measured.valid; ++d) {
    const Device& device = devices[static_cast<DeviceId>(d)];
    if (measured.peak_bytes[d] <= device.memory_bytes) continue;
    text += (text.empty() ? "" : ", ") + printable(device.name) + " needs " +
            format_bytes(measured.peak_bytes[d]) + " and has " + format_bytes(device.memory_bytes);
  }
  if (!measured.valid && text.empty()) text = "pieces of its devices wait for one another in a circle";
  return text;
}

std::string joined(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += (text.empty() ? "" : "; ") + note;
  return text;
}

JsonObject measured_json(const Measurement& measured, const Inputs& inputs, std::string_view executor) {
  const DeviceSet& devices = inputs.devices;
  JsonObject json;
  if (measured.valid) {
    json.add("step_time_s", measured.step_time_s);
  } else {
    json.add_null("step_time_s");
  }
  json.add("valid", measured.valid);
  if (!measured.valid) json.add("reason", misfit(measured, devices));
  json.add("peak_memory_bytes", std::span<const std::int64_t>{measured.peak_bytes});
  json.add("busy_s", std::span<const double>{measured.busy_s});
  json.add("bytes_moved", measured.bytes_moved);
  json.add("executor", executor);
  const std::array samples{measured.step_time_s};
  json.add("samples_s", std::span<const double>{samples.data(), measured.valid ? samples.size() : 0});
  json.add("objective", objective_name(inputs.judge.objective));
  if (measured.valid) {
    json.add("objective_value", inputs.in_file_unit(measured.step_time_s));
  } else {
    json.add_null("objective_value");
  }
  return json;
}

std::string measured_text(const Measurement& measured, const Inputs& inputs) {
  const DeviceSet& devices = inputs.devices;
  std::string what{inputs.judge.objective == Objective::kStepTime ? "step time"
                                                                  : objective_name(inputs.judge.objective)};
  what.resize(11, ' ');
  std::string text = measured.valid ? what + format_seconds(measured.step_time_s) + "\n"
                                    : "does not fit: " + misfit(measured, devices) + "\n";
  text += "moved      " + format_bytes(measured.bytes_moved) + "\n";
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const Device& device = devices[static_cast<DeviceId>(d)];
    const double busy = measured.step_time_s > 0 ? 100 * measured.busy_s[d] / measured.step_time_s : 0;
    std::string name = printable(device.name);
    name.resize(std::max<std::size_t>(name.size(), 10), ' ');
    text += name + " peak " + format_bytes(measured.peak_bytes[d]) + " of " +
            format_bytes(device.memory_bytes) + ", busy " + format_seconds(measured.busy_s[d]) + " (" +
            std::to_string(static_cast<int>(busy + 0.5)) + " %)\n";
  }
  return text;
}

Result<std::optional<SingleBest>> best_single_device(const Problem& problem, Executor& executor) {
  std::optional<SingleBest> best;
  Measurement measured;
  for (std::size_t d = 0; d < problem.devices.size(); ++d) {
    const auto device = static_cast<DeviceId>(d);
    Placement placement(problem.graph.num_ops(), device);
    if (problem.constraints.repair(placement) > 0) continue;  // Some op may not run there.
    if (auto done = executor.measure(placement, measured); !done) return done.error();
    if (measured.valid && (!best || measured.step_time_s < best->step_time_s))
      best = SingleBest{device, measured.step_time_s};
  }
  return best;
}

std::string slower_than_single(double step_time_s, const std::optional<SingleBest>& single,
                               const DeviceSet& devices) {
  if (!single || step_time_s <= single->step_time_s) return {};
  return "slower than everything on " + printable(devices[single->device].name) + " alone, which takes " +
         format_seconds(single->step_time_s);
}

void WatchedExecutor::begin(std::string what, bool asks) {
  what_ = std::move(what);
  asks_ = asks;
  evaluations_ = 0;
}

void WatchedExecutor::saw(double seconds) {
  if (best_s_ == 0 || seconds < best_s_) best_s_ = seconds;
}

bool WatchedExecutor::stopped() {
  if (view_.due()) {
    const std::string line = what_ +
                             (evaluations_ > 0 ? ": " + std::to_string(evaluations_) + " evaluations" : "") +
                             (best_s_ > 0 ? ", best " + format_seconds(best_s_) : "");
    view_.show(std::array{line}, line);
  }
  return stop_.received() != 0;
}

Result<Unit> WatchedExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  if (stopped() && !asks_) return Error{Errc::kRunFailed, "stopped by a signal"};
  if (auto measured = executor_.measure(placement, out); !measured) return measured;
  ++evaluations_;
  if (out.valid) saw(out.step_time_s);
  return Unit{};
}

ExitStatus stopped_by(int signal) {
  return signal == SIGTERM ? ExitStatus::kTerminated : ExitStatus::kInterrupted;
}

}  // namespace emplace::launcher
