#pragma once
/// Makes the actors of a node from the config.

#include <span>
#include <string>

#include "actors/task.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// Spawns the named actors in the node. They depend only on the config and the run directory, so that a
/// restarted process recovers its state. Dispatcher and tracker run on the I/O loop, and so do fake executors
/// in a process without other actors; all others have their own loops. Errors: kInvalid, kIo.
Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const actors::TaskPtr& task,
                          const Start& start, std::span<const std::string> actors, const Clock& clock);

}  // namespace emplace::launcher
