#pragma once
// What the tests of methods share: a graph on a machine, and a simulator of it.

#include <cstdint>
#include <utility>

#include "executor/sim/simulator.h"
#include "solver/method.h"
#include "tests/support/sample_graphs.h"

namespace emplace::testing {

/// [bytes] Memory that is never short.
inline constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

struct World : SampleTask {
  using SampleTask::SampleTask;
  Problem problem(std::uint64_t seed = 1) const {
    return {graph, devices, constraints, simulator.costs(), seed};
  }
  /// What `method` finds.
  Result<Found> run(const Method& method, std::uint64_t seed = 1) {
    return method.find(problem(seed), simulator);
  }

  Simulator simulator{graph, devices};
};

}  // namespace emplace::testing
