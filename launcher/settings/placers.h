#pragma once
/// Makes the policy of a config: its placer, its settings and its initial parameters.

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "actors/scoring.h"
#include "actors/task.h"
#include "base/file.h"
#include "graph/grouping.h"
#include "launcher/settings/config.h"
#include "placement/placement.h"
#include "policy/placer.h"
#include "policy/placers/scheduler_policy.h"
#include "record/store/run_rows.h"

namespace emplace::launcher {

/// Groups a graph as configured, into at most policy.groups groups.
Grouping grouping_of(const RunConfig& config, const actors::TaskGraph& task);

/// Completes the config of a run whose policy places any graph (`input.graphs`, or a `run.policy` that does):
/// sets policy.features.words, if empty, to those of run.policy, else to those of the task's graphs. Errors
/// (kInvalid): those of policy::words_of(); a run.policy that cannot be read.
Result<Unit> fill_words(RunConfig& config, const actors::Task& task);

/// Makes the placer of a config (policy/placers/registry.h). The result depends only on config, task and
/// `starting`: [graphs] the placements that a best-heuristic start learns from; empty from scratch. Errors:
/// kInvalid with the key.
Result<std::unique_ptr<policy::Placer>> make_placer(const RunConfig& config, const actors::Task& task,
                                                    std::span<const Placement> starting);

/// Returns the placement that a policy that starts from a placement imitates first. Empty if the method needs
/// no imitation, or if there are many graphs, whose episodes start at the starting placements instead.
Placement imitation_target(const RunConfig& config, std::span<const Placement> starting);

/// A checkpoint by name: "RUN" (its newest), "RUN@50" (after that update), "RUN@best" (the policy nearest
/// before the one that drew the best placement), "RUN@last".
struct CheckpointName {
  std::filesystem::path run;
  std::string which;  ///< Empty: the newest.
};
CheckpointName parse_checkpoint_name(const std::string& text);

/// Name of the weights in the program (policy::shipped_scheduler()) where a checkpoint can be named.
inline constexpr const char* kShippedPolicy = "pretrained";
/// The name of a checkpoint with an absolute path; empty and kShippedPolicy remain.
std::string absolute_checkpoint(const std::string& name);

/// A checkpoint that a policy can start from.
struct WarmStart {
  /// Facts of the run that wrote the checkpoint. Weights have no run: only its config is given, with the
  /// method and the sizes of the weights.
  record::RunFacts facts;
  record::CheckpointRow checkpoint;
};
/// Reads a checkpoint of a run, kShippedPolicy, or a file of weights (policy/placers/scheduler_policy.h).
/// Errors: kInvalid if there is no such run, checkpoint or file, or it is damaged.
Result<WarmStart> read_checkpoint(const std::string& name);
/// The same as a scheduler policy. Errors: those of read_checkpoint(); kInvalid for another method.
Result<policy::SchedulerPolicy> read_scheduler(const std::string& name);
/// Reads the checkpoint that `config.run.policy` names and checks it against `placer`. Errors: kInvalid if
/// there is none, it is damaged, or it is of another method, device count or size.
Result<WarmStart> load_policy(const RunConfig& config, const policy::Placer& placer);

/// Returns what to change if the policy of a run saturates, as keys of its method: "set policy.placeto.means
/// = true, lower policy.learning_rate or raise policy.entropy".
std::string saturation_cure(const RunConfig& config);

/// Returns the config's scoring options with what depends on the machines of the task resolved.
actors::ScoringOptions scoring_options(const RunConfig& config, const actors::Task& task);

}  // namespace emplace::launcher
