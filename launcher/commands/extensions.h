#pragma once
/// What this program adds to the commands that place (launcher/placing/extensions.h).

#include <memory>

#include "launcher/placing/extensions.h"

namespace emplace::launcher {

/// Methods of policy/placers/registry.h, and `pretrained`.
std::unique_ptr<LearnedMethods> learned_methods(const InputOptions& inputs, bool quiet);
/// Writes an export of record/export.
Result<ExitStatus> export_recorded_run(const RecordRequest& request, Console& console);

}  // namespace emplace::launcher
