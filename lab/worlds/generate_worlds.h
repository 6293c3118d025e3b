#pragma once
/// `emplace generate worlds`: files of pairs of a graph and a machine.

#include "launcher/commands/worlds_request.h"
#include "launcher/terminal/command.h"

namespace emplace::lab {

/// Writes one world, or those of a range that the folder lacks: world-000042.json.gz. Errors (kInvalid):
/// options that contradict each other or are out of range; those of make_world() and save_graph().
Result<launcher::ExitStatus> generate_worlds(launcher::Console& console,
                                             const launcher::WorldsRequest& request);

}  // namespace emplace::lab
