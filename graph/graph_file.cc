#include "graph/graph_file.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;
constexpr std::string_view kFormat = "emplace-graph v1";

/// Builds the document, refusing depth that would exhaust the stack, and keeps the first error's text.
class GuardedDocument : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  explicit GuardedDocument(json& document) : json_sax_dom_parser(document, /*allow_exceptions=*/false) {}
  bool start_object(std::size_t size) { return enter() && json_sax_dom_parser::start_object(size); }
  bool end_object() { return --depth_, json_sax_dom_parser::end_object(); }
  bool start_array(std::size_t size) { return enter() && json_sax_dom_parser::start_array(size); }
  bool end_array() { return --depth_, json_sax_dom_parser::end_array(); }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& error) {
    const std::string_view text = error.what();  // "[json.exception.parse_error.101] parse error at line 1, …"
    const std::size_t skip = text.find("] ");
    failure_ = printable(skip == std::string_view::npos ? text : text.substr(skip + 2), 160);
    return false;
  }
  const std::string& failure() const { return failure_; }

 private:
  bool enter() {
    if (++depth_ <= kMaxDepth) return true;
    failure_ = "is nested deeper than " + std::to_string(kMaxDepth) + " levels";
    return false;
  }
  std::size_t depth_ = 0;
  std::string failure_;
};

Result<json> parse_document(std::span<const std::byte> bytes, std::string_view where) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const bool text = first[0] == '{' || first[0] == ' ' || first[0] == '\n' || first[0] == '\t' || first[0] == '\r';
  json document;
  GuardedDocument sax{document};
  try {
    const bool parsed = json::sax_parse(first, first + bytes.size(), &sax, text ? json::input_format_t::json : json::input_format_t::msgpack);
    if (parsed) return document;
  } catch (const json::exception& error) {
    return invalid(where, "is damaged: " + printable(error.what(), 160));
  }
  return invalid(where, text ? "is not JSON: " + sax.failure() : "is neither JSON, MessagePack nor ONNX: " + sax.failure());
}

/// Reads one op; the first thing that is wrong stays as the error.
class OpReader {
 public:
  OpReader(const json& op, std::size_t id, std::string_view where) : op_{op}, id_{id}, where_{where} {}

  Result<OpSpec> read() {
    if (!op_.is_object()) return fail("is not an object");
    OpSpec spec;
    name_ = string("name", true);
    spec.name = name_;
    const std::int64_t id = integer("id", -1);
    if (!error_.empty()) return fail(error_);
    if (id != static_cast<std::int64_t>(id_)) {
      return fail(id < static_cast<std::int64_t>(id_) && id >= 0 ? "has the id " + std::to_string(id) + " of an earlier op"
                                                                 : "has the id " + std::to_string(id),
                  "ids must be 0, 1, 2, … in order");
    }
    spec.type = string("type", true);
    spec.flops = integer("flops", 0);
    spec.param_bytes = integer("param_bytes", 0);
    spec.group = string("group", false);
    read_inputs(spec);
    read_outputs(spec);
    read_attrs(spec);
    if (const std::string phase = string("phase", false); !phase.empty()) {
      const auto parsed = parse_phase(phase);
      if (parsed) {
        spec.phase = *parsed;
      } else {
        note(parsed.error().context);
      }
    }
    if (op_.contains("colocate") && !op_["colocate"].is_null()) {
      const std::int64_t target = integer("colocate", 0);
      if (target < 0 || target >= std::numeric_limits<std::uint32_t>::max()) note("colocate is not the id of an op");
      spec.colocate = OpId{static_cast<std::uint32_t>(target)};
    }
    read_measured(spec);
    read_devices(spec);
    if (!error_.empty()) return fail(error_);
    return spec;
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const {
    std::string where = std::string{where_} + ": op " + std::to_string(id_);
    if (!name_.empty()) where += " '" + printable(name_, 80) + "'";
    return invalid(where, what, cure);
  }
  void note(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  std::string string(const char* key, bool required) {
    const auto it = op_.find(key);
    if (it == op_.end() || it->is_null()) {
      if (required) note(std::string{"has no "} + key);
      return {};
    }
    if (!it->is_string()) return note(std::string{key} + " is not a string"), std::string{};
    return it->get<std::string>();
  }
  std::int64_t whole(const json& value, const std::string& what) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      note(what + " is too large");
      return 0;
    }
    if (!value.is_number_integer()) return note(what + " is not a whole number"), 0;
    return value.get<std::int64_t>();
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) {
    const auto it = op_.find(key);
    if (it == op_.end()) {
      if (otherwise < 0) note(std::string{"has no "} + key);
      return otherwise;
    }
    return whole(*it, key);
  }
  const json* array(const char* key, bool required) {
    const auto it = op_.find(key);
    if (it == op_.end()) {
      if (required) note(std::string{"has no "} + key);
      return nullptr;
    }
    if (!it->is_array()) return note(std::string{key} + " is not a list"), nullptr;
    return &*it;
  }
  void read_inputs(OpSpec& spec) {
    const json* inputs = array("inputs", true);
    if (inputs == nullptr) return;
    for (const json& input : *inputs) {
      if (!input.is_array() || input.size() != 2) return note("an input is not [producer id, output index]");
      const std::int64_t op = whole(input[0], "an input's producer"), output = whole(input[1], "an input's output index");
      if (op < 0 || op > std::numeric_limits<std::uint32_t>::max() || output < 0 || output > std::numeric_limits<std::uint32_t>::max()) {
        return note("an input is out of range");
      }
      spec.inputs.push_back({static_cast<std::uint32_t>(op), static_cast<std::uint32_t>(output)});
    }
  }
  void read_outputs(OpSpec& spec) {
    const json* outputs = array("outputs", true);
    if (outputs == nullptr) return;
    for (const json& output : *outputs) {
      if (!output.is_object() || !output.contains("dtype") || !output["dtype"].is_string() || !output.contains("shape") ||
          !output["shape"].is_array()) {
        return note("an output is not {dtype, shape}");
      }
      TensorSpec tensor;
      const auto dtype = parse_dtype(output["dtype"].get_ref<const std::string&>());
      if (!dtype) return note(dtype.error().context);
      tensor.dtype = *dtype;
      for (const json& dim : output["shape"]) tensor.shape.push_back(whole(dim, "a dimension"));
      spec.outputs.push_back(std::move(tensor));
    }
  }
  void read_attrs(OpSpec& spec) {
    const auto it = op_.find("attrs");
    if (it == op_.end()) return;
    if (!it->is_object()) return note("attrs is not an object");
    spec.attrs_json = it->dump(-1, ' ', false, json::error_handler_t::replace);
    spec.view = it->value("view", json{}) == json(true);
    if (it->contains("groups") && (*it)["groups"].is_number_integer()) spec.conv_groups = whole((*it)["groups"], "attrs.groups");
  }
  void read_measured(OpSpec& spec) {
    const auto it = op_.find("measured_us");
    if (it == op_.end()) return;
    if (!it->is_object()) return note("measured_us is not an object");
    for (const auto& [device_class, us] : it->items()) {
      if (!us.is_number()) return note("measured_us of '" + printable(device_class, 40) + "' is not a number");
      spec.measured_us.emplace_back(device_class, us.get<double>());
    }
  }
  void read_devices(OpSpec& spec) {
    const json* devices = array("devices", false);
    if (devices == nullptr) return;
    spec.has_allowed_devices = true;
    for (const json& device : *devices) {
      if (!device.is_string()) return note("devices is not a list of names");
      spec.allowed_devices.push_back(device.get<std::string>());
    }
  }

  const json& op_;
  const std::size_t id_;
  const std::string_view where_;
  std::string name_;
  std::string error_;
};

std::string text_at(const json& document, const char* key) {
  const auto it = document.find(key);
  return it != document.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

/// One op as the file has it; what equals the default is left out, except the keys every op carries.
json op_document(const OpGraph& graph, OpId op) {
  json inputs = json::array(), outputs = json::array();
  for (const TensorId tensor : graph.inputs(op)) {
    const OpId producer = graph.producer(tensor);
    inputs.push_back({index(producer), index(tensor) - index(graph.first_output(producer))});
  }
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
    const TensorId tensor = graph.output(op, k);
    const auto shape = graph.shape(tensor);
    outputs.push_back({{"dtype", dtype_name(graph.dtype(tensor))}, {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
  }
  json document{{"id", index(op)},
                {"name", graph.name(op)},
                {"type", graph.type_name(op)},
                {"inputs", std::move(inputs)},
                {"outputs", std::move(outputs)},
                {"attrs", json::parse(graph.attrs_json(op))},
                {"flops", graph.flops(op)},
                {"param_bytes", graph.param_bytes(op)},
                {"phase", phase_name(graph.phase(op))}};
  if (graph.group(op) != 0) document["group"] = graph.group_name(op);
  if (graph.colocated_with(op) != kNoOp) document["colocate"] = index(graph.colocated_with(op));
  for (std::size_t c = 0; c < graph.measured_classes().size(); ++c) {
    if (const double us = graph.measured_us(op, c); us == us) document["measured_us"][graph.measured_classes()[c]] = us;
  }
  if (graph.has_allowed_devices(op)) {
    const auto devices = graph.allowed_devices(op);
    document["devices"] = std::vector<std::string>(devices.begin(), devices.end());
  }
  return document;
}

json head_document(const OpGraph& graph) {
  return {{"format", kFormat}, {"name", graph.name()}, {"source", graph.source()}, {"meta", json::parse(graph.meta_json())}};
}

std::string to_json_text(const OpGraph& graph) {
  std::string text = head_document(graph).dump(-1, ' ', false, json::error_handler_t::replace);
  text.back() = ',';
  text += "\n\"ops\": [\n";
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    text += op_document(graph, OpId{i}).dump(-1, ' ', false, json::error_handler_t::replace);
    text += i + 1 == graph.num_ops() ? "\n" : ",\n";
  }
  return text + "]}\n";
}

json ops_document(const OpGraph& graph) {
  json ops = json::array();
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) ops.push_back(op_document(graph, OpId{i}));
  return ops;
}

}  // namespace

Result<OpGraph> parse_graph(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.empty()) return invalid(where, "is empty");
  auto document = parse_document(bytes, where);
  if (!document) return document.error();
  if (!document->is_object() || text_at(*document, "format") != kFormat) {
    return invalid(where, "is not an emplace graph", "its `format` must be \"emplace-graph v1\"; `emplace import` reads other formats");
  }
  const auto ops = document->find("ops");
  if (ops == document->end() || !ops->is_array()) return invalid(where, "has no list of ops");
  OpGraphBuilder builder;
  builder.set_name(text_at(*document, "name")).set_source(text_at(*document, "source"));
  if (const auto meta = document->find("meta"); meta != document->end()) {
    builder.set_meta_json(meta->dump(-1, ' ', false, json::error_handler_t::replace));
  }
  builder.reserve(ops->size());
  for (std::size_t id = 0; id < ops->size(); ++id) {
    auto op = OpReader{(*ops)[id], id, where}.read();
    if (!op) return op.error();
    builder.add(*std::move(op));
  }
  auto graph = std::move(builder).build();
  if (!graph) return invalid(where, graph.error().context);
  return graph;
}

Result<OpGraph> load_graph(const std::filesystem::path& path) {
  auto packed = read_file(path);
  if (!packed) return packed.error();
  const std::string where = printable(path.filename().string());
  auto bytes = decompress(*std::move(packed), where);
  if (!bytes) return bytes.error();
  return parse_graph(*bytes, where);
}

Result<Unit> save_graph(const OpGraph& graph, const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto as_bytes = [](const std::string& text) { return std::as_bytes(std::span{text.data(), text.size()}); };
  if (name.ends_with(".json")) return write_file(path, to_json_text(graph));
  if (name.ends_with(".json.gz")) return write_file(path, compress_gzip(as_bytes(to_json_text(graph))));
  if (name.ends_with(".json.zst")) return write_file(path, compress_zstd(as_bytes(to_json_text(graph))));
  if (name.ends_with(".epg") || name.ends_with(".msgpack")) {
    json document = head_document(graph);
    document["ops"] = ops_document(graph);
    const std::vector<std::uint8_t> bytes = json::to_msgpack(document);
    return write_file(path, std::as_bytes(std::span{bytes}));
  }
  return invalid(printable(name), "has no known ending", "use .json, .json.gz, .json.zst, .epg or .msgpack");
}

std::string graph_sha256(const OpGraph& graph) {
  const std::vector<std::uint8_t> bytes = json::to_msgpack(ops_document(graph));
  return sha256_hex(std::as_bytes(std::span{bytes}));
}

}  // namespace emplace
