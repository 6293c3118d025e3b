#pragma once
// A whole run in a simulated world: every real actor, a real policy, the real simulator of placements and the
// real run database on a simulated disk, with the faults that a swarm has drawn.

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/checkers.h"
#include "tests/sim/swarm.h"
#include "tests/sim/tracer.h"

namespace emplace::sim_test {

struct Outcome {
  std::optional<std::string> broken;  ///< The first promise that did not hold.
  std::uint64_t digest = 0;           ///< Hash of every delivery and of all updates.
  std::string parameters_sha256;
  Nanos simulated{0};
  std::uint64_t steps = 0;
  std::uint64_t faults = 0;
  std::uint64_t fenced = 0;
  bool rotted = false;   ///< Whether bits of the record flipped.
  bool noticed = false;  ///< Whether the run or a later verification reported the flipped bits.
  runtime::sim::NetworkCounters network;
};

/// Plays one history to its end. `directory`: an empty folder for files that SQLite does not write.
Outcome play(const Swarm& swarm, const std::string& directory, const Trace& trace = nullptr);

}  // namespace emplace::sim_test
