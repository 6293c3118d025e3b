#include "graph/formats/onnx/onnx_types.h"

#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/text/words.h"
#include "graph/capped.h"
#include "graph/formats/onnx/onnx_flops.h"
#include "graph/formats/onnx/onnx_model.h"
#include "graph/op_kind.h"

namespace emplace::onnx_io {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestText = 64;  // Larger attributes do not affect the cost.
constexpr int kLongestList = 64;

/// Size of one element [bit] and its DType; 0 bits if the type has no fixed size.
struct Element {
  DType dtype = DType::kU8;
  int bits = 0;
};

Element element_of(int type) {
  // Complex numbers, text and small types are mapped to a type of the same size.
  static const std::unordered_map<int, Element> kElements{
      {Proto::FLOAT, {DType::kF32, 32}},      {Proto::DOUBLE, {DType::kF64, 64}},
      {Proto::COMPLEX64, {DType::kF64, 64}},  {Proto::COMPLEX128, {DType::kF64, 128}},
      {Proto::FLOAT16, {DType::kF16, 16}},    {Proto::BFLOAT16, {DType::kBF16, 16}},
      {Proto::INT64, {DType::kI64, 64}},      {Proto::UINT64, {DType::kI64, 64}},
      {Proto::INT32, {DType::kI32, 32}},      {Proto::UINT32, {DType::kI32, 32}},
      {Proto::INT16, {DType::kI16, 16}},      {Proto::UINT16, {DType::kI16, 16}},
      {Proto::INT8, {DType::kI8, 8}},         {Proto::UINT8, {DType::kU8, 8}},
      {Proto::FLOAT8E4M3FN, {DType::kF8, 8}}, {Proto::FLOAT8E4M3FNUZ, {DType::kF8, 8}},
      {Proto::FLOAT8E5M2, {DType::kF8, 8}},   {Proto::FLOAT8E5M2FNUZ, {DType::kF8, 8}},
      {Proto::FLOAT8E8M0, {DType::kF8, 8}},   {Proto::STRING, {DType::kU8, 8}},
      {Proto::BOOL, {DType::kBool, 8}},       {Proto::FLOAT6E2M3, {DType::kU8, 6}},
      {Proto::FLOAT6E3M2, {DType::kU8, 6}},   {Proto::UINT4, {DType::kU8, 4}},
      {Proto::INT4, {DType::kU8, 4}},         {Proto::FLOAT4E2M1, {DType::kU8, 4}},
      {Proto::UINT2, {DType::kU8, 2}},        {Proto::INT2, {DType::kU8, 2}}};
  const auto it = kElements.find(type);
  return it == kElements.end() ? Element{} : it->second;
}

std::int64_t bytes_of(const Value* value) {
  if (value == nullptr) return 0;
  const auto spec = spec_of(*value);
  if (!spec) return 0;
  return capped::times(elements_or_max(spec->shape), element_bytes(spec->dtype));
}

/// Returns whether the type is a sequence, a map or an optional; its size is that of its inputs.
bool is_container(const onnx::TypeProto& type) {
  return type.has_sequence_type() || type.has_map_type() || type.has_optional_type() ||
         type.has_opaque_type();
}
bool makes_container(std::string_view kind) {
  return kind == "SequenceConstruct" || kind == "SequenceInsert" || kind == "SequenceErase" ||
         kind == "SequenceEmpty" || kind == "SplitToSequence" || kind == "Optional";
}

}  // namespace

void find_reads(const onnx::GraphProto& body, std::vector<std::string>& reads) {
  std::unordered_set<std::string_view> own;
  for (const auto& input : body.input()) own.insert(input.name());
  for (const auto& tensor : body.initializer()) own.insert(tensor.name());
  for (const auto& tensor : body.sparse_initializer()) own.insert(tensor.values().name());
  for (const auto& node : body.node()) own.insert(node.output().begin(), node.output().end());
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !own.contains(name) && std::find(reads.begin(), reads.end(), name) == reads.end())
      reads.push_back(name);
  };
  for (const auto& node : body.node()) {
    for (const auto& name : node.input()) read(name);
    for (const auto& attribute : node.attribute()) {
      std::vector<std::string> inner;
      if (attribute.has_g()) find_reads(attribute.g(), inner);
      for (const auto& graph : attribute.graphs()) find_reads(graph, inner);
      for (const auto& name : inner) read(name);
    }
  }
  for (const auto& output : body.output()) read(output.name());
}

bool is_floating_element(int element) { return is_floating(element_of(element).dtype); }

std::optional<TensorSpec> spec_of(const Value& value) {
  const Element element = element_of(value.opaque ? int{onnx::TensorProto::UINT8} : value.element);
  if (element.bits == 0 || !value.shape) return std::nullopt;
  TensorSpec spec{element.dtype, *value.shape};
  if (element.bits == 128) spec.shape.push_back(2);
  if (element.bits >= 8) return spec;
  if (spec.shape.empty()) spec.shape = {1};
  std::int64_t& last = spec.shape.back();
  if (last > std::numeric_limits<std::int64_t>::max() / 8) return std::nullopt;
  last = (last * element.bits + 7) / 8;
  return spec;
}

const Value* Types::find(const std::string& name) const {
  if (name.empty()) return nullptr;
  const auto it = values_.find(name);
  if (it != values_.end()) return &it->second;
  return outer_ == nullptr ? nullptr : outer_->find(name);
}

const BodyWork* Types::body_of(const onnx::NodeProto& node) const {
  const auto it = bodies_.find(&node);
  return it == bodies_.end() ? nullptr : &it->second;
}

/// The type that the file declares for a value, as far as its dimensions have sizes.
std::optional<Value> Types::declared(const std::string& name) const {
  const auto it = declared_.find(name);
  if (it == declared_.end()) return std::nullopt;
  Value value;
  value.opaque = is_container(*it->second);
  const bool sparse = it->second->has_sparse_tensor_type();
  value.element =
      sparse ? it->second->sparse_tensor_type().elem_type() : it->second->tensor_type().elem_type();
  if (sparse && it->second->sparse_tensor_type().has_shape())
    value.shape = symbols_.shape(it->second->sparse_tensor_type().shape());
  if (it->second->tensor_type().has_shape())
    value.shape = symbols_.shape(it->second->tensor_type().shape(), name);
  return value;
}

Result<Unit> Types::infer(const onnx::GraphProto& graph) {
  for (const auto* list : {&graph.value_info(), &graph.output(), &graph.input()})
    for (const auto& info : *list)
      if (info.has_type()) declared_[info.name()] = &info.type();
  for (const auto& tensor : graph.initializer()) {
    Value value{tensor.data_type(), Shape{tensor.dims().begin(), tensor.dims().end()}, {}, {}, false};
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL)
      value.whole = whole_numbers(tensor), value.real = real_numbers(tensor);
    if (const auto it = external_.find(tensor.name()); it != external_.end()) value.whole = it->second;
    set(tensor.name(), std::move(value));
  }
  for (const auto& tensor : graph.sparse_initializer())
    set(tensor.values().name(),
        {tensor.values().data_type(), Shape{tensor.dims().begin(), tensor.dims().end()}, {}, {}, false});
  for (const auto& input : graph.input())
    if (!values_.contains(input.name()))
      if (auto value = declared(input.name())) set(input.name(), *std::move(value));
  for (const auto& node : graph.node()) EMPLACE_TRY(infer(node));
  return Unit{};
}

Result<Unit> Types::infer(const onnx::NodeProto& node) {
  const std::string kind = kind_of(node);
  std::vector<const Value*> inputs;
  for (const auto& name : node.input()) inputs.push_back(find(name));
  std::vector<Value> outputs(static_cast<std::size_t>(node.output_size()));
  const auto fail = [&](const std::string& what) {
    return invalid(
        std::string{where_} + ": node " + in_quotes(node.name().empty() ? node.op_type() : node.name()),
        what);
  };
  const RuleRow* known = shape_rule(kind);
  const auto given = static_cast<std::size_t>(
      std::ranges::count_if(node.input(), [](const auto& name) { return !name.empty(); }));
  if (known != nullptr && given < known->inputs)
    return fail(fmt::format("has {} inputs, but {} needs {}", given, printable(kind, 60), known->inputs));
  Inference op{node, inputs, outputs};
  if (known != nullptr) known->apply(op);
  if (!op.rejection().empty() && opset_ >= 7) return fail(op.rejection());
  size_bounds(node, op, outputs);
  fold(op, kind);
  if (kind == "If" || kind == "Loop" || kind == "Scan") EMPLACE_TRY(infer_bodies(node, inputs, outputs));
  if (makes_container(kind) && !outputs.empty()) {
    std::int64_t bytes = 0;
    for (const Value* input : inputs) bytes = capped::plus(bytes, bytes_of(input));
    outputs[0] = Value{0, Shape{bytes}, {}, {}, true};
  }
  return keep(node, outputs);
}

/// Sizes the dimensions that depend on data: as the file declares them, as given, or as large as they can be.
void Types::size_bounds(const onnx::NodeProto& node, const Inference& op, std::vector<Value>& outputs) {
  for (const auto& [k, axis] : op.bounds()) {
    const std::string& name = node.output(static_cast<int>(k));
    auto& shape = outputs[k].shape;
    if (name.empty() || !shape) continue;
    const auto it = declared_.find(name);
    const auto* stated = it == declared_.end() ? nullptr : &it->second->tensor_type().shape();
    const bool fits = stated != nullptr && stated->dim_size() == static_cast<int>(shape->size());
    const std::string symbol = fits ? stated->dim(static_cast<int>(axis)).dim_param() : std::string{};
    if (const auto known = declared(name); known && known->shape) {
      shape = known->shape;
    } else {
      (*shape)[axis] =
          symbols_.bounded(symbol.empty() ? fmt::format("{}.{}", name, axis) : symbol, (*shape)[axis]);
    }
  }
}

std::string Types::missing_sizes(const std::string& name) const {
  const auto it = declared_.find(name);
  std::string sizes;
  if (it != declared_.end() && it->second->tensor_type().has_shape()) {
    const auto& shape = it->second->tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      const auto& dim = shape.dim(axis);
      if (dim.has_dim_value() || (!dim.dim_param().empty() && symbols_.value(dim.dim_param()))) continue;
      sizes += sizes.empty() ? "" : ",";
      sizes +=
          printable(dim.dim_param().empty() ? fmt::format("{}.{}", name, axis) : dim.dim_param(), 60) + "=…";
    }
  }
  if (sizes.empty()) sizes = fmt::format("{0}.0=…,{0}.1=…", printable(name, 60));
  return "--shape " + sizes;
}

/// Stores the outputs; a declared type takes precedence, then sizes that were given for it.
Result<Unit> Types::keep(const onnx::NodeProto& node, std::vector<Value>& outputs) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::string& name = node.output(static_cast<int>(k));
    if (name.empty()) continue;
    Value& value = outputs[k];
    if (const auto stated = declared(name)) {
      if (stated->shape && value.shape && !value.opaque && !stated->opaque &&
          *stated->shape != *value.shape && opset_ >= 7)
        return invalid(
            std::string{where_} + ": node " + in_quotes(node.name().empty() ? node.op_type() : node.name()),
            "its output " + in_quotes(name) + " is " + shape_text(*stated->shape) + " in the file, and " +
                shape_text(*value.shape) + " by its inputs",
            "export the model again, or set the sizes that it was exported with");
      if (stated->shape) value.shape = stated->shape;
      if (stated->element != 0) value.element = stated->element;
      if (stated->opaque && !value.opaque) value = Value{0, Shape{0}, {}, {}, true};
    }
    if (!value.shape) value.shape = symbols_.shape_of(name);
    set(name, std::move(value));
  }
  return Unit{};
}

Result<Unit> Types::infer_body(const onnx::GraphProto& body, const std::vector<Value>& arguments,
                               BodyWork& work, std::vector<Value>& results) {
  Types inner{symbols_, opset_, where_, this};
  for (int k = 0; k < body.input_size() && k < static_cast<int>(arguments.size()); ++k) {
    const Value& given = arguments[static_cast<std::size_t>(k)];
    if (given.shape) inner.set(body.input(k).name(), given);
  }
  EMPLACE_TRY(inner.infer(body));
  work.flops = 0;
  for (const auto& one : body.node()) {
    const BodyWork* nested = inner.body_of(one);
    const auto flops =
        nested != nullptr ? std::optional{nested->flops} : node_flops(one, attributes_of(one), inner);
    if (!flops || (nested != nullptr && nested->unknown_work)) work.unknown_work = true;
    if (nested != nullptr)
      work.bodies.insert(work.bodies.end(), nested->bodies.begin(), nested->bodies.end());
    work.flops = capped::plus(work.flops, flops.value_or(0));
  }
  results.clear();
  for (const auto& output : body.output()) {
    const Value* value = inner.find(output.name());
    results.push_back(value == nullptr ? Value{} : *value);
    results.back().whole.reset(), results.back().real.reset();
  }
  work.bodies.push_back(&body);
  find_reads(body, work.reads);
  return Unit{};
}

Result<Unit> Types::infer_bodies(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                                 std::vector<Value>& outputs) {
  BodyWork& work = bodies_[&node];
  const auto plain = [](const Value* value) {
    Value copy = value == nullptr ? Value{} : *value;
    copy.whole.reset(), copy.real.reset();
    return copy;
  };
  std::vector<Value> results;
  if (node.op_type() == "If") {
    std::int64_t most = 0;
    for (const char* branch : {"then_branch", "else_branch"}) {
      const auto* attribute = onnx_io::find(node, branch);
      if (attribute == nullptr || !attribute->has_g()) continue;
      EMPLACE_TRY(infer_body(attribute->g(), {}, work, results));
      most = std::max(most, work.flops);
      for (std::size_t k = 0; k < std::min(outputs.size(), results.size()); ++k)
        if (!outputs[k].shape) outputs[k] = results[k];
    }
    work.flops = most;
    return Unit{};
  }
  const auto* body = onnx_io::find(node, "body");
  if (body == nullptr || !body->has_g()) return Unit{};
  const bool loop = node.op_type() == "Loop";
  const auto* scans = onnx_io::find(node, "num_scan_inputs");
  const std::size_t carried_from = loop ? 2 : 0;
  const std::size_t scanned =
      scans == nullptr ? 0 : static_cast<std::size_t>(std::clamp<std::int64_t>(scans->i(), 0, 1 << 20));
  const std::size_t carried_to = inputs.size() - std::min(scanned, inputs.size());
  std::vector<Value> arguments;
  if (loop) {
    arguments = {Value{onnx::TensorProto::INT64, Shape{}, {}, {}, false},
                 Value{onnx::TensorProto::BOOL, Shape{}, {}, {}, false}};
    if (!inputs.empty() && inputs[0] != nullptr && inputs[0]->whole && inputs[0]->whole->size() == 1)
      work.iterations = std::clamp<std::int64_t>(inputs[0]->whole->front(), 0, std::int64_t{1} << 40);
    if (work.iterations == std::int64_t{1} << 40)
      work.iterations.reset();  // 2^40 iterations mean "until the condition ends the loop".
  }
  for (std::size_t k = carried_from; k < inputs.size(); ++k) {
    Value argument = plain(inputs[k]);
    if (k >= carried_to && argument.shape && !argument.shape->empty()) {
      work.iterations = argument.shape->front();
      argument.shape->erase(argument.shape->begin());
    }
    arguments.push_back(std::move(argument));
  }
  EMPLACE_TRY(infer_body(body->g(), arguments, work, results));
  work.flops = capped::times(work.flops, work.iterations.value_or(1));
  const std::size_t carried = carried_to > carried_from ? carried_to - carried_from : 0, skip = loop ? 1 : 0;
  for (std::size_t k = 0; k < outputs.size() && k + skip < results.size(); ++k) {
    outputs[k] = results[k + skip];
    if (k < carried || !outputs[k].shape) continue;
    if (!work.iterations) outputs[k].shape.reset();
    if (work.iterations) outputs[k].shape->insert(outputs[k].shape->begin(), *work.iterations);
  }
  return Unit{};
}

bool is_view(const onnx::NodeProto& node) {
  const OpKind* kind = find_kind(Vocabulary::kOnnx, kind_of(node));
  if (kind == nullptr || !kind->view) return false;
  return node.op_type() != "Dropout" || node.input_size() < 3 ||
         node.input(2).empty();  // Input 2 is training_mode.
}

nlohmann::json attributes_of(const onnx::NodeProto& node) {
  json attrs = json::object();
  for (const auto& attribute : node.attribute()) {
    // Use the name of the traced graphs, by which saved graphs identify grouped convolutions.
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
        break;  // Tensors and the like are values and do not affect the cost.
    }
  }
  for (auto it = attrs.begin(); it != attrs.end();) it = it->is_null() ? attrs.erase(it) : std::next(it);
  return attrs;
}

std::optional<std::int64_t> node_flops(const onnx::NodeProto& node, const nlohmann::json& attributes,
                                       const Types& types) {
  std::vector<const Shape*> shapes;
  for (const auto& name : node.input()) {
    const Value* value = types.find(name);
    shapes.push_back(value == nullptr || value->opaque || !value->shape ? nullptr : &*value->shape);
  }
  const Value* out = node.output_size() == 0 ? nullptr : types.find(node.output(0));
  const Shape none;
  const bool sized = out != nullptr && !out->opaque && out->shape;
  return onnx_flops(kind_of(node), shapes, sized ? *out->shape : none, attributes,
                    out != nullptr && is_floating_element(out->element));
}

}  // namespace emplace::onnx_io
