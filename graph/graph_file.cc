#include "graph/graph_file.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text/words.h"
#include "graph/formats/dnn_partitioning.h"
#include "graph/formats/emplace_graph.h"
#include "graph/formats/onnx.h"
#include "graph/formats/pipedream.h"
#include "graph/formats/tf_graphdef.h"

namespace emplace {
namespace {

/// What a file of `packed` bytes may unpack to: graphs shrink 15 to 25 times, a bomb a thousand times.
std::size_t unpacked_limit(std::size_t packed) {
  constexpr std::size_t kAlways = std::size_t{64} << 20, kNever = std::size_t{1} << 30, kRatio = 200;
  return std::clamp(std::min(packed, kNever) * kRatio, kAlways, kNever);
}

struct Format {
  GraphFormat id;
  std::string_view name;
  bool (*recognise)(std::span<const std::byte> bytes);
  Result<OpGraph> (*parse)(std::span<const std::byte> bytes, std::string_view where);
  std::array<std::string_view, 2> endings;  ///< Of names, where the content does not tell.
};

/// In the order in which they are asked; the last takes what no other wants.
constexpr Format kFormats[]{
    {GraphFormat::kOnnx, "onnx", looks_like_onnx, parse_onnx, {".onnx"}},
    {GraphFormat::kTfGraphdef, "tf-graphdef", looks_like_tf_graphdef, parse_tf_graphdef, {".pb", ".pbtxt"}},
    {GraphFormat::kPipedream, "pipedream", looks_like_pipedream, parse_pipedream, {}},
    {GraphFormat::kDnnPartitioning,
     "dnn-partitioning",
     looks_like_dnn_partitioning,
     parse_dnn_partitioning,
     {}},
    {GraphFormat::kEmplace, "emplace", [](auto) { return true; }, read_emplace_graph, {}},
};

const Format& format_of(GraphFormat id) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats) - 1,
                       [&](const Format& one) { return one.id == id; });
}

}  // namespace

std::string_view format_name(GraphFormat format) { return format_of(format).name; }

std::string format_names() {
  std::string text;
  for (const Format& one : kFormats) text.append(text.empty() ? "" : ", ").append(one.name);
  return text;
}

Result<GraphFormat> parse_format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Format& one : kFormats) {
    if (one.name == name) return one.id;
    names.push_back(one.name);
  }
  const std::string_view near = nearest_word(name, names);
  return invalid("format '" + printable(name, 40) + "'", "is none of " + format_names(),
                 near.empty() ? std::string{} : "did you mean '" + std::string{near} + "'?");
}

GraphFormat recognise_format(std::span<const std::byte> bytes, std::string_view where) {
  for (const std::string_view packed : {".gz", ".zst"})
    if (where.ends_with(packed)) where.remove_suffix(packed.size());
  for (const Format& one : kFormats) {
    const auto ends = [&](std::string_view ending) { return !ending.empty() && where.ends_with(ending); };
    if (one.recognise(bytes) || std::any_of(one.endings.begin(), one.endings.end(), ends)) return one.id;
  }
  return GraphFormat::kEmplace;
}

Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where,
                            std::optional<GraphFormat> format) {
  if (bytes.empty()) return invalid(where, "is empty");
  return format_of(format.value_or(recognise_format(bytes, where))).parse(bytes, where);
}

Result<Bytes> read_graph_file(const std::filesystem::path& path) {
  auto packed = read_file(path);
  if (!packed) return packed.error();
  const std::size_t limit = unpacked_limit(packed->size());
  return decompress(*std::move(packed), printable(path.string()), limit);
}

Result<OpGraph> load_graph(const std::filesystem::path& path, std::optional<GraphFormat> format) {
  const auto bytes = read_graph_file(path);
  if (!bytes) return bytes.error();
  return parse_graph(*bytes, printable(path.string()), format);
}

std::vector<std::string> graph_notes(const OpGraph& graph) {
  std::vector<std::string> notes;
  const auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object() || !meta.contains("notes") || !meta["notes"].is_array()) return notes;
  for (const auto& note : meta["notes"])
    if (note.is_string()) notes.push_back(note.get<std::string>());
  return notes;
}

Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto as_bytes = [](const auto& data) { return std::as_bytes(std::span{data.data(), data.size()}); };
  if (name.ends_with(".json")) return write_file(path, write_emplace_json(graph));
  if (name.ends_with(".json.gz")) return write_file(path, compress_gzip(as_bytes(write_emplace_json(graph))));
  if (name.ends_with(".json.zst"))
    return write_file(path, compress_zstd(as_bytes(write_emplace_json(graph))));
  if (name.ends_with(".epg") || name.ends_with(".msgpack")) return write_file(path, graph_msgpack(graph));
  return invalid(printable(name), "has no known ending", "use .json, .json.gz, .json.zst, .epg or .msgpack");
}

std::vector<std::byte> graph_msgpack(const OpGraph& graph) {
  const auto packed = write_emplace_msgpack(graph);
  const auto bytes = std::as_bytes(std::span{packed.data(), packed.size()});
  return {bytes.begin(), bytes.end()};
}

std::string graph_sha256(const OpGraph& graph) {
  const std::vector<std::uint8_t> ops = canonical_ops(graph);
  return sha256_hex(std::as_bytes(std::span{ops}));
}

}  // namespace emplace
