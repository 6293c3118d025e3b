#include "graph/formats/onnx/onnx_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/onnx/onnx_types.h"
#include "graph/formats/onnx/onnx_wire.h"

namespace emplace::onnx_io {
namespace {

/// Field numbers of the schema.
constexpr std::uint64_t kModelGraph = 7, kGraphInitializer = 5, kGraphSparse = 15, kTensorName = 8,
                        kSparseValues = 1;

/// The content of the last field `number`; nothing if there is none or the message is malformed.
std::optional<std::span<const std::byte>> content_of(std::span<const std::byte> message,
                                                     std::uint64_t number) {
  std::optional<std::span<const std::byte>> found;
  for (WireReader reader{message}; !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return std::nullopt;
    if (field->number == number && field->content) found = field->content;
  }
  return found;
}

/// Copies the fields of a graph except its initializers, which are listed by name.
bool leave_initializers(std::span<const std::byte> graph, std::string& rest, ModelInFile& model) {
  for (WireReader reader{graph}; !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return false;
    const bool sparse = field->number == kGraphSparse;
    if (!field->content || (!sparse && field->number != kGraphInitializer)) {
      append_bytes(rest, field->whole);
      continue;
    }
    const auto tensor = sparse ? content_of(*field->content, kSparseValues) : field->content;
    const auto name = tensor ? content_of(*tensor, kTensorName) : std::nullopt;
    if (!name) return false;
    std::string text;
    append_bytes(text, *name);
    model.initializers.try_emplace(std::move(text), ModelInFile::Initializer{*field->content, sparse});
  }
  return true;
}

bool parses(const std::string& text, google::protobuf::MessageLite& message) {
  return text.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()) &&
         message.ParseFromString(text);
}

/// Returns whether inferred sizes hold for the given open dimensions only, or for one iteration of a loop.
bool sizes_are_assumed(const onnx::GraphProto& graph, const std::unordered_set<std::string_view>& weights) {
  for (const auto& node : graph.node())
    if (node.op_type() == "Loop" || node.op_type() == "Scan") return true;
  for (const auto& input : graph.input())
    if (!weights.contains(input.name()))
      for (const auto& dim : input.type().tensor_type().shape().dim())
        if (!dim.has_dim_value() || dim.dim_value() < 0) return true;
  return false;
}

/// The type of an inferred value; nothing if it is not a tensor of a known element type.
std::optional<onnx::TypeProto> type_of(const std::string& name, const Value& value, bool open) {
  if (value.opaque || value.element == 0) return std::nullopt;
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(value.element);
  if (!value.shape) return type;
  auto& shape = *type.mutable_tensor_type()->mutable_shape();
  for (std::size_t axis = 0; axis < value.shape->size(); ++axis) {
    auto& dim = *shape.add_dim();
    if (open) {
      dim.set_dim_param(fmt::format("{}.{}", name, axis));
    } else {
      dim.set_dim_value((*value.shape)[axis]);
    }
  }
  return type;
}

/// Returns whether a declared type needs nothing from inference.
bool is_complete(const onnx::TypeProto& type) {
  return !type.has_tensor_type() || (type.tensor_type().elem_type() != 0 && type.tensor_type().has_shape());
}

void add_sparse(onnx::SparseTensorProto& sparse, std::vector<onnx::TensorProto*>& tensors) {
  if (sparse.has_values()) tensors.push_back(sparse.mutable_values());
  if (sparse.has_indices()) tensors.push_back(sparse.mutable_indices());
}

void add_tensors_in(onnx::GraphProto& body, std::vector<onnx::TensorProto*>& tensors) {
  for (auto& tensor : *body.mutable_initializer()) tensors.push_back(&tensor);
  for (auto& sparse : *body.mutable_sparse_initializer()) add_sparse(sparse, tensors);
  for (auto& node : *body.mutable_node()) {
    const auto inner = tensors_in(node);
    tensors.insert(tensors.end(), inner.begin(), inner.end());
  }
}

}  // namespace

Result<ModelInFile> model_in_file(std::span<const std::byte> bytes, std::string_view where) {
  ModelInFile file;
  std::string rest, graph;
  bool sound = true;
  for (WireReader reader{bytes}; sound && !reader.at_end();) {
    const auto field = reader.next();
    sound = field.has_value();
    if (!sound) break;
    if (field->number == kModelGraph && field->content) {
      sound = leave_initializers(*field->content, graph, file);
    } else {
      append_bytes(rest, field->whole);
    }
  }
  sound = sound && parses(rest, file.model) && parses(graph, *file.model.mutable_graph());
  if (!sound)
    return invalid(where, "is not an ONNX model, is truncated, or is larger than 2 GiB without its weights",
                   "fetch or export the file again");
  EMPLACE_TRY(inline_functions(file.model, where));
  file.model.clear_functions();
  return file;
}

Result<std::unordered_map<std::string, onnx::TypeProto>> value_types(std::span<const std::byte> bytes,
                                                                     std::string_view where,
                                                                     const OpenDims& dims) {
  onnx::ModelProto model;
  EMPLACE_TRY(parse_model(bytes, where, model));
  EMPLACE_TRY(inline_functions(model, where));
  const onnx::GraphProto& graph = model.graph();
  std::unordered_set<std::string_view> weights;
  for (const auto& tensor : graph.initializer()) weights.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) weights.insert(tensor.values().name());
  Symbols symbols{dims};
  for (const auto& input : graph.input())
    if (!weights.contains(input.name())) symbols.add_input(input);
  Types inferred{symbols, opset_of(model), where};
  EMPLACE_TRY(inferred.infer(graph));

  std::unordered_map<std::string, onnx::TypeProto> types;
  for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()})
    for (const auto& info : *list)
      if (info.has_type()) types.try_emplace(info.name(), info.type());
  const bool open = sizes_are_assumed(graph, weights);
  for (const auto& node : graph.node()) {
    for (const auto& name : node.output()) {
      const Value* value = inferred.find(name);
      const auto declared = types.find(name);
      if (value == nullptr || (declared != types.end() && is_complete(declared->second))) continue;
      if (auto type = type_of(name, *value, open)) types[name] = *std::move(type);
    }
  }
  return types;
}

std::vector<std::string> outer_reads(const onnx::NodeProto& node) {
  std::vector<std::string> reads;
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) find_reads(attribute.g(), reads);
    for (const auto& body : attribute.graphs()) find_reads(body, reads);
  }
  return reads;
}

std::vector<onnx::TensorProto*> tensors_in(onnx::NodeProto& node) {
  std::vector<onnx::TensorProto*> tensors;
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) tensors.push_back(attribute.mutable_t());
    for (auto& tensor : *attribute.mutable_tensors()) tensors.push_back(&tensor);
    if (attribute.has_sparse_tensor()) add_sparse(*attribute.mutable_sparse_tensor(), tensors);
    for (auto& sparse : *attribute.mutable_sparse_tensors()) add_sparse(sparse, tensors);
    if (attribute.has_g()) add_tensors_in(*attribute.mutable_g(), tensors);
    for (auto& body : *attribute.mutable_graphs()) add_tensors_in(body, tensors);
  }
  return tensors;
}

}  // namespace emplace::onnx_io
