#pragma once
/// PipeDream's profiles (graph.txt) as graphs: measured layers, forward and backward.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// True if the first line that is not empty is a layer's: `NAME -- WHAT -- forward_compute_time=…`.
bool looks_like_pipedream(std::span<const std::byte> bytes);

/// Reads a profile. `where` names the input in errors. Any thread.
///
/// A layer becomes an op `layer::KIND` of its forward time on "gpu" [µs], its activation's bytes as output
/// and its parameters' as param_bytes, and an op NAME/grad of its backward time that reads the layer and the
/// gradients of its readers; the gradient is as large as the layer's largest input. `attrs.text` is the layer
/// as the profile writes it. Ops come in a topological order, the earlier line first, forward before
/// backward.
///
/// Errors (kInvalid, one line, with its number): a line that is neither layer nor edge; a layer twice; a
/// number that is missing, negative or too large; an edge of a layer that there is not; those of
/// OpGraphBuilder, a cycle among them.
Result<OpGraph> parse_pipedream(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
