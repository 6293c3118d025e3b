#pragma once
/// Graphs on disk: "emplace-graph v1" as JSON (.json, .json.gz, .json.zst) or MessagePack (.epg, .msgpack),
/// and the formats of others. docs/reference/file_formats.md describes the keys.

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
#include "graph/open_dims.h"

namespace emplace {

/// What can be read. The table in graph_file.cc has their names and readers.
enum class GraphFormat : std::uint8_t {
  kOnnx,
  kTfGraphdef,
  kPipedream,
  kDnnPartitioning,
  kFx,
  kHlo,
  kDoppler,
  kPiper,
  kPt2,
  kEmplace
};
/// "onnx", "tf-graphdef", …; the list of all, with commas.
std::string_view format_name(GraphFormat format);
std::string format_names();
/// Errors (kInvalid): none of them, with the nearest.
Result<GraphFormat> parse_format(std::string_view name);
/// What the bytes are; `where` helps where they do not tell (a name that ends in .onnx or .pb).
GraphFormat recognise_format(std::span<const std::byte> bytes, std::string_view where);

/// What a person says of a file beside its bytes.
struct ReadOptions {
  std::optional<GraphFormat> format = {};  ///< Else recognised.
  OpenDims dims = {};
};

/// Reads any known format; what a file is shows in its first bytes unless `options` says it.
/// Errors: kIo if it cannot be read; kInvalid with file, place (line and column, or op) and cure; sizes given
/// for dimensions that the graph does not have. Any thread.
Result<OpGraph> load_graph(const std::filesystem::path& path, const ReadOptions& options = {});

/// The same from memory. `where` names the input in errors.
Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where,
                            const ReadOptions& options = {});

/// The file as a format's reader wants it: unpacked if it is packed. Errors: kIo; kInvalid if it is damaged
/// or unpacks to too much.
Result<Bytes> read_graph_file(const std::filesystem::path& path);

/// What a reader had to settle by itself and a person should know, a sentence each: meta.notes, and one about
/// the ops of uncounted_ops.
std::vector<std::string> graph_notes(const OpGraph& graph);

/// Ops of one kind for whose work the reader had no rule: their time is that of the bytes they move.
struct UncountedOps {
  std::string type;
  std::size_t ops = 0;
  std::int64_t bytes = 0;  ///< Inputs and outputs.
  double share = 0;        ///< Of the bytes that all ops move, 0 to 1.
};
/// By their bytes, most first: the kinds that meta.uncounted names.
std::vector<UncountedOps> uncounted_ops(const OpGraph& graph);

/// Writes by the name's ending: .json, .json.gz, .json.zst, .epg or .msgpack; complete or not at all.
/// Errors: kInvalid for another ending, kIo.
Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path);

/// As .epg files hold it; parse_graph reads it back.
std::vector<std::byte> graph_msgpack(const OpGraph& graph);

/// What names a graph in placements, messages and runs: SHA-256 over the canonical MessagePack of its `ops`
/// (sorted keys, defaults left out), so that every format of one graph agrees. 64 hex digits.
std::string graph_sha256(const OpGraph& graph);

}  // namespace emplace
