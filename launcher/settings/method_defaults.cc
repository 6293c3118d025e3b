// The numbers of each method: what the paper says, and what did better on our graphs.
#include <algorithm>
#include <array>

#include "base/text/words.h"
#include "launcher/settings/config.h"

namespace emplace::launcher {
namespace {

constexpr std::uint64_t kNeverAfter = 1'000'000'000;

/// Paper: ColocRL 2017, sections 3 and 4.
void colocrl(RunConfig& c) {
  c.policy.grouping = "colocation";
  c.policy.groups = 280;
  c.policy.learning_rate = 0.001;
  c.policy.noise_updates = 0;
  c.policy.tanh_constant = 0;
  c.reward.baseline_from_failing_signal = true;
  c.reward.valid_only_after = 5000;
}

/// Paper: Spotlight 2018, sections 3 and 4; it says nothing of placements that do not fit.
void spotlight(RunConfig& c) {
  c.policy.grouping = "prefix";
  c.policy.layers = 2;
  c.policy.placements = 5;
  c.policy.learning_rate = 0.001;
  c.policy.noise_updates = 0;
  c.policy.tanh_constant = 0;
  c.policy.objective = "kl";
  c.policy.steps_per_update = 10;
  c.reward.transform = "id";
  c.reward.baseline = "mean";
  c.reward.valid_only_after = kNeverAfter;
}

/// Paper: Placeto 2019, section 3 and appendix; penalties and schedules from its authors' code.
void placeto(RunConfig& c) {
  c.policy.grouping = "colocation";
  c.policy.groups = 128;
  c.policy.hidden = 64;
  c.policy.placements = 1;
  c.policy.learning_rate = 0.001;
  c.policy.learning_rate_end = 0.0001;
  c.policy.linear_over = 2000;
  c.policy.clip_norm = 1.25;
  c.policy.entropy = 1;
  c.policy.entropy_end = 0.01;
  c.policy.entropy_over = 1000;
  c.pipeline.max_outstanding = 8;
  c.pipeline.batch_episodes = 4;
  c.pipeline.placements_per_lease = 1;
  c.reward.transform = "id";
  c.reward.graded_memory = true;
  c.reward.penalty_base = 0;
  c.reward.penalty_per_gb = 2;
  c.reward.failing_signal = 20;
  c.reward.baseline = "step-mean";
  c.reward.baseline_per = "run";
  c.reward.returns = "intermediate";
  c.reward.valid_only_after = kNeverAfter;
}

/// Ours: docs/quality_learned.md.
void sweep(RunConfig& c) {
  c.policy.grouping = "class";
  c.policy.groups = 1024;
  c.policy.hidden = 32;
  c.policy.placements = 16;
  c.policy.learning_rate = 0.003;
  c.policy.noise_updates = 0;
  c.policy.entropy = 0.02;
  c.policy.logit_bound = 8;
  c.pipeline.controllers = 1;
  c.pipeline.max_outstanding = 2;
  c.executor.count = 1;
  c.reward.source = "local";
  c.reward.transform = "log";
  c.reward.graded_memory = true;
  c.reward.failing_signal = 100;
  c.reward.valid_only_after = kNeverAfter;
}

/// What did better, for every method alike: docs/learning.md.
void tuned(RunConfig& c) {
  c.reward.transform = "log";
  c.reward.graded_memory = true;
  c.reward.penalty_base = 0.2;
  c.reward.penalty_per_gb = 0.5;
  c.reward.failing_signal = 100;
  c.reward.baseline_from_failing_signal = false;
  c.reward.normalise = true;
  c.reward.valid_only_after = kNeverAfter;
  c.policy.grouping = "scope";
  c.policy.noise_updates = 0;
  c.pipeline.controllers = 2;
  c.pipeline.max_outstanding = 2;
  c.executor.count = 2;
  if (c.policy.method == "placeto" || c.policy.method.starts_with("placeto-")) {
    c.policy.groups = 64;
    c.policy.initial = "best";
    c.policy.traversal = "random";
    c.policy.stay = 1.5;
    c.policy.logit_bound = 5;
    c.policy.learning_rate_end = c.policy.learning_rate;
    c.policy.entropy = 0.1;
    c.policy.entropy_end = 0.05;
    c.policy.entropy_over = 100;
    c.reward.discount = 0.5;
    c.reward.baseline_window = 40;
    c.pipeline.batch_episodes = 2;
    c.pipeline.placements_per_lease = 16;
    return;
  }
  c.pipeline.redraws = 8;
  c.reward.baseline = "moving-average";
  c.reward.fits_first = true;
  if (c.policy.method == "colocrl" || c.policy.method == "spotlight") {
    c.reward.penalty_base = 0.05;
    c.reward.penalty_per_gb = 0.25;
  }
  c.policy.tanh_constant = 5;  // Unbounded logits end at one device for everything.
  c.policy.steps_per_update = 1;
  if (c.policy.method == "spotlight") {
    c.policy.steps_per_update = 2;
    c.policy.beta = 0.3;
    c.policy.clip_norm = 0.02;  // The surrogate takes means: this is to it what 1 is to a sum over groups.
  }
  c.policy.groups = 64;
  c.policy.hidden = 64;
  c.policy.learning_rate = 0.0025;
  c.policy.sees_group = true;
  c.policy.start_at_scopes = true;
  c.policy.grouper_scale = 0.02;
  c.policy.table_scale = 10;
  c.policy.share_time_steps = true;
}

constexpr std::array<std::string_view, 10> kMethods{"hierarchical",
                                                    "colocrl",
                                                    "spotlight",
                                                    "placeto",
                                                    "simple-planner",
                                                    "random-grouping",
                                                    "placeto-simple-aggregator",
                                                    "placeto-simple-partitioner",
                                                    "sweep",
                                                    "random"};

}  // namespace

std::span<const std::string_view> run_methods() { return kMethods; }

bool learns(const RunConfig& config) { return config.policy.method != "random"; }

bool uses_processes(const RunConfig& config) {
  const RunConfig::Executor& e = config.executor;
  return e.kind == "cpu" || e.kind == "cuda" || (e.kind == "fake" && (e.process || !e.chaos.empty()));
}

Result<RunConfig> method_defaults(std::string_view method, std::string_view preset) {
  if (std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end()) {
    const std::string_view near = nearest_word(method, kMethods);
    return invalid(
        "policy.method", "= '" + printable(method, 40) + "' is unknown",
        near.empty() ? "docs/learning.md lists them" : "did you mean '" + std::string{near} + "'?");
  }
  if (preset != "paper" && preset != "tuned")
    return invalid("policy.preset", "= '" + printable(preset, 40) + "' is unknown", "use paper or tuned");
  RunConfig config;
  config.policy.method = method;
  config.policy.preset = preset;
  if (method == "colocrl") colocrl(config);
  if (method == "spotlight") spotlight(config);
  if (method.starts_with("placeto")) placeto(config);
  if (method == "random-grouping") config.policy.grouping = "random";
  if (method == "sweep") {
    sweep(config);
    return config;
  }
  if (preset == "tuned") tuned(config);
  if (method == "random-grouping") config.policy.grouping = "random";
  return config;
}

}  // namespace emplace::launcher
