#pragma once
/// What this program adds to the commands that place (launcher/placing/extensions.h).

#include <memory>

#include "launcher/placing/extensions.h"

namespace emplace::launcher {

/// Methods of policy/placers/registry.h, and `pretrained`.
std::unique_ptr<LearnedMethods> learned_methods(const InputOptions& inputs, bool quiet);
/// Executors in processes beside the program (launcher/worker/executors.h).
const RealExecutors& real_executors();
/// Exports of record/export.
const RunRecords& run_records();

}  // namespace emplace::launcher
