#pragma once
/// Reads PipeDream's profiles (graph.txt): measured layers, forward and backward.

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Returns whether the first non-empty line is a layer: `NAME -- WHAT -- forward_compute_time=…`.
bool looks_like_pipedream(std::span<const std::byte> bytes);

/// Reads a profile. `where` names the input in errors. Any thread.
///
/// A layer becomes two ops. `layer::KIND` takes the forward time on "gpu" [µs]; its output has the
/// activation's bytes, its param_bytes are the parameters. NAME/grad takes the backward time; it reads the
/// layer and the gradients of the layer's readers, and its output is as large as the layer's largest input.
/// `attrs.text` is the layer's text in the profile. Ops are in topological order, by line, forward before
/// backward.
///
/// Errors (kInvalid, one line, with its number): a line that is neither layer nor edge; a duplicate layer; a
/// number that is missing, negative or too large; an edge with an unknown layer; those of OpGraphBuilder,
/// such as a cycle.
Result<OpGraph> parse_pipedream(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace
