#include "graph/formats/onnx.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text/words.h"
#include "graph/formats/onnx_flops.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr std::int64_t kSmall = 64;  // Elements of a tensor that is arithmetic on shapes, not a weight.
constexpr std::int64_t kKeptForShapes =
    4096;  // Larger initializers cannot decide a shape; their values are dropped.
constexpr std::size_t kLongestText = 64;  // Attributes above these sizes say nothing about cost.
constexpr int kLongestList = 64;

std::string in_quotes(std::string_view name) { return "'" + printable(name, 80) + "'"; }

std::string first_line(std::string_view text) { return printable(text.substr(0, text.find('\n')), 160); }

std::optional<DType> dtype_of(int element_type) {
  using Proto = onnx::TensorProto;
  switch (element_type) {
    case Proto::FLOAT:
      return DType::kF32;
    case Proto::DOUBLE:
      return DType::kF64;
    case Proto::FLOAT16:
      return DType::kF16;
    case Proto::BFLOAT16:
      return DType::kBF16;
    case Proto::INT64:
    case Proto::UINT64:
      return DType::kI64;
    case Proto::INT32:
    case Proto::UINT32:
      return DType::kI32;
    case Proto::INT16:
    case Proto::UINT16:
      return DType::kI16;
    case Proto::INT8:
      return DType::kI8;
    case Proto::UINT8:
      return DType::kU8;
    case Proto::BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
}

/// Number of elements of checked dimensions, or something huge.
std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(n, dim, &n)) return std::numeric_limits<std::int64_t>::max();
  }
  return n;
}

/// The first dimension without a number, in words; nothing if all are known.
std::optional<std::string> open_dimension(const onnx::TypeProto& type) {
  if (!type.tensor_type().has_shape()) return "has no shape";
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) continue;
    if (!dim.dim_param().empty()) return "has the symbolic dimension " + in_quotes(dim.dim_param());
    return "has an unknown dimension";
  }
  return std::nullopt;
}

/// Shape and element type where both are complete.
std::optional<TensorSpec> complete(const onnx::TypeProto& type) {
  const auto dtype = dtype_of(type.tensor_type().elem_type());
  if (!dtype || open_dimension(type)) return std::nullopt;
  TensorSpec tensor{*dtype, {}};
  for (const auto& dim : type.tensor_type().shape().dim()) tensor.shape.push_back(dim.dim_value());
  return tensor;
}

/// True if the first output shows the first input's data in another shape, as the traced graphs mark views.
bool is_view(const onnx::NodeProto& node) {
  static const std::unordered_set<std::string_view> kViews{
      "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand", "Slice", "Split", "Dropout"};
  if (!kViews.contains(node.op_type())) return false;
  return node.op_type() != "Dropout" || node.input_size() < 3 ||
         node.input(2).empty();  // The third says: training.
}

json attributes(const onnx::NodeProto& node) {
  json attrs = json::object();
  for (const auto& attribute : node.attribute()) {
    // The traced graphs' word, which is also what tells grouped convolutions apart when the graph is saved.
    json& value = attrs[attribute.name() == "group" ? "groups" : attribute.name()];
    switch (attribute.type()) {
      case onnx::AttributeProto::INT:
        value = attribute.i();
        break;
      case onnx::AttributeProto::FLOAT:
        value = attribute.f();
        break;
      case onnx::AttributeProto::STRING:
        value = attribute.s().substr(0, kLongestText);
        break;
      case onnx::AttributeProto::INTS:
        if (attribute.ints_size() <= kLongestList)
          value = std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
        break;
      case onnx::AttributeProto::FLOATS:
        if (attribute.floats_size() <= kLongestList)
          value = std::vector<float>(attribute.floats().begin(), attribute.floats().end());
        break;
      default:
        break;  // Tensors and their like: values, not costs.
    }
  }
  for (auto it = attrs.begin(); it != attrs.end();) it = it->is_null() ? attrs.erase(it) : std::next(it);
  if (is_view(node)) attrs["view"] = true;
  return attrs;
}

/// "/layer1/conv/Conv" → "layer1/conv"
std::string scope_of(std::string_view name) {
  while (name.starts_with('/')) name.remove_prefix(1);
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string{} : std::string{name.substr(0, slash)};
}

class Reader {
 public:
  Reader(onnx::ModelProto& model, std::string_view where)
      : model_{model}, graph_{*model.mutable_graph()}, where_{where} {}

  Result<OpGraph> read() {
    drop_weights();
    for (const auto step : {&Reader::check_nodes, &Reader::collect_types, &Reader::add_inputs,
                            &Reader::add_initializers, &Reader::number_nodes, &Reader::add_nodes}) {
      if (auto done = (this->*step)(); !done) return done.error();
    }
    builder_.set_name(graph_.name().empty() ? std::filesystem::path{where_}.stem().string() : graph_.name());
    builder_.set_source("onnx " + model_.producer_name() + " " + model_.producer_version());
    builder_.set_meta_json(json{{"kind", "inference"}, {"opset", version_of("")}}.dump());
    auto graph = std::move(builder_).build();
    if (!graph) return invalid(where_, graph.error().context);
    return graph;
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const { return invalid(where_, what, cure); }
  Error fail_at(const onnx::NodeProto& node, std::string_view what, std::string_view cure = {}) const {
    return invalid(
        std::string{where_} + ": node " + in_quotes(node.name().empty() ? node.op_type() : node.name()), what,
        cure);
  }

  int version_of(std::string_view domain) const {
    for (const auto& opset : model_.opset_import()) {
      if (opset.domain() == domain || (domain.empty() && opset.domain() == "ai.onnx")) {
        return static_cast<int>(std::min<std::int64_t>(opset.version(), std::numeric_limits<int>::max()));
      }
    }
    return 1;  // Files older than opsets.
  }

  void drop_weights() {
    for (auto& tensor : *graph_.mutable_initializer()) {
      if (elements({tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())}) <= kKeptForShapes)
        continue;
      tensor.clear_raw_data();
      tensor.clear_float_data();
      tensor.clear_int32_data();
      tensor.clear_int64_data();
      tensor.clear_double_data();
      tensor.clear_uint64_data();
    }
  }

  Result<Unit> check_nodes() {
    for (auto& node : *graph_.mutable_node()) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g() || attribute.graphs_size() > 0) {
          return fail_at(node, "holds a subgraph (" + printable(node.op_type(), 40) + ")",
                         "export the model without control flow");
        }
      }
      if (node.domain() == "ai.onnx") node.clear_domain();
      const auto* schema =
          onnx::OpSchemaRegistry::Schema(node.op_type(), version_of(node.domain()), node.domain());
      if (schema == nullptr) {
        const std::string domain = node.domain().empty() ? "" : " of the domain " + in_quotes(node.domain());
        return fail_at(node, "has the unknown type " + in_quotes(node.op_type()) + domain,
                       "export the model with standard ONNX ops");
      }
      try {
        schema->Verify(node);
      } catch (const std::exception& error) {
        return fail_at(node, first_line(error.what()));
      }
    }
    return Unit{};
  }

  void collect_known_types() {
    const auto keep = [&](const auto& values) {
      for (const auto& value : values) {
        if (auto tensor = complete(value.type())) tensor_[value.name()] = *std::move(tensor);
      }
    };
    keep(graph_.input());
    keep(graph_.output());
    keep(graph_.value_info());
  }

  /// Fills tensor_ from the file and, if any node's output is missing there, from shape inference.
  Result<Unit> collect_types() {
    for (const auto& tensor : graph_.initializer()) is_initializer_.insert(tensor.name());
    for (const auto& input : graph_.input()) {
      if (is_initializer_.contains(input.name())) continue;
      if (!input.type().has_tensor_type())
        return fail("input " + in_quotes(input.name()) + " is not a tensor");
      if (const auto open = open_dimension(input.type())) {
        return fail("input " + in_quotes(input.name()) + " " + *open,
                    "export the model with fixed input shapes");
      }
    }
    collect_known_types();
    const auto has_types = [&](const onnx::NodeProto& node) {
      return std::all_of(node.output().begin(), node.output().end(),
                         [&](const std::string& name) { return name.empty() || tensor_.contains(name); });
    };
    if (std::all_of(graph_.node().begin(), graph_.node().end(), has_types)) return Unit{};
    try {
      onnx::shape_inference::InferShapes(model_, onnx::OpSchemaRegistry::Instance(),
                                         onnx::ShapeInferenceOptions{false, 0, true});
    } catch (const std::exception& error) {
      return fail("its shapes cannot be inferred: " + first_line(error.what()));
    }
    collect_known_types();
    return Unit{};
  }

  Result<Unit> add_state(const std::string& name, std::string type, TensorSpec tensor) {
    if (name.empty()) return fail("a tensor has no name");
    if (!source_.try_emplace(name, EdgeSpec{static_cast<std::uint32_t>(builder_.size()), 0}).second) {
      return fail("the tensor " + in_quotes(name) + " is declared twice");
    }
    OpSpec op;
    op.name = name;
    if (type == "Parameter") {
      const std::int64_t n = elements(tensor.shape);
      if (__builtin_mul_overflow(n, element_bytes(tensor.dtype), &op.param_bytes))
        return fail("the tensor " + in_quotes(name) + " is too large");
    }
    op.type = std::move(type);
    op.outputs = {std::move(tensor)};
    builder_.add(std::move(op));
    return Unit{};
  }

  Result<Unit> add_inputs() {
    for (const auto& input : graph_.input()) {
      if (is_initializer_.contains(input.name())) continue;
      auto tensor = complete(input.type());
      if (!tensor) return fail("input " + in_quotes(input.name()) + " has no element type with a fixed size");
      auto added = add_state(input.name(), input.doc_string() == "parameter" ? "Parameter" : "Input",
                             *std::move(tensor));
      if (!added) return added;
    }
    return Unit{};
  }

  /// The initializers that a node reads; what ConstantOfShape reads is its output's shape and no data.
  Result<Unit> add_initializers() {
    std::unordered_set<std::string_view> read;
    for (const auto& node : graph_.node()) {
      if (is_weight(node)) continue;
      for (const auto& name : node.input()) read.insert(name);
    }
    for (const auto& initializer : graph_.initializer()) {
      if (!read.contains(initializer.name())) continue;
      if (initializer.data_location() == onnx::TensorProto::EXTERNAL) {
        return fail("initializer " + in_quotes(initializer.name()) + " keeps its data in another file",
                    "save the model as one file, or with its weights as graph inputs");
      }
      const auto dtype = dtype_of(initializer.data_type());
      if (!dtype)
        return fail("initializer " + in_quotes(initializer.name()) +
                    " has no element type with a fixed size");
      TensorSpec tensor{*dtype, {initializer.dims().begin(), initializer.dims().end()}};
      tensor_[initializer.name()] = tensor;
      const std::int64_t n = elements(tensor.shape);
      const bool constant = n <= 1 || (n <= kSmall && !is_floating(*dtype));
      if (auto added = add_state(initializer.name(), constant ? "Constant" : "Parameter", std::move(tensor));
          !added)
        return added;
    }
    return Unit{};
  }

  bool is_weight(const onnx::NodeProto& node) const {
    return node.op_type() == "ConstantOfShape" && node.domain().empty() && node.input_size() == 1 &&
           is_initializer_.contains(node.input(0));
  }

  /// Gives every output its producer and every node its name, before any is read: the file's order may be
  /// another.
  Result<Unit> number_nodes() {
    std::unordered_map<std::string_view, int> uses;
    for (const auto& [tensor, edge] : source_) {
      if (edge.op < builder_.size()) ++uses[tensor];
    }
    for (const auto& node : graph_.node()) ++uses[node.name()];
    std::unordered_set<std::string> taken;
    const auto first = static_cast<std::uint32_t>(builder_.size());
    const auto nodes = static_cast<std::uint32_t>(graph_.node_size());
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const auto& node = graph_.node(static_cast<int>(i));
      const std::string id = "#" + std::to_string(i);
      std::string name = node.name().empty()     ? node.op_type() + id
                         : uses[node.name()] > 1 ? node.name() + id
                                                 : node.name();
      while ((name != node.name() && uses.contains(name)) || taken.contains(name)) name += id;
      names_.push_back(name);
      taken.insert(std::move(name));
      std::uint32_t output = 0;
      for (const auto& tensor : node.output()) {
        if (tensor.empty()) continue;
        if (!source_.try_emplace(tensor, EdgeSpec{first + i, output}).second)
          return fail_at(node, "writes " + in_quotes(tensor) + ", which another writes too");
        ++output;
      }
      for (const auto& tensor : node.input()) read_.insert(tensor);
    }
    for (const auto& tensor : graph_.output()) read_.insert(tensor.name());
    return Unit{};
  }

  Result<Unit> add_nodes() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      auto op = op_of(graph_.node(i), names_[static_cast<std::size_t>(i)]);
      if (!op) return op.error();
      builder_.add(*std::move(op));
    }
    return Unit{};
  }

  Result<OpSpec> op_of(const onnx::NodeProto& node, const std::string& name) const {
    OpSpec op;
    op.name = name;
    op.group = scope_of(node.name());
    for (const auto& tensor : node.output()) {
      if (tensor.empty()) continue;
      const auto known = tensor_.find(tensor);
      if (known != tensor_.end()) {
        op.outputs.push_back(known->second);
      } else if (read_.contains(tensor) || op.outputs.empty()) {
        return fail_at(node,
                       "its output " + in_quotes(tensor) + " has no shape that can be known before it runs",
                       "export the model with fixed shapes");
      } else {
        break;  // Optional outputs come last; one that nobody reads costs nothing.
      }
    }
    if (is_weight(node)) {
      op.type = "Parameter";
      if (__builtin_mul_overflow(elements(op.outputs.front().shape), element_bytes(op.outputs.front().dtype),
                                 &op.param_bytes)) {
        return fail_at(node, "is too large");
      }
      return op;
    }
    op.type = node.op_type();
    op.view = is_view(node);
    std::vector<const OnnxShape*> shapes;
    for (const auto& tensor : node.input()) {
      shapes.push_back(nullptr);
      if (tensor.empty()) continue;
      const auto edge = source_.find(tensor);
      if (edge == source_.end())
        return fail_at(node, "reads " + in_quotes(tensor) + ", which nothing produces");
      op.inputs.push_back(edge->second);
      shapes.back() = shape_of(tensor);
    }
    const json attrs = attributes(node);
    op.attrs_json = attrs.dump(-1, ' ', false, json::error_handler_t::replace);
    if (const auto groups = attrs.find("groups"); groups != attrs.end() && groups->is_number_integer())
      op.conv_groups = groups->get<std::int64_t>();
    if (!op.outputs.empty())
      op.flops = onnx_flops(op.type, shapes, op.outputs[0].shape, attrs, is_floating(op.outputs[0].dtype));
    return op;
  }

  const OnnxShape* shape_of(const std::string& tensor) const {
    const auto it = tensor_.find(tensor);
    return it == tensor_.end() ? nullptr : &it->second.shape;
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  const std::string_view where_;
  OpGraphBuilder builder_;
  std::unordered_set<std::string> is_initializer_;
  std::unordered_map<std::string, TensorSpec> tensor_;  // By tensor name, where shape and type are complete.
  std::unordered_map<std::string, EdgeSpec> source_;    // Who produces each tensor.
  std::unordered_set<std::string> read_;                // By a node, or as an output of the model.
  std::vector<std::string> names_;                      // [nodes]
};

}  // namespace

bool looks_like_onnx(std::span<const std::byte> bytes) {
  // Field 1, a varint: ModelProto.ir_version. In MessagePack it would be the number 8, in JSON a control
  // character.
  return bytes.size() > 1 && bytes[0] == std::byte{0x08};
}

Result<OpGraph> parse_onnx(std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return invalid(where, "is larger than 2 GiB");
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph()) {
    return invalid(where, "is not an ONNX model, or is cut short", "fetch or export the file again");
  }
  return Reader{model, where}.read();
}

}  // namespace emplace
