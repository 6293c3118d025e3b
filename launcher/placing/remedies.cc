#include "launcher/placing/remedies.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "graph/memory_plan.h"
#include "launcher/placing/results.h"
#include "solver/solve.h"

namespace emplace::launcher {
namespace {

/// The CPU that is tried where the machine has none.
constexpr const char* kUsualCpu = "epyc9654";

/// A remedy to try: what is allowed, and what is asked of the reader and of the machine instead.
struct Trial {
  std::string what, allow;
  InputOptions options;
};

std::string command_of(const Trial& trial, double budget_s) {
  const InputOptions& options = trial.options;
  std::string text = "emplace place " + shell_word(options.graph);
  const auto add = [&](const char* option, const std::string& value, const std::string& otherwise = {}) {
    if (value != otherwise) text += fmt::format(" {} {}", option, shell_word(value));
  };
  const InputOptions usual;
  add("--devices", options.devices);
  add("--rules", options.rules);
  add("--reserve", options.reserve);
  add("--from", options.reading.from, usual.reading.from);
  for (const std::string& shape : options.reading.shape) add("--shape", shape);
  if (options.reading.batch != usual.reading.batch) add("--batch", std::to_string(options.reading.batch));
  add("--float32", options.reading.float32);
  add("--cost-version", options.costs, usual.costs);
  add("--allow", trial.allow, "none");
  text += fmt::format(" --budget {:g}s", budget_s);
  return text;
}

/// The machine with one more device; nothing if it is not named by a text that can be continued.
std::optional<std::string> with_device(const InputOptions& options, const std::string& name) {
  const std::string resolved = resolved_devices(options.devices);
  if (machine_form(resolved) != MachineForm::kText) return std::nullopt;
  return options.devices + ", " + name;
}

/// The trials for a graph that does not fit on its machine.
std::vector<Trial> trials_of(const InputOptions& options, const Inputs& inputs) {
  std::vector<Trial> trials;
  // Memory decisions need a backward pass, and proofs exclude what cannot help.
  const bool trains = check_plannable(inputs.graph).ok();
  if (must_fit(inputs).ok()) {
    trials.push_back({"another order", "order", options});
    if (trains && inputs.devices.size() > 1) trials.push_back({"offload", "offload", options});
  }
  if (trains && must_fit(inputs, /*recomputes=*/true).ok()) {
    trials.push_back({"recompute", "recompute", options});
    if (inputs.devices.size() > 1) trials.push_back({"recompute and offload", "recompute,offload", options});
  }
  if (options.reading.batch > 1) {
    Trial half{"half of the batch", "none", options};
    half.options.reading.batch /= 2;
    trials.push_back(std::move(half));
  }
  const auto add_device = [&](const std::string& what, const std::string& name) {
    const auto machine = with_device(options, name);
    if (!machine) return;
    for (const char* allow : {"none", "recompute,offload"}) {
      if (!trains && allow != std::string_view{"none"}) continue;
      Trial more{what + (allow == std::string_view{"none"} ? "" : ", recompute and offload"), allow, options};
      more.options.devices = *machine;
      trials.push_back(std::move(more));
    }
  };
  bool has_cpu = false;
  const Device* largest = nullptr;
  for (const Device& device : inputs.devices.devices()) {
    has_cpu = has_cpu || device.profile.kind == "cpu";
    if (device.profile.kind != "cpu" && (largest == nullptr || device.memory_bytes > largest->memory_bytes))
      largest = &device;
  }
  if (largest != nullptr) add_device("one more " + largest->profile.name, largest->profile.name);
  if (!has_cpu) add_device(std::string{"a CPU, "} + kUsualCpu, kUsualCpu);
  return trials;
}

}  // namespace

Result<std::vector<Remedy>> try_remedies(const InputOptions& options, const Inputs& inputs,
                                         const Request& request, const LearnedMethods& learned,
                                         const Clock& clock, double budget_s,
                                         const std::function<bool()>& stopped) {
  const std::vector<Trial> trials = trials_of(options, inputs);
  const Nanos end = clock.now() + as_nanos(budget_s);
  std::vector<Remedy> remedies;
  for (std::size_t k = 0; k < trials.size() && !stopped(); ++k) {
    const Trial& trial = trials[k];
    const double left_s = std::chrono::duration<double>(end - clock.now()).count();
    // Memory decisions are of interest only where the machine alone does not suffice.
    if (!remedies.empty() && remedies.back().fits && trial.what.starts_with(remedies.back().what + ","))
      continue;
    Remedy remedy{.what = trial.what, .allow = trial.allow, .command = command_of(trial, 30)};
    std::optional<Inputs> other;
    if (trial.options.devices != options.devices || trial.options.reading.batch != options.reading.batch) {
      EMPLACE_TRY_ASSIGN(other, open_inputs(trial.options));
    }
    const Inputs& own = other ? *other : inputs;
    Request asked = request;
    asked.graph = &own.graph;
    asked.machine = &own.devices;
    asked.constraints = &own.constraints;
    asked.judge = own.judge;
    asked.allow = trial.allow;
    asked.known_to_fit = !other;  // Trials of this machine passed its proofs.
    asked.budget = {std::max(0.0, left_s) / static_cast<double>(trials.size() - k)};
    const auto model = make_model(own.graph, own.devices, own.judge);
    const auto answer = solve(asked, *model, {.clock = &clock, .stopped = stopped}, learned);
    if (!answer && answer.error().code != Errc::kNoPlacement) return answer.error();
    if (!answer) {
      remedy.why_not = "provably does not fit";
    } else if (!answer->measurement.valid) {
      remedy.why_not = "none found in this time: " + misfit(answer->measurement, own.devices);
    } else {
      remedy.fits = true;
      remedy.step_time_s = answer->measurement.step_time_s;
      remedy.peak_bytes = answer->measurement.peak_bytes;
    }
    remedies.push_back(std::move(remedy));
  }
  std::ranges::stable_sort(remedies, [](const Remedy& a, const Remedy& b) {
    return a.fits != b.fits ? a.fits : a.fits && a.step_time_s < b.step_time_s;
  });
  return remedies;
}

std::vector<std::string> remedies_lines(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) return {};
  std::size_t width = 0;
  for (const Remedy& remedy : remedies) width = std::max(width, remedy.what.size());
  std::vector<std::string> lines{"what would make it fit:"};
  for (const Remedy& remedy : remedies) {
    if (!remedy.fits) {
      lines.push_back(fmt::format("  {:<{}}  {}", remedy.what, width, remedy.why_not));
      continue;
    }
    const std::int64_t peak = std::ranges::max(remedy.peak_bytes);
    lines.push_back(fmt::format("  {:<{}}  {:>9}  peak {:>10}  {}", remedy.what, width,
                                format_seconds(remedy.step_time_s), format_bytes(peak), remedy.command));
  }
  return lines;
}

Json remedies_json(const std::vector<Remedy>& remedies) {
  auto rows = Json::array();
  for (const Remedy& remedy : remedies) {
    Json row{{"what", remedy.what},
             {"allow", remedy.allow},
             {"fits", remedy.fits},
             {"step_time_s", remedy.fits ? Json(remedy.step_time_s) : Json()},
             {"peak_memory_bytes", remedy.fits ? Json(remedy.peak_bytes) : Json()},
             {"command", remedy.command}};
    if (!remedy.fits) row["reason"] = remedy.why_not;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace emplace::launcher
