#pragma once
/// `emplace generate worlds`: files of pairs of a graph and a machine.

#include <string>

#include "launcher/terminal/command.h"

namespace emplace::launcher {

/// Options as a user wrote them; empty: not given.
struct WorldsRequest {
  std::string output, index, count, first, traced, most_ops;
  bool held_out = false;
};

/// Writes one world, or those of a range that the folder lacks: world-000042.json.gz. Errors (kInvalid):
/// options that contradict each other or are out of range; those of make_world() and save_graph().
Result<ExitStatus> generate_worlds(Console& console, const WorldsRequest& request);

}  // namespace emplace::launcher
