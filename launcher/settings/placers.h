#pragma once
/// From a config to a policy: which placer, with which numbers, starting where.

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "actors/task.h"
#include "base/file.h"
#include "graph/grouping.h"
#include "launcher/settings/config.h"
#include "placement/placement.h"
#include "policy/placer.h"
#include "record/store/run_rows.h"

namespace emplace::launcher {

/// What a config groups a graph into: at most policy.groups groups.
Grouping grouping_of(const RunConfig& config, const actors::TaskGraph& task);

/// The placer of a config (policy/placers/registry.h), a function of config, task and `baselines` alone.
/// `baselines`: [graphs] where a policy started at baselines begins; empty for one from scratch. Errors:
/// kInvalid, naming the key.
Result<std::unique_ptr<policy::Placer>> make_placer(const RunConfig& config, const actors::Task& task,
                                                    std::span<const Placement> baselines);

/// What a policy of this config that starts at baselines learns to repeat before anything else; empty: it is
/// made so, or there are many graphs, and episodes start there.
Placement to_imitate(const RunConfig& config, std::span<const Placement> baselines);

/// A checkpoint by name: "RUN" (its newest), "RUN@50" (after that update), "RUN@best" (the policy nearest
/// before the one that drew the best placement), "RUN@last".
struct CheckpointName {
  std::filesystem::path run;
  std::string which;  ///< Empty: the newest.
};
CheckpointName parse_checkpoint_name(const std::string& text);

/// What a policy can begin with.
struct WarmStart {
  record::RunFacts facts;  ///< Of the run that learned it.
  record::CheckpointRow checkpoint;
};
/// Errors: kInvalid if there is no such run or checkpoint, or it is damaged.
Result<WarmStart> read_checkpoint(const std::string& name);
/// The checkpoint that `config.run.policy` names, held against `placer`. Errors: kInvalid if there is none,
/// it is altered, or it is of another method, device count or size.
Result<WarmStart> load_policy(const RunConfig& config, const policy::Placer& placer);

}  // namespace emplace::launcher
