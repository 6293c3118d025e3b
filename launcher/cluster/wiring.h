#pragma once
/// From a config to actors: who takes part, on which loop, and what each is given.

#include <span>
#include <string>

#include "actors/task.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// Spawns the actors of these names into the node, made from the config and the run directory alone, so that
/// a process that died comes back as it was: dispatcher and tracker on the I/O loop, and so are fake
/// executors in a process of nothing else; the others on loops of their own. Errors: kInvalid, kIo.
Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const actors::TaskPtr& task,
                          const Start& start, std::span<const std::string> actors, const Clock& clock);

}  // namespace emplace::launcher
