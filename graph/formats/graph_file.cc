#include "graph/formats/graph_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/lab_words.h"
#include "base/text/words.h"
#include "graph/arithmetic.h"
#include "graph/formats/emplace/emplace_graph.h"
#include "graph/formats/hlo/hlo.h"
#include "graph/formats/onnx/onnx.h"
#include "graph/formats/partitioning/dnn_partitioning.h"
#include "graph/formats/tensorflow/tf_graphdef.h"
#include "graph/formats/torch/fx.h"
#include "graph/formats/torch/pt2.h"

namespace emplace {
namespace {

/// Limit on the unpacked size of a file of `packed` bytes: graphs compress 15 to 25 times, zip bombs a
/// thousand times.
std::size_t unpacked_limit(std::size_t packed) {
  constexpr std::size_t kAlways = std::size_t{64} << 20, kNever = std::size_t{1} << 30, kRatio = 200;
  return std::clamp(std::min(packed, kNever) * kRatio, kAlways, kNever);
}

/// All formats, sorted by their ids.
std::vector<FormatReader>& formats() {
  static std::vector<FormatReader> all{
      {GraphFormat::kPt2, "pt2", looks_like_pt2, parse_pt2, {".pt2"}},
      {GraphFormat::kTfGraphdef,
       "tf-graphdef",
       looks_like_tf_graphdef,
       parse_tf_graphdef,
       {".pb", ".pbtxt", ".meta"}},
      {GraphFormat::kOnnx, "onnx", looks_like_onnx, parse_onnx, {".onnx"}},
      {GraphFormat::kDnnPartitioning, "dnn-partitioning", looks_like_dnn_partitioning,
       parse_sized<parse_dnn_partitioning>},
      {GraphFormat::kFx, "fx", looks_like_fx, parse_fx},
      {GraphFormat::kHlo, "hlo", looks_like_hlo, parse_sized<parse_hlo>},
      {GraphFormat::kEmplace, "emplace", [](auto) { return true; }, parse_sized<read_emplace_graph>},
  };
  return all;
}

const FormatReader& format_of(GraphFormat id) {
  const auto& all = formats();
  return *std::find_if(all.begin(), all.end() - 1, [&](const FormatReader& one) { return one.id == id; });
}

/// The strings of the list `key` in the graph's meta.
std::vector<std::string> meta_texts(const OpGraph& graph, const char* key) {
  std::vector<std::string> texts;
  const auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object() || !meta.contains(key) || !meta[key].is_array()) return texts;
  for (const auto& text : meta[key])
    if (text.is_string()) texts.push_back(text.get<std::string>());
  return texts;
}

/// The graph with this arithmetic in its metadata, where all that is made of it finds it: records, copies in
/// another order, executor processes.
OpGraph with_float32(OpGraph graph, Float32 use) {
  auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object()) meta = nlohmann::json::object();
  meta["float32"] = {{"products", word_of(use)}, {"convolutions", word_of(use)}};
  return std::move(graph).with_meta_json(meta.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

bool is_json_or_msgpack(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return true;
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos) return false;
  return text[at] == '{' || (static_cast<unsigned char>(text[at]) & 0xf0) == 0x80 || text[at] == '\xde' ||
         text[at] == '\xdf';
}

/// What a file without a readable graph is, and how to get one.
Error unknown_format(std::string_view text, std::string_view where) {
  constexpr std::string_view kExport = "export the model: torch.export.save or torch.onnx.export";
  const std::string_view head = text.substr(0, 4096);
  const auto has = [&](std::string_view word) { return head.find(word) != std::string_view::npos; };
  if (text.starts_with("ML\xEFR") || has("stablehlo.") || has("mhlo.") || has("func.func"))
    return invalid(where, "is an MLIR module (StableHLO), not HLO text",
                   "write jax.jit(f).lower(…).as_text(\"hlo\"), or .compile().as_text()");
  if (text.starts_with("GGUF")) return invalid(where, "is a GGUF file: weights without a graph", kExport);
  if (text.size() > 9 && text[8] == '{' &&
      text.substr(1, 7).find_first_not_of('\0', 3) == std::string_view::npos)
    return invalid(where, "is a safetensors file: weights without a graph", kExport);
  if (where.ends_with(".onnx.data") || where.ends_with(".onnx_data"))
    return invalid(where, "is the data of an ONNX model", "read the .onnx file beside it");
  if (where.ends_with(".py"))
    return invalid(where, "is a Python program",
                   std::string{kExport} + ", or trace it with em.trace (docs/guide/python.md)");
  return invalid(where, "is not a known format: expected one of " + format_names() +
                            " (docs/reference/file_formats.md)");
}

/// Formats 0.0314 as "3.1 %".
std::string percent(double share) {
  const auto tenths = std::llround(share * 1000);
  return fmt::format("{}.{} %", tenths / 10, tenths % 10);
}

}  // namespace

void add_format(const FormatReader& format) {
  const auto after = std::find_if(formats().begin(), formats().end(),
                                  [&](const FormatReader& one) { return one.id > format.id; });
  formats().insert(after, format);
}

std::string format_names() {
  std::string text;
  for (const FormatReader& one : formats()) text.append(text.empty() ? "" : ", ").append(one.name);
  return text;
}

Result<GraphFormat> parse_format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const FormatReader& one : formats()) {
    if (one.name == name) return one.id;
    names.push_back(one.name);
  }
  const std::string where = "format '" + printable(name, 40) + "'";
  if (const auto missing = not_in_this_build(LabWord::kFormat, where, name)) return *missing;
  const std::string_view near = nearest_word(name, names);
  return invalid(where, "is unknown: expected one of " + format_names(),
                 near.empty() ? std::string{} : "did you mean '" + std::string{near} + "'?");
}

GraphFormat recognise_format(std::span<const std::byte> bytes, std::string_view where) {
  for (const std::string_view packed : {".gz", ".zst"})
    if (where.ends_with(packed)) where.remove_suffix(packed.size());
  for (const FormatReader& one : formats()) {
    const auto ends = [&](std::string_view ending) { return !ending.empty() && where.ends_with(ending); };
    if (one.recognise(bytes) || std::any_of(one.endings.begin(), one.endings.end(), ends)) return one.id;
  }
  return GraphFormat::kEmplace;
}

Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where,
                            const ReadOptions& options) {
  if (bytes.empty()) return invalid(where, "is empty");
  if (!options.format && recognise_format(bytes, where) == GraphFormat::kEmplace &&
      !is_json_or_msgpack(text_of(bytes)))
    return unknown_format(text_of(bytes), where);
  const FormatReader& format = format_of(options.format.value_or(recognise_format(bytes, where)));
  auto graph = format.parse(bytes, where, options.dims);
  if (!graph || !options.float32) return graph;
  return with_float32(*std::move(graph), *options.float32);
}

Result<Bytes> read_graph_file(const std::filesystem::path& path) {
  EMPLACE_TRY_ASSIGN(auto packed, read_file(path));
  const std::size_t limit = unpacked_limit(packed.size());
  return decompress(std::move(packed), printable_path(path), limit);
}

Result<OpGraph> load_graph(const std::filesystem::path& path, const ReadOptions& options) {
  EMPLACE_TRY_ASSIGN(const auto bytes, read_graph_file(path));
  return parse_graph(bytes, printable_path(path), options);
}

std::vector<std::string> graph_notes(const OpGraph& graph) {
  std::vector<std::string> notes = meta_texts(graph, "notes");
  if (std::string note = uncounted_note(graph); !note.empty()) notes.push_back(std::move(note));
  return notes;
}

std::string uncounted_note(const OpGraph& graph) {
  constexpr std::size_t kNamed = 8;
  const std::vector<UncountedOps> uncounted = uncounted_ops(graph);
  if (uncounted.empty()) return {};
  std::string kinds;
  double share = 0;
  for (std::size_t k = 0; k < uncounted.size(); ++k) {
    share += uncounted[k].share;
    if (k < kNamed)
      kinds += fmt::format("{}{} ({}, {})", k == 0 ? "" : ", ", printable(uncounted[k].type, 60),
                           uncounted[k].ops, percent(uncounted[k].share));
  }
  if (uncounted.size() > kNamed) kinds += fmt::format(" and {} more kinds", uncounted.size() - kNamed);
  return "ops of unknown work: " + kinds + "; their time is estimated from the bytes they move, " +
         percent(share) + " of all";
}

std::vector<UncountedOps> uncounted_ops(const OpGraph& graph) {
  const std::vector<std::string> types = meta_texts(graph, "uncounted");
  std::vector<UncountedOps> found;
  if (types.empty()) return found;
  double all = 0;
  std::vector<std::size_t> row(graph.num_types(), types.size());
  for (std::uint32_t t = 0; t < row.size(); ++t)
    row[t] = static_cast<std::size_t>(
        std::find(types.begin(), types.end(), graph.type_name(TypeId{static_cast<std::uint16_t>(t)})) -
        types.begin());
  for (const std::string& type : types) found.push_back({type, 0, 0, 0});
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.is_state(op) || graph.is_view(op)) continue;
    double bytes = 0;
    for (const TensorId tensor : graph.inputs(op)) bytes += static_cast<double>(graph.bytes(tensor));
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
      bytes += static_cast<double>(graph.bytes(graph.output(op, k)));
    all += bytes;
    if (row[index(graph.type(op))] == types.size()) continue;
    UncountedOps& one = found[row[index(graph.type(op))]];
    ++one.ops;
    one.share += bytes;
  }
  for (UncountedOps& one : found) {
    one.bytes = static_cast<std::int64_t>(std::min(one.share, 9e18));
    one.share = all > 0 ? one.share / all : 0;
  }
  std::erase_if(found, [](const UncountedOps& one) { return one.ops == 0; });
  std::stable_sort(found.begin(), found.end(),
                   [](const UncountedOps& a, const UncountedOps& b) { return a.bytes > b.bytes; });
  return found;
}

Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto as_bytes = [](const auto& data) { return std::as_bytes(std::span{data.data(), data.size()}); };
  if (name.ends_with(".json")) return write_file(path, write_emplace_json(graph));
  if (name.ends_with(".json.gz")) return write_file(path, compress_gzip(as_bytes(write_emplace_json(graph))));
  if (name.ends_with(".json.zst"))
    return write_file(path, compress_zstd(as_bytes(write_emplace_json(graph))));
  if (name.ends_with(".epg") || name.ends_with(".msgpack")) return write_file(path, graph_msgpack(graph));
  return invalid(printable(name), "has an unknown file extension",
                 "use .json, .json.gz, .json.zst, .epg or .msgpack");
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
