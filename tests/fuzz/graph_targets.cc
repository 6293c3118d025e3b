#include "graph/formats/emplace/emplace_graph.h"
#include "graph/formats/graph_file.h"
#include "graph/training/training_graph.h"
#include "tests/fuzz/targets.h"

namespace emplace::fuzz {
namespace {

/// Checks that an accepted graph is the same in both formats.
void check_graph(const Result<OpGraph>& graph) {
  if (!graph) {
    EMPLACE_CHECK(!graph.error().context.empty() && graph.error().context.find('\n') == std::string::npos,
                  "an error is one line");
    return;
  }
  const std::string name = graph_sha256(*graph);
  const std::string json = write_emplace_json(*graph);
  const auto from_json = read_emplace_graph(std::as_bytes(std::span{json.data(), json.size()}), "again.json");
  EMPLACE_CHECK(from_json.ok(), from_json.error().context);
  EMPLACE_CHECK(graph_sha256(*from_json) == name, "a graph changes by JSON");
  const auto packed = write_emplace_msgpack(*graph);
  const auto from_msgpack = read_emplace_graph(std::as_bytes(std::span{packed}), "again.epg");
  EMPLACE_CHECK(from_msgpack.ok(), from_msgpack.error().context);
  EMPLACE_CHECK(graph_sha256(*from_msgpack) == name, "a graph changes by MessagePack");
}

}  // namespace

void check_format(Input bytes, GraphFormat format) {
  ReadOptions options{.format = format, .dims = {}};
  check_graph(parse_graph(bytes, "input", options));
  options.dims.batch = 2;
  check_graph(parse_graph(bytes, "input", options));
}

void graph_json(Input bytes) { check_graph(read_emplace_graph(bytes, "input.json")); }
void graph_msgpack(Input bytes) { check_graph(read_emplace_graph(bytes, "input.epg")); }
void foreign_graph(Input bytes) { check_graph(parse_graph(bytes, "input")); }
void onnx(Input bytes) {
  check_format(bytes, GraphFormat::kOnnx);
  const auto graph = parse_graph(bytes, "input", {.format = GraphFormat::kOnnx});
  if (graph.ok()) check_graph(training_graph(*graph, models::Optimizer::kAdam));
}
void tf_graphdef(Input bytes) { check_format(bytes, GraphFormat::kTfGraphdef); }
void fx(Input bytes) { check_format(bytes, GraphFormat::kFx); }
void hlo(Input bytes) { check_format(bytes, GraphFormat::kHlo); }
void pt2(Input bytes) { check_format(bytes, GraphFormat::kPt2); }

}  // namespace emplace::fuzz
