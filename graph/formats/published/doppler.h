#pragma once
/// DOPPLER's compute graphs (compute_graph/*.txt of xinyuyao/Doppler).

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// True if the first line is one number and the next three are lists of numbers with commas.
bool looks_like_doppler(std::span<const std::byte> bytes);

/// Reads such a graph. `where` names the input in errors. Any thread.
///
/// Line 1 is the number of nodes, line 2 the inputs among them (which have no line and are no ops), line 3
/// and 4 the producers and the readers of the edges, and every further line a node: COMPUTE,TRANSFER[,KIND].
/// A node is an op "node::KIND" ("node" without one) that takes COMPUTE / 10^10 s on "gpu" and gives TRANSFER
/// bytes, as DOPPLER's own simulator has it, whose links carry 10^10 bytes/s. An edge twice counts once.
///
/// Errors (kInvalid, one line, with its number): what is no such line; lists of unlike lengths; a node that
/// there is not; numbers beyond 10^15; a circle of edges; those of OpGraphBuilder.
Result<OpGraph> parse_doppler(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
