#include "launcher/placing/jitter_options.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text/words.h"
#include "base/units.h"
#include "launcher/placing/graph_options.h"
#include "launcher/terminal/setting_options.h"
#include "placement/order.h"

namespace emplace::launcher {
namespace {

/// "5 %", or "ties" without noise on times.
std::string text_of(const Jitter& jitter) {
  if (jitter.times == 0 && jitter.ties) return "ties";
  return fmt::format("{:g} %", 100 * jitter.times);
}

}  // namespace

void JitterOptions::declare(Options& options, const char* help) {
  options.option("--jitter", jitter_, help);
  options.option("--draws", draws_, "Steps with noise that --jitter simulates (default: 64)");
}

Result<std::optional<Noise>> JitterOptions::request(std::uint64_t seed) const {
  if (jitter_.empty() && !draws_.empty()) return invalid("--draws", "needs --jitter", "add --jitter 5%");
  if (jitter_.empty()) return std::optional<Noise>{};
  Noise noise;
  noise.jitter.seed = seed;
  if (!draws_.empty()) {
    EMPLACE_TRY_ASSIGN(noise.draws, parse_whole("--draws", draws_, 1, 100'000));
  }
  if (jitter_ == "ties") {
    noise.jitter.times = 0;
    return std::optional{noise};
  }
  const auto share = parse_share(jitter_);
  if (!share || *share > Jitter::kMost)
    return invalid("--jitter '" + printable(jitter_, 40) + "'", "is no noise",
                   "use a share from 0% to 25%, or ties");
  noise.jitter.times = *share;
  noise.jitter.ties = *share > 0;
  return std::optional{noise};
}

Result<Unit> check_jitter(const std::string& option, const Judge& judge) {
  if (judge.objective != Objective::kStepTime)
    return invalid(option, "needs --objective step-time", "other objectives have no events to disturb");
  if (judge.placeto) return invalid(option, "needs --executor sim", "Placeto's simulator has no noise");
  return Unit{};
}

Result<JitteredSteps> jittered_steps(const Inputs& inputs, const Placement& placement, const OpOrder& order,
                                     const Noise& noise) {
  if (!order.empty()) {
    const OpGraph graph = renumbered(inputs.graph, order);
    JitteredSimulator simulator{graph, inputs.devices, inputs.judge.simulator.dispatch, noise.jitter};
    return simulator.measure_draws(renumbered(placement, order), noise.draws);
  }
  JitteredSimulator simulator{inputs.graph, inputs.devices, inputs.judge.simulator.dispatch, noise.jitter};
  return simulator.measure_draws(placement, noise.draws);
}

Json jitter_json(const JitteredSteps& steps, const Noise& noise) {
  return Json{{"share", noise.jitter.times},     {"ties", noise.jitter.ties},
              {"draws", steps.steps_s.size()},   {"median_s", steps.quantile(0.5)},
              {"p90_s", steps.quantile(0.9)},    {"p95_s", steps.quantile(0.95)},
              {"worst_s", steps.steps_s.back()}, {"over_memory", steps.over}};
}

std::string jitter_text(const JitteredSteps& steps, const Noise& noise, double step_time_s) {
  const auto above = [&](double seconds) {
    if (step_time_s <= 0) return format_seconds(seconds);
    return fmt::format("{} ({:+.1f} %)", format_seconds(seconds), 100 * (seconds / step_time_s - 1));
  };
  std::string text =
      fmt::format("jitter     {}: median {}, 95th percentile {}, worst {} of {} steps", text_of(noise.jitter),
                  above(steps.quantile(0.5)), above(steps.quantile(0.95)), above(steps.steps_s.back()),
                  steps.steps_s.size());
  if (steps.over > 0)
    text += fmt::format("\n           {} of them do not fit, by up to {}", steps.over,
                        format_bytes(steps.bytes_over));
  return text;
}

}  // namespace emplace::launcher
