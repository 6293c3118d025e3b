#include "graph/graph_file.h"

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "graph/formats/dnn_partitioning.h"
#include "graph/formats/emplace_graph.h"
#include "graph/formats/onnx.h"

namespace emplace {
namespace {

/// What a file of `packed` bytes may unpack to: graphs shrink 15 to 25 times, a bomb a thousand times.
std::size_t unpacked_limit(std::size_t packed) {
  constexpr std::size_t kAlways = std::size_t{64} << 20, kNever = std::size_t{1} << 30, kRatio = 200;
  return std::clamp(std::min(packed, kNever) * kRatio, kAlways, kNever);
}

}  // namespace

Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.empty()) return invalid(where, "is empty");
  if (looks_like_onnx(bytes) || where.ends_with(".onnx")) return parse_onnx(bytes, where);
  if (looks_like_dnn_partitioning(bytes)) return parse_dnn_partitioning(bytes, where);
  return read_emplace_graph(bytes, where);
}

Result<OpGraph> load_graph(const std::filesystem::path& path) {
  auto packed = read_file(path);
  if (!packed) return packed.error();
  const std::string where = printable(path.string());
  const std::size_t limit = unpacked_limit(packed->size());
  auto bytes = decompress(*std::move(packed), where, limit);
  if (!bytes) return bytes.error();
  return parse_graph(*bytes, where);
}

Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto as_bytes = [](const auto& data) { return std::as_bytes(std::span{data.data(), data.size()}); };
  if (name.ends_with(".json")) return write_file(path, write_emplace_json(graph));
  if (name.ends_with(".json.gz")) return write_file(path, compress_gzip(as_bytes(write_emplace_json(graph))));
  if (name.ends_with(".json.zst"))
    return write_file(path, compress_zstd(as_bytes(write_emplace_json(graph))));
  if (name.ends_with(".epg") || name.ends_with(".msgpack"))
    return write_file(path, graph_msgpack(graph));
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
