#pragma once
/// Graphs on disk: "emplace-graph v1" as JSON (.json, .json.gz, .json.zst) or MessagePack (.epg, .msgpack),
/// and the formats of others. docs/file_formats.md describes the keys.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// What can be read. The table in graph_file.cc has their names and readers.
enum class GraphFormat : std::uint8_t { kOnnx, kTfGraphdef, kPipedream, kDnnPartitioning, kEmplace };
/// "onnx", "tf-graphdef", …; the list of all, with commas.
std::string_view format_name(GraphFormat format);
std::string format_names();
/// Errors (kInvalid): none of them, with the nearest.
Result<GraphFormat> parse_format(std::string_view name);
/// What the bytes are; `where` helps where they do not tell (a name that ends in .onnx or .pb).
GraphFormat recognise_format(std::span<const std::byte> bytes, std::string_view where);

/// Reads any known format; what a file is shows in its first bytes unless `format` says it.
/// Errors: kIo if it cannot be read; kInvalid with file, place (line and column, or op) and cure. Any thread.
Result<OpGraph> load_graph(const std::filesystem::path& path, std::optional<GraphFormat> format = {});

/// The same from memory. `where` names the input in errors.
Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where,
                            std::optional<GraphFormat> format = {});

/// The file as a format's reader wants it: unpacked if it is packed. Errors: kIo; kInvalid if it is damaged
/// or unpacks to too much.
Result<Bytes> read_graph_file(const std::filesystem::path& path);

/// What a reader had to settle by itself and a person should know, a sentence each: meta.notes.
std::vector<std::string> graph_notes(const OpGraph& graph);

/// Writes by the name's ending: .json, .json.gz, .json.zst, .epg or .msgpack; complete or not at all.
/// Errors: kInvalid for another ending, kIo.
Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path);

/// As .epg files hold it; parse_graph reads it back.
std::vector<std::byte> graph_msgpack(const OpGraph& graph);

/// What names a graph in placements, messages and runs: SHA-256 over the canonical MessagePack of its `ops`
/// (sorted keys, defaults left out), so that every format of one graph agrees. 64 hex digits.
std::string graph_sha256(const OpGraph& graph);

}  // namespace emplace
