#include <nlohmann/json.hpp>
#include <unordered_map>

#include "graph/formats/emplace/emplace_graph.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr auto kReplaceBadUtf8 = json::error_handler_t::replace;

/// The ops of one graph in the file's form. Default values are omitted, except for keys that every op has.
/// Attributes are parsed once per distinct text.
class OpDocuments {
 public:
  explicit OpDocuments(const OpGraph& graph) : graph_{graph} {}

  json operator()(OpId op) {
    json inputs = json::array(), outputs = json::array();
    for (const TensorId tensor : graph_.inputs(op)) {
      const OpId producer = graph_.producer(tensor);
      inputs.push_back({index(producer), index(tensor) - index(graph_.first_output(producer))});
    }
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
      const TensorId tensor = graph_.output(op, k);
      const auto shape = graph_.shape(tensor);
      outputs.push_back({{"dtype", dtype_name(graph_.dtype(tensor))},
                         {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
    }
    json document{{"id", index(op)},
                  {"name", graph_.name(op)},
                  {"type", graph_.type_name(op)},
                  {"inputs", std::move(inputs)},
                  {"outputs", std::move(outputs)},
                  {"attrs", attributes(op)},
                  {"flops", graph_.flops(op)},
                  {"param_bytes", graph_.param_bytes(op)},
                  {"phase", phase_name(graph_.phase(op))}};
    if (graph_.group(op) != 0) document["group"] = graph_.group_name(op);
    if (graph_.colocated_with(op) != kNoOp) document["colocate"] = index(graph_.colocated_with(op));
    for (std::size_t c = 0; c < graph_.measured_classes().size(); ++c) {
      const double us = graph_.measured_us(op, c);
      if (us == us) document["measured_us"][graph_.measured_classes()[c]] = us;
    }
    if (graph_.has_allowed_devices(op)) {
      const auto devices = graph_.allowed_devices(op);
      document["devices"] = std::vector<std::string>(devices.begin(), devices.end());
    }
    for (const TensorId result : graph_.results(op))
      document["results"].push_back(index(result) - index(graph_.first_output(op)));
    return document;
  }

 private:
  /// The attributes, including values that the graph stores in fields of its own.
  json attributes(OpId op) {
    const std::string_view text = graph_.attrs_json(op);
    const auto [it, fresh] = parsed_.try_emplace(text.data());
    if (fresh) it->second = json::parse(text);
    json attrs = it->second;
    if (graph_.is_view(op)) attrs["view"] = true;
    if (graph_.conv_groups(op) != 1) attrs["groups"] = graph_.conv_groups(op);
    return attrs;
  }

  const OpGraph& graph_;
  // Keyed by address: the graph stores each distinct text once.
  std::unordered_map<const char*, json> parsed_;
};

json head_document(const OpGraph& graph) {
  return {{"format", "emplace-graph v1"},
          {"name", graph.name()},
          {"source", graph.source()},
          {"meta", json::parse(graph.meta_json())}};
}

void append_ops(const OpGraph& graph, std::vector<std::uint8_t>& bytes) {
  const std::size_t n = graph.num_ops();
  const auto put = [&](std::size_t byte) { bytes.push_back(static_cast<std::uint8_t>(byte)); };
  if (n < 16) {
    put(0x90 | n);
  } else {  // Length in 16 or 32 bits, big-endian.
    put(n < 65'536 ? 0xdc : 0xdd);
    for (int shift = n < 65'536 ? 8 : 24; shift >= 0; shift -= 8) put(n >> shift & 0xff);
  }
  OpDocuments documents{graph};
  for (std::uint32_t i = 0; i < n; ++i) json::to_msgpack(documents(OpId{i}), bytes);
}

}  // namespace

std::string write_emplace_json(const OpGraph& graph) {
  std::string text = head_document(graph).dump(-1, ' ', false, kReplaceBadUtf8);
  text.back() = ',';
  text += "\n\"ops\": [\n";
  OpDocuments documents{graph};
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    text += documents(OpId{i}).dump(-1, ' ', false, kReplaceBadUtf8);
    text += i + 1 == graph.num_ops() ? "\n" : ",\n";
  }
  return text + "]}\n";
}

std::vector<std::uint8_t> write_emplace_msgpack(const OpGraph& graph) {
  std::vector<std::uint8_t> bytes = json::to_msgpack(head_document(graph));
  ++bytes.front();  // Add one entry to the map: its size is in the low bits of the first byte.
  json::to_msgpack("ops", bytes);
  append_ops(graph, bytes);
  return bytes;
}

std::vector<std::uint8_t> canonical_ops(const OpGraph& graph) {
  std::vector<std::uint8_t> bytes;
  append_ops(graph, bytes);
  return bytes;
}

}  // namespace emplace
