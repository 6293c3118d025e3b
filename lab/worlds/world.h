#pragma once
/// Worlds: pairs of a random graph and a random machine on which the graph can be placed. A world is one
/// graph file, with its machine in meta.machine and its facts in meta.world.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace::lab {

struct WorldOptions {
  std::uint64_t seed = 1;
  bool held_out = false;  ///< Draw only from what is held out (lab/worlds/held_out.h), else never from it.
  std::vector<std::filesystem::path> traces = {};  ///< Traced graphs to draw from, sorted.
  std::int64_t most_ops = 25'000;                  ///< >= 200
};

inline constexpr std::int64_t kLeastWorldOps = 50;

struct World {
  OpGraph graph;  ///< Has the machine in its meta.
  DeviceSet devices;
  std::string family;     ///< "trace" for a traced graph.
  std::string memory;     ///< Name of its MemoryClass.
  std::size_t kinds = 1;  ///< Kinds of devices.
  bool training = false;
  std::string fits;  ///< A method whose placement fits.
};

/// Returns the graph files of a folder that may be drawn, sorted by name. Errors (kInvalid): there are none.
Result<std::vector<std::filesystem::path>> traces_of(const std::filesystem::path& folder, bool held_out);

/// Makes world `number`: a pure function of the arguments and of the content of the traces. Names of ops
/// start with the number, so that no two worlds of a seed have a graph with the same hash. Errors: those of
/// load_graph for a trace. Any thread.
Result<World> make_world(const WorldOptions& options, std::uint32_t number);

}  // namespace emplace::lab
