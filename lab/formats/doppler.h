#pragma once
/// Reads DOPPLER's compute graphs (compute_graph/*.txt of xinyuyao/Doppler).

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Returns whether the first line is one number and the next three are comma-separated numbers.
bool looks_like_doppler(std::span<const std::byte> bytes);

/// Reads such a graph. `where` names the input in errors. Any thread.
///
/// Line 1 is the number of nodes, line 2 the inputs among them (which have no line and are not ops), lines 3
/// and 4 the producers and the readers of the edges. Every further line is a node: COMPUTE,TRANSFER[,KIND]. A
/// node is an op "node::KIND" ("node" without KIND) that takes COMPUTE / 10^10 s on "gpu" and has an output
/// of TRANSFER bytes, as in DOPPLER's simulator, whose links have 10^10 bytes/s. Duplicate edges count once.
///
/// Errors (kInvalid, one line, with its number): a malformed line; lists of different lengths; an unknown
/// node; numbers beyond 10^15; a cycle; those of OpGraphBuilder.
Result<OpGraph> parse_doppler(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
