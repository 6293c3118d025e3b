#pragma once
// Shared by the tests of methods: a graph on a machine, and a simulator of it.

#include <cstdint>
#include <utility>

#include "executor/sim/simulator.h"
#include "solver/method.h"
#include "tests/support/sample_graphs.h"

namespace emplace::testing {

/// A search until `seconds` from now.
inline Context budget(const Clock& clock, double seconds) {
  return {.clock = &clock, .deadline = clock.now() + as_nanos(seconds)};
}

/// [bytes] Memory that is always enough.
inline constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

struct World : SampleTask {
  using SampleTask::SampleTask;
  Problem problem(std::uint64_t seed = 1) const {
    return {graph, devices, constraints, simulator.costs(), seed};
  }
  /// The result of `method`.
  Result<Answer> run(const Method& method, std::uint64_t seed = 1) {
    return method.find(problem(seed), simulator);
  }

  Simulator simulator{graph, devices};
};

}  // namespace emplace::testing
