#pragma once
/// Graphs on disk: "emplace-graph v1" as JSON (.json, .json.gz, .json.zst) or MessagePack (.epg, .msgpack),
/// and formats of other tools. docs/reference/file_formats.md describes the keys.

#include <array>
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
#include "graph/float32.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace {

/// Readable formats, in the order in which they are tried. Those of published data sets may be missing from a
/// build.
enum class GraphFormat : std::uint8_t {
  kPt2,
  kTfGraphdef,  ///< Before ONNX: a SavedModel starts like a model of ONNX's IR version 1.
  kOnnx,
  kPipedream,
  kDnnPartitioning,
  kFx,
  kHlo,
  kDoppler,
  kPiper,
  kEmplace  ///< The last one, and what anything else is read as.
};

/// A format and its reader.
struct FormatReader {
  GraphFormat id;
  std::string_view name;
  bool (*recognise)(std::span<const std::byte> bytes);
  Result<OpGraph> (*parse)(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims);
  /// File name endings, for formats that the content does not identify.
  std::array<std::string_view, 3> endings = {};
};
/// Adds a format. Thread: the main one, before any use of this header.
void add_format(const FormatReader& format);

/// The reader of a format without open dimensions, for a FormatReader.
template <Result<OpGraph> (*parse)(std::span<const std::byte>, std::string_view)>
Result<OpGraph> parse_sized(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims) {
  EMPLACE_TRY(DimUsage{dims}.all_used(where));
  return parse(bytes, where);
}

/// The names of all formats, separated by commas: "onnx", "tf-graphdef", …
std::string format_names();
/// Errors (kInvalid): an unknown name, with the nearest known one; a name that is not in this build.
Result<GraphFormat> parse_format(std::string_view name);
/// Recognises the format of the bytes; uses the file name `where` if the content is ambiguous (.onnx, .pb).
GraphFormat recognise_format(std::span<const std::byte> bytes, std::string_view where);

/// User options for reading a file.
struct ReadOptions {
  std::optional<GraphFormat> format = {};  ///< Format; recognised if not set.
  OpenDims dims = {};
  /// What products and convolutions of float32 use, whatever the file states: meta.float32 of the graph.
  std::optional<Float32> float32 = {};
};

/// Reads any known format, recognised by its first bytes unless `options` specifies it. Errors: kIo if the
/// file cannot be read; kInvalid with file, place (line and column, or op) and cure; sizes for dimensions
/// that the graph does not have. Any thread.
Result<OpGraph> load_graph(const std::filesystem::path& path, const ReadOptions& options = {});

/// Reads a graph from memory. `where` names the input in errors.
Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where,
                            const ReadOptions& options = {});

/// Reads the file and unpacks it if it is compressed. Errors: kIo; kInvalid if it is damaged or unpacks to
/// too much.
Result<Bytes> read_graph_file(const std::filesystem::path& path);

/// Notes for the user about approximations of the reader, a sentence each: meta.notes, and uncounted_note().
std::vector<std::string> graph_notes(const OpGraph& graph);
/// A sentence about uncounted_ops, with their share; empty if there are none.
std::string uncounted_note(const OpGraph& graph);

/// Ops of one kind without a flops rule; their time is estimated from the bytes that they move.
struct UncountedOps {
  std::string type;
  std::size_t ops = 0;
  std::int64_t bytes = 0;  ///< Bytes of inputs and outputs.
  double share = 0;        ///< Share of the bytes that all ops move, 0 to 1.
};
/// The kinds that meta.uncounted lists, sorted by descending bytes.
std::vector<UncountedOps> uncounted_ops(const OpGraph& graph);

/// Writes the format of the file name's ending: .json, .json.gz, .json.zst, .epg or .msgpack. The file
/// appears complete or not at all. Errors: kInvalid for another ending, kIo.
Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path);

/// Returns the content of an .epg file, which parse_graph can read.
std::vector<std::byte> graph_msgpack(const OpGraph& graph);

/// The id of a graph in placements, messages and runs: SHA-256 over the canonical MessagePack of its `ops`
/// (sorted keys, without defaults), equal for all formats of one graph. 64 hex digits.
std::string graph_sha256(const OpGraph& graph);

}  // namespace emplace
