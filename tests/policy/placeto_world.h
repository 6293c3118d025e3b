#pragma once
// Shared by the tests of Placeto: graphs with their machines, and small policies for them.

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "executor/sim/simulator.h"
#include "policy/placers/placeto.h"
#include "tests/support/sample_graphs.h"

namespace emplace::policy {

/// A graph with its machine, as a policy sees it.
struct PlacetoWorld : testing::SampleTask {
  PlacetoWorld(OpGraph ops, std::size_t gpus, bool cpu = false)
      : SampleTask{std::move(ops), testing::sample_devices(gpus, cpu, std::int64_t{1} << 30)} {}
  PlacetoGraph view() const { return {{&graph, &devices, &constraints}, colocation_groups(graph)}; }
  double time_s(const Placement& placement) {
    Measurement measured;
    return simulator.measure(placement, measured).ok() && measured.valid
               ? measured.step_time_s
               : std::numeric_limits<double>::infinity();
  }
  Simulator simulator{graph, devices};
};

inline PlacetoOptions small_options() {
  PlacetoOptions options;
  options.network.embedding = 6;
  options.network.hidden = 7;
  options.network.rounds = 3;
  return options;
}

inline std::unique_ptr<PlacetoPlacer> placer_of(const PlacetoWorld& world, const PlacetoOptions& options,
                                                std::uint64_t seed = 1) {
  return *PlacetoPlacer::make({world.view()}, options, seed);
}

inline PlacetoWorld random_world(std::uint64_t seed = 3, std::uint32_t ops = 24) {
  return {testing::random_graph(seed, ops), 2, true};
}

/// Changes the parameters, away from the uniform policy that training starts from.
inline void shake(Placer& placer, float reach = 0.2f) {
  Rng rng{11, Purpose::kTest};
  for (float& value : placer.parameters().values()) value += reach * rng.normal();
}

}  // namespace emplace::policy
