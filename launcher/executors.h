#pragma once
/// Executors by the names that commands take.

#include <memory>
#include <string>

#include "executor/executor.h"
#include "executor/simulator.h"

namespace emplace::launcher {

/// "sim"; "fake" is the same without its delay. Errors: kUnsupported for kinds that this build does not have;
/// kInvalid for names that are none.
Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const SimulatorOptions& options);

}  // namespace emplace::launcher
