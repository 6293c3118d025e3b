#pragma once
/// The GPUs that the executors of a run lease on this machine.

#include <cstdint>
#include <string>

#include "actors/task.h"
#include "base/result.h"
#include "launcher/settings/config.h"

namespace emplace::launcher {

/// Replaces executor.count = "auto" by the number of executors that the GPUs of this machine suffice for.
/// Errors (kInvalid): no GPU can be leased.
Result<Unit> count_by_gpus(RunConfig& config, const actors::Task& task);

/// Checks that `executors` on this machine can lease GPUs of their own now; other kinds than cuda need none.
/// Errors (kInvalid): too few are free, with the processes that hold the others.
Result<Unit> check_gpus(const RunConfig& config, const actors::Task& task, std::uint32_t executors);

/// Returns a line that states why `executors` on this machine may share GPUs; empty if they do not.
std::string shared_gpus_note(const RunConfig& config, std::uint32_t executors);

}  // namespace emplace::launcher
