#pragma once
/// Reads Piper's profiled networks (inputs/*.json of msr-fiddle/piper).

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Returns whether the bytes are a JSON object that contains "TMPCs".
bool looks_like_piper(std::span<const std::byte> bytes);

/// Reads such a network. `where` names the input in errors. Any thread.
///
/// A node is an op "node" named NAME#ID. It uses the variant without tensor parallelism and without
/// recomputation ("vanilla" of degree 1; else the first of degree 1): timePerSample [ms] on "gpu", forward
/// and backward together; param_bytes = memoryUsageA + memoryUsageB, the memory of one sample in flight and
/// the weights. It has one output for each size that its edges carry [bytes]. The machine is in meta.piper;
/// meta.notes counts the variants that were left out. Ops are in topological order.
///
/// Errors (kInvalid, one line, with the node or edge): keys that are missing or not numbers from 0 to 10^15;
/// a duplicate or unknown id; a node without a variant of degree 1; a cycle; those of OpGraphBuilder.
Result<OpGraph> parse_piper(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
