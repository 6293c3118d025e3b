#pragma once
/// From a config to a policy: which placer, with which numbers, starting where.

#include <memory>

#include "actors/task.h"
#include "base/file.h"
#include "launcher/run/config.h"
#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::launcher {

/// The placer of a config, a function of config, task and `baseline` alone. `baseline` is where a policy
/// started at a baseline begins; empty for one from scratch. Errors: kInvalid, naming the key.
Result<std::unique_ptr<policy::Placer>> make_placer(const RunConfig& config, const actors::Task& task,
                                                    const Placement& baseline);

/// True if a policy of this config that starts at a baseline learns to repeat it first; else it is made so.
bool imitates(const RunConfig& config);

/// The newest checkpoint of the run `config.run.policy`, held against `placer`: parameters as it loads them.
/// Errors: kInvalid if there is none, it is altered, or it is of another method, device count or size.
Result<Bytes> load_policy(const RunConfig& config, const policy::Placer& placer);

}  // namespace emplace::launcher
