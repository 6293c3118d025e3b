#pragma once
/// Piper's profiled networks (inputs/*.json of msr-fiddle/piper).

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// True for a JSON object with "TMPCs" in it.
bool looks_like_piper(std::span<const std::byte> bytes);

/// Reads such a network. `where` names the input in errors. Any thread.
///
/// A node is an op "node" with its name and id as NAME#ID, of the variant without tensor parallelism and
/// without recomputation (the one called "vanilla" of degree 1; else the first of degree 1): timePerSample
/// [ms] on "gpu", forward and backward together; memoryUsageA + memoryUsageB, what one sample in flight and
/// the weights hold, as param_bytes. It has an output for each size that its edges carry [bytes]. The machine
/// stands in meta.piper, and meta.notes tells which variants were left out. Ops come in a topological order.
///
/// Errors (kInvalid, one line, with the node or edge): keys that are missing or no numbers from 0 to 10^15;
/// an id twice or that there is not; a node without a variant of degree 1; a circle of edges; those of
/// OpGraphBuilder.
Result<OpGraph> parse_piper(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
