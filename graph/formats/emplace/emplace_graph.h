#pragma once
/// The format "emplace-graph v1", as JSON text and as MessagePack. docs/reference/file_formats.md describes
/// the keys.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Reads JSON or MessagePack op by op, so that peak memory stays near the size of the graph. `where` names
/// the input in errors. Errors (kInvalid): with line (JSON), op and cure. Any thread.
Result<OpGraph> read_emplace_graph(std::span<const std::byte> bytes, std::string_view where);

/// Writes JSON text, one op per line.
std::string write_emplace_json(const OpGraph& graph);
std::vector<std::uint8_t> write_emplace_msgpack(const OpGraph& graph);

/// The `ops` array as MessagePack with sorted keys and without defaults: a canonical form of the graph.
std::vector<std::uint8_t> canonical_ops(const OpGraph& graph);

}  // namespace emplace
