#pragma once
/// Graphs on disk: "emplace-graph v1" as JSON (.json, .json.gz, .json.zst) or MessagePack (.epg, .msgpack),
/// ONNX, and the workloads of dnn-partitioning. docs/file_formats.md describes the keys.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Reads any known format; what a file is shows in its first bytes, not in its name.
/// Errors: kIo if it cannot be read; kInvalid with file, place (line and column, or op) and cure. Any thread.
Result<OpGraph> load_graph(const std::filesystem::path& path);

/// The same from memory. `where` names the input in errors.
Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where);

/// Writes by the name's ending: .json, .json.gz, .json.zst, .epg or .msgpack; complete or not at all.
/// Errors: kInvalid for another ending, kIo.
Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path);

/// As .epg files hold it; parse_graph reads it back.
std::vector<std::byte> graph_msgpack(const OpGraph& graph);

/// What names a graph in placements, messages and runs: SHA-256 over the canonical MessagePack of its `ops`
/// (sorted keys, defaults left out), so that every format of one graph agrees. 64 hex digits.
std::string graph_sha256(const OpGraph& graph);

}  // namespace emplace
