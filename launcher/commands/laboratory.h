#pragma once
/// The seam to the laboratory (lab/README.md), which nothing in the product includes.

#include <memory>

#include "launcher/commands/worlds_request.h"
#include "launcher/terminal/command.h"

namespace emplace::launcher {

/// Commands of the laboratory; null in a build without it.
struct Laboratory {
  std::unique_ptr<Command> (*make_train)() = nullptr;
  /// Writes one world, or those of a range that the folder lacks: world-000042.json.gz. Errors (kInvalid):
  /// options that contradict each other or are out of range; those of make_world() and save_graph().
  Result<ExitStatus> (*generate_worlds)(Console& console, const WorldsRequest& request) = nullptr;
};

/// Adds the methods and formats of the laboratory to their lists and returns its commands. A build without
/// the laboratory adds nothing. Thread: the main one, once, before anything else.
Laboratory open_laboratory();

}  // namespace emplace::launcher
