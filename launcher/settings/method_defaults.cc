// Default settings of each method: those of its paper, and tuned ones that do better on our graphs.
#include "launcher/settings/config.h"
#include "launcher/settings/placers.h"

namespace emplace::launcher {
namespace {

constexpr std::uint64_t kNeverAfter = 1'000'000'000;

/// Paper: ColocRL 2017, sections 3 and 4.
void colocrl(RunConfig& c) {
  c.policy.sequence.network.start_from_encoder = true;
  c.policy.grouping = GroupingRule::kCell;
  c.policy.groups = 280;
  c.policy.training.learning_rate.start = 0.001f;
  c.policy.noise_updates = 0;
  c.policy.sequence.network.tanh_constant = 0;
  c.reward.baseline.start_at_failing_signal = true;
  c.reward.valid_only_after = 5000;
}

/// Paper: Spotlight 2018, sections 3 to 5; it does not cover infeasible placements.
void spotlight(RunConfig& c) {
  c.policy.sequence.network.start_from_encoder = true;
  c.policy.grouping = GroupingRule::kPrefix;
  c.policy.sequence.network.layers = 2;
  c.policy.placements = 5;
  c.policy.training.learning_rate.start = 0.001f;
  c.policy.noise_updates = 0;
  c.policy.sequence.network.tanh_constant = 0;
  c.policy.loss.kind = policy::LossKind::kKlPenalised;
  c.policy.training.steps_per_update = 10;
  c.reward.reward.transform = policy::Transform::kIdentity;
  c.reward.baseline.kind = policy::BaselineKind::kMean;
  c.reward.valid_only_after = kNeverAfter;
}

/// Paper: Placeto 2019, sections 2 and 3. From the authors' code: the penalty, the learning rates and their
/// linear decay, the clip, the first weight of the entropy bonus. Ours: how fast rate and weight fall, and to
/// which weight; the failing signal.
void placeto(RunConfig& c) {
  c.policy.grouping = GroupingRule::kColocation;
  c.policy.groups = 128;
  c.policy.placements = 1;
  c.policy.training.learning_rate.start = 0.001f;
  c.policy.training.learning_rate.end = 0.0001f;
  c.policy.training.learning_rate.linear_over = 2000;
  c.policy.training.adam.clip_norm = 1.25f;
  c.policy.loss.entropy = 1;
  c.policy.entropy_end = 0.01f;
  c.policy.entropy_over = 1000;
  c.pipeline.max_outstanding = 8;
  c.pipeline.batch_episodes = 4;
  c.pipeline.placements_per_lease = 1;
  c.reward.reward.transform = policy::Transform::kIdentity;
  c.reward.reward.graded_memory = true;
  c.reward.reward.penalty_base = 0;
  c.reward.reward.penalty_per_gb = 2;
  c.reward.reward.failing_signal = 20;
  c.reward.baseline.kind = policy::BaselineKind::kStepMean;
  c.reward.per = actors::BaselinePer::kRun;
  c.reward.baseline.returns = policy::Returns::kIntermediate;
  c.reward.valid_only_after = kNeverAfter;
}

/// Paper: Hierarchical 2018, section 2. What records of older programs do not have, and so no default has.
void hierarchical(RunConfig& c) {
  c.policy.hierarchical.start_from_encoder = true;
  c.policy.hierarchical.sum_inputs = true;
  c.policy.order = policy::GroupOrder::kShuffled;
  // The paper gives the amplitude, not the deviation: normal noise cut at two deviations.
  c.policy.noise = 0.05f;
  c.policy.noise_limit = 0.1f;
  if (c.policy.method != "random-grouping") return;
  c.policy.sequence.network.start_from_encoder = true;
  c.policy.sequence.sum_inputs = true;
}

/// Paper: Placeto 2019, sections 2.1 and 2.3. As hierarchical().
void placeto_rewards(RunConfig& c) {
  c.policy.placeto.measure_start = true;
  c.reward.reward.excess = policy::Excess::kMax;
}

/// Paper: Spotlight 2018, sections 4 and 5.1. As hierarchical(). The paper gives no rate; at 1 the first 500
/// placements of nmt-2layer teach as much as by Adam at 0.001, at 0.1 less, at 10 the policy settles at once.
void spotlight_steps(RunConfig& c) {
  c.policy.sequence.network.attention = policy::Attention::kDot;
  c.policy.training.optimizer = policy::Optimizer::kSgd;
  c.policy.training.adam.clip_norm = 0;
  c.policy.training.learning_rate.start = 1;
}

/// Our own method: docs/results/quality_learned.md.
void sweep(RunConfig& c) {
  c.policy.grouping = GroupingRule::kClass;
  c.policy.groups = 1024;
  c.policy.placements = 16;
  c.policy.training.learning_rate.start = 0.003f;
  c.policy.noise_updates = 0;
  c.policy.loss.entropy = 0.02f;
  c.policy.sweep.logit_bound = 8;
  c.pipeline.controllers = 1;
  c.pipeline.max_outstanding = 2;
  c.executor.count = 1;
  c.reward.source = RewardSource::kLocal;
  c.reward.reward.transform = policy::Transform::kLog;
  c.reward.reward.graded_memory = true;
  c.reward.reward.failing_signal = 100;
  c.reward.valid_only_after = kNeverAfter;
}

/// Our own method, which arrives trained: docs/guide/pretrained.md.
void scheduler(RunConfig& c) {
  c.run.policy = kShippedPolicy;
  c.policy.initial = policy::InitialPlacement::kBest;
  c.policy.placements = 8;
  c.policy.noise_updates = 0;
  c.policy.training.learning_rate.start = 0.003f;
  c.pipeline.max_outstanding = 4;
  c.pipeline.batch_episodes = 2;
  c.pipeline.placements_per_lease = 8;
  c.executor.count = 2;
  c.reward.reward.transform = policy::Transform::kLog;
  c.reward.reward.graded_memory = true;
  c.reward.reward.penalty_base = 0.2;
  c.reward.reward.penalty_per_gb = 0;
  c.reward.penalty_per_memory = 2;
  c.reward.reward.failing_signal = 100;
  c.reward.valid_only_after = kNeverAfter;
}

/// Tuned settings of a device decoder, which two sections configure.
template <class Network>
void tune_network(Network& network) {
  network.hidden = 64;
  network.tanh_constant = 5;  // Unbounded logits make the policy collapse to one device for everything.
  network.sees_group = true;
  network.table_scale = 10;
}

/// Tuned settings of every method: docs/reference/learning.md.
void tuned(RunConfig& c) {
  c.reward.reward.transform = policy::Transform::kLog;
  c.reward.reward.graded_memory = true;
  c.reward.reward.penalty_base = 0.2;
  c.reward.reward.penalty_per_gb = 0.5;
  c.reward.reward.failing_signal = 100;
  c.reward.baseline.start_at_failing_signal = false;
  c.reward.baseline.normalise = true;
  c.reward.valid_only_after = kNeverAfter;
  c.policy.grouping = GroupingRule::kScope;
  c.policy.noise_updates = 0;
  c.pipeline.controllers = 2;
  c.pipeline.max_outstanding = 2;
  c.executor.count = 2;
  if (c.policy.method == "placeto" || c.policy.method.starts_with("placeto-")) {
    c.policy.groups = 64;
    c.policy.initial = policy::InitialPlacement::kBest;
    c.policy.placeto.traversal = policy::Traversal::kRandom;
    c.policy.placeto.network.stay = 1.5f;
    c.policy.placeto.network.logit_bound = 5;
    c.policy.training.learning_rate.end = c.policy.training.learning_rate.start;
    c.policy.loss.entropy = 0.1f;
    c.policy.entropy_end = 0.05f;
    c.policy.entropy_over = 100;
    c.reward.baseline.discount = 0.5;
    c.reward.baseline.window = 40;
    c.pipeline.batch_episodes = 2;
    c.pipeline.placements_per_lease = 16;
    return;
  }
  c.pipeline.redraws = 8;
  c.reward.baseline.kind = policy::BaselineKind::kMovingAverage;
  c.reward.fits_first = true;
  if (c.policy.method == "colocrl" || c.policy.method == "spotlight") {
    c.reward.reward.penalty_base = 0.05;
    c.reward.reward.penalty_per_gb = 0.25;
  }
  c.policy.training.steps_per_update = 1;
  if (c.policy.method == "spotlight") {
    c.policy.training.steps_per_update = 2;
    c.policy.loss.beta = 0.3f;
    c.policy.training.adam.clip_norm =
        0.02f;  // The surrogate is a mean over groups; 0.02 corresponds to 1 for a sum over groups.
  }
  c.policy.groups = 64;
  c.policy.training.learning_rate.start = 0.0025f;
  c.policy.share_time_steps = true;
  const std::string_view section = policy::section_of(c.policy.method);
  if (section == "hierarchical") {
    tune_network(c.policy.hierarchical);
    c.policy.hierarchical.start_at_scopes = true;
    c.policy.hierarchical.grouper_scale = 0.02f;
  }
  if (section == "sequence") tune_network(c.policy.sequence.network);
}

}  // namespace

RunConfig record_defaults(std::string_view method) {
  RunConfig config;
  config.policy.preset = "paper";  // Records without the key are from before there was another preset.
  // They started there before this was a key.
  config.policy.sequence.network.start_from_encoder = method == "colocrl" || method == "spotlight";
  return config;
}

Result<RunConfig> method_defaults(std::string_view method, std::string_view preset) {
  RunConfig config;
  config.policy.method = method;
  config.policy.preset = preset;
  if (const auto known = find_word("method", method, policy::methods()); !known)
    return Error{Errc::kInvalid, "policy.method: " + known.error().context};
  if (const auto known = find_word("preset", preset, kPresets); !known)
    return Error{Errc::kInvalid, "policy.preset: " + known.error().context};
  if (method == "colocrl") colocrl(config);
  if (method == "spotlight") spotlight(config);
  if (method.starts_with("placeto")) placeto(config);
  if (method == "sweep") sweep(config);
  if (method == "scheduler") scheduler(config);
  if (method == "sweep" || method == "scheduler") return config;
  const std::string_view section = policy::section_of(method);
  if (preset == "tuned")
    tuned(config);
  else if (section == "hierarchical" || section == "simple-planner" || method == "random-grouping")
    hierarchical(config);
  else if (method == "spotlight")
    spotlight_steps(config);
  else if (section == "placeto")
    placeto_rewards(config);
  if (method == "random-grouping") config.policy.grouping = GroupingRule::kRandom;
  return config;
}

}  // namespace emplace::launcher
