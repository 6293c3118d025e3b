#pragma once
/// Families of random graphs that cover what placers meet: networks of the papers and of today, and random
/// graphs. Sizes, depth and wiring are random; the number of ops is near a wanted one.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/rng.h"
#include "graph/models/networks.h"
#include "graph/op_graph.h"

namespace emplace::models {

/// What of a graph is not left to chance.
struct DrawnStep {
  std::int64_t depth = 1;  ///< Layers, blocks or time steps, >= 1: the number of ops grows linearly with it.
  bool training = true;    ///< False: the forward pass alone.
};

struct WorldFamily {
  std::string_view name;     ///< Name on the command line and in the list of held-out families.
  std::string_view summary;  ///< Description in one line.
  /// Draws a graph: a pure function of the state of `rng` and of `step`. Equal states with another depth give
  /// the same network, deeper or flatter.
  Result<OpGraph> (*draw)(Rng rng, DrawnStep step, Identity identity);
  std::int64_t most_depth = 400;
  bool has_forward = true;  ///< Whether there is a forward pass alone.
};
std::span<const WorldFamily> world_families();

/// What is wanted of a graph of a family.
struct WantedGraph {
  std::int64_t ops = 500;  ///< The graph has about as many; some networks have a least or greatest size.
  bool training = true;
};

/// Draws a graph of the family with the depth that comes nearest to the wanted number of ops. A pure function
/// of its arguments. Errors: those of OpGraphBuilder::build; none in practice. Any thread.
Result<OpGraph> world_graph(const WorldFamily& family, const Rng& rng, const WantedGraph& wanted,
                            const Identity& identity);

// The families by file; world_families() joins them.
std::span<const WorldFamily> recorded_families();     ///< Networks of the papers.
std::span<const WorldFamily> image_families();        ///< Convolutional networks of today.
std::span<const WorldFamily> transformer_families();  ///< Transformers.
std::span<const WorldFamily> graph_families();        ///< Graph networks, recommenders, random graphs.

}  // namespace emplace::models
