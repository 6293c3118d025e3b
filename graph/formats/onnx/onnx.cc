#include "graph/formats/onnx/onnx.h"

#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/text/words.h"
#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/onnx/onnx_origins.h"
#include "graph/formats/onnx/onnx_types.h"

namespace emplace {
namespace {

using nlohmann::json;
using namespace onnx_io;

// Maximum elements of a tensor that is treated as shape arithmetic instead of a weight.
constexpr std::int64_t kSmall = 64;
// Names that exporters give to every graph.
constexpr std::string_view kNamesOfAll[]{"", "main_graph", "torch_jit", "torch-jit-export"};
constexpr std::int64_t kMostShapeValues = 4096;
constexpr std::size_t kNamed = 4;  // Sizes that a note names.

/// Counts of the reader's approximations, for meta.notes.
struct Approximations {
  std::size_t branches = 0, loops = 0, loops_once = 0, strings = 0, calls = 0;
  std::set<std::string> uncounted;
};

class OnnxReader {
 public:
  OnnxReader(onnx::ModelProto& model, std::span<const std::byte> file, std::string_view where,
             const OpenDims& dims)
      : graph_{*model.mutable_graph()}, model_{model}, file_{file}, where_{where}, symbols_{dims} {}

  Result<OpGraph> read() {
    if (std::string note = separate_merged_weights(graph_); !note.empty())
      weight_notes_.push_back(std::move(note));
    EMPLACE_TRY_ASSIGN(auto others, weight_notes(graph_, file_, where_));
    weight_notes_.insert(weight_notes_.end(), others.begin(), others.end());
    read_shape_values();
    for (const auto step :
         {&OnnxReader::size_inputs, &OnnxReader::infer, &OnnxReader::add_inputs,
          &OnnxReader::add_initializers, &OnnxReader::number_nodes, &OnnxReader::add_nodes}) {
      EMPLACE_TRY((this->*step)());
    }
    const bool own = std::ranges::find(kNamesOfAll, graph_.name()) == std::end(kNamesOfAll);
    builder_.set_name(own ? graph_.name() : name_of_file(where_, {".gz", ".zst", ".onnx"}));
    builder_.set_source("onnx " + model_.producer_name() + " " + model_.producer_version());
    builder_.set_meta_json(meta());
    return built(std::move(builder_), where_);
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const { return invalid(where_, what, cure); }
  Error fail_at(const onnx::NodeProto& node, std::string_view what, std::string_view cure = {}) const {
    return invalid(
        std::string{where_} + ": node " + in_quotes(node.name().empty() ? node.op_type() : node.name()), what,
        cure);
  }

  Result<Unit> size_inputs() {
    for (const auto& tensor : graph_.initializer()) is_initializer_.insert(tensor.name());
    for (const auto& tensor : graph_.sparse_initializer()) is_initializer_.insert(tensor.values().name());
    for (const auto& input : graph_.input()) {
      if (is_initializer_.contains(input.name())) continue;
      if (input.type().has_tensor_type() && !input.type().tensor_type().has_shape())
        return fail("input " + in_quotes(input.name()) + " has no shape",
                    "export the model with input shapes");
      symbols_.add_input(input);
    }
    if (!symbols_.usage().any_missing()) return Unit{};
    std::string names;
    for (const std::string& name : symbols_.usage().missing())
      names += (names.empty() ? "" : ", ") + in_quotes(name);
    return fail("its inputs have open dimensions: " + names,
                "set their sizes with " + symbols_.usage().missing_as_option());
  }

  Result<Unit> infer() {
    EMPLACE_TRY(types_.infer(graph_));
    EMPLACE_TRY(symbols_.usage().all_used(where_));
    for (const auto& tensor : graph_.initializer())
      holds_weights_ = holds_weights_ ||
                       (is_floating_element(tensor.data_type()) && elements_or_max(dims_of(tensor)) > kSmall);
    return Unit{};
  }

  /// Reads small tensors of whole numbers, which may decide shapes, from the file of their data.
  void read_shape_values() {
    for (const auto& tensor : graph_.initializer()) {
      if (tensor.data_location() != onnx::TensorProto::EXTERNAL || is_floating_element(tensor.data_type()) ||
          elements_or_max(dims_of(tensor)) > kMostShapeValues)
        continue;
      if (auto values = external_numbers(tensor, std::filesystem::path{where_}.parent_path())) {
        types_.set_contents(tensor.name(), *std::move(values));
        continue;
      }
      for (const auto& entry : tensor.external_data())
        if (entry.key() == "location" && unread_data_.empty())
          unread_data_ = "put the file " + in_quotes(entry.value()) + " with the values of " +
                         in_quotes(tensor.name()) + " beside the model, ";
    }
  }

  static Shape dims_of(const onnx::TensorProto& tensor) {
    return {tensor.dims().begin(), tensor.dims().end()};
  }

  Result<Unit> add_state(const std::string& name, OpSpec op) {
    if (name.empty()) return fail("a tensor has no name");
    if (!source_.try_emplace(name, EdgeSpec{static_cast<std::uint32_t>(builder_.size()), 0}).second)
      return fail("the tensor " + in_quotes(name) + " is declared twice");
    op.name = name;
    if (op.type == "Parameter" && op.param_bytes == 0) {
      const TensorSpec& tensor = op.outputs.front();
      if (__builtin_mul_overflow(elements_or_max(tensor.shape), element_bytes(tensor.dtype), &op.param_bytes))
        return fail("the tensor " + in_quotes(name) + " is too large");
    }
    builder_.add(std::move(op));
    return Unit{};
  }

  Result<Unit> add_inputs() {
    for (const auto& input : graph_.input()) {
      if (is_initializer_.contains(input.name())) continue;
      const Value* value = types_.find(input.name());
      auto tensor = value == nullptr ? std::nullopt : spec_of(*value);
      if (value != nullptr && value->opaque) tensor = TensorSpec{DType::kU8, {0}};
      if (!tensor) return fail("input " + in_quotes(input.name()) + " has no element type with a fixed size");
      if (value->element == onnx::TensorProto::STRING) ++approximations_.strings;
      OpSpec op;
      op.type = input.doc_string() == "parameter" ? "Parameter" : "Input";
      op.outputs = {*std::move(tensor)};
      EMPLACE_TRY(add_state(input.name(), std::move(op)));
    }
    return Unit{};
  }

  /// Adds the initializers that a node or a body reads. The input of a ConstantOfShape that makes a weight is
  /// its shape, not data.
  Result<Unit> add_initializers() {
    std::unordered_set<std::string_view> read;
    for (const auto& node : graph_.node()) {
      if (is_made_weight(node)) continue;
      read.insert(node.input().begin(), node.input().end());
      if (const BodyWork* body = types_.body_of(node)) read.insert(body->reads.begin(), body->reads.end());
    }
    EMPLACE_TRY(add_tensors(graph_, std::string{}, &read));
    names_ = onnx_node_names(model_);
    for (int i = 0; i < graph_.node_size(); ++i)
      EMPLACE_TRY(add_weights_of_bodies(graph_.node(i), names_[static_cast<std::size_t>(i)]));
    return Unit{};
  }

  /// Adds weights of bodies as state of the control-flow op: NODE/BODY/WEIGHT, numbered if bodies share a
  /// name.
  Result<Unit> add_weights_of_bodies(const onnx::NodeProto& node, const std::string& name) {
    const BodyWork* work = types_.body_of(node);
    if (work == nullptr) return Unit{};
    const auto before = static_cast<std::uint32_t>(builder_.size());
    std::unordered_map<std::string_view, int> uses;
    for (const onnx::GraphProto* body : work->bodies) {
      const int use = uses[body->name()]++;
      const std::string number = use == 0 ? "" : fmt::format("#{}", use);
      EMPLACE_TRY(add_tensors(*body, name + "/" + body->name() + number + "/", nullptr));
    }
    for (auto k = before; k < builder_.size(); ++k) of_bodies_[&node].push_back({k, 0});
    return Unit{};
  }

  Result<Unit> add_tensors(const onnx::GraphProto& graph, const std::string& prefix,
                           const std::unordered_set<std::string_view>* read) {
    for (const auto& tensor : graph.initializer()) {
      if (read != nullptr && !read->contains(tensor.name())) continue;
      EMPLACE_TRY(add_tensor(prefix + tensor.name(), tensor, dims_of(tensor)));
    }
    for (const auto& tensor : graph.sparse_initializer()) {
      if (read != nullptr && !read->contains(tensor.values().name())) continue;
      const std::int64_t stored = elements_or_max(dims_of(tensor.values()));
      EMPLACE_TRY(add_tensor(prefix + tensor.values().name(), tensor.values(),
                             {tensor.dims().begin(), tensor.dims().end()}, stored,
                             elements_or_max(dims_of(tensor.indices()))));
    }
    return Unit{};
  }

  /// @param stored, indices  for a sparse tensor: number of stored elements, and of index values.
  Result<Unit> add_tensor(const std::string& name, const onnx::TensorProto& tensor, Shape shape,
                          std::int64_t stored = -1, std::int64_t indices = 0) {
    for (const auto& entry : tensor.external_data())
      if (entry.key() == "location" && !stays_inside(entry.value()))
        return fail("initializer " + in_quotes(name) + " has its data outside of the model's folder, in " +
                        in_quotes(entry.value()),
                    "save the model with its data beside it");
    Value value{tensor.data_type(), std::move(shape), whole_numbers(tensor), real_numbers(tensor), false};
    auto op = state_of(name, value);
    if (!op) return fail("initializer " + in_quotes(name) + " has no element type with a fixed size");
    if (stored >= 0) {
      const std::int64_t each = element_bytes(op->outputs.front().dtype);
      if (__builtin_mul_overflow(stored, each, &op->param_bytes) ||
          __builtin_mul_overflow(indices, std::int64_t{8}, &indices) ||
          __builtin_add_overflow(op->param_bytes, indices, &op->param_bytes) || op->param_bytes < 0)
        return fail("the tensor " + in_quotes(name) + " is too large");
      op->type = "Parameter";
      op->attrs_json = R"({"sparse":true})";
    }
    return add_state(name, *std::move(op));
  }

  /// A weight, or a constant that is shape arithmetic or a single number. A single number whose dotted name
  /// is a module parameter's is a weight.
  std::optional<OpSpec> state_of(std::string_view name, const Value& value) {
    auto tensor = spec_of(value);
    if (!tensor) return std::nullopt;
    const std::int64_t n = elements_or_max(*value.shape);
    const bool real = is_floating_element(value.element);
    const bool constant =
        n < 1 || (n == 1 && !(real && name.find('.') != std::string_view::npos)) || (n <= kSmall && !real);
    OpSpec op;
    op.type = constant ? "Constant" : "Parameter";
    op.outputs = {*std::move(tensor)};
    if (constant && value.whole) op.attrs_json = json{{"value", *value.whole}}.dump();
    if (constant && value.real && n == 1) op.attrs_json = json{{"value", *value.real}}.dump();
    return op;
  }

  /// In a file without weights, ConstantOfShape nodes may create them.
  bool is_made_weight(const onnx::NodeProto& node) const {
    return !holds_weights_ && kind_of(node) == "ConstantOfShape" && node.input_size() == 1 &&
           is_initializer_.contains(node.input(0));
  }

  /// Assigns a producer to every output and a name to every node before any is read, because the file may not
  /// be in topological order.
  Result<Unit> number_nodes() {
    const auto first = static_cast<std::uint32_t>(builder_.size());
    for (int i = 0; i < graph_.node_size(); ++i) {
      const auto& node = graph_.node(i);
      std::uint32_t output = 0;
      for (const auto& tensor : node.output()) {
        if (tensor.empty()) continue;
        if (!source_.try_emplace(tensor, EdgeSpec{first + static_cast<std::uint32_t>(i), output}).second)
          return fail_at(node, "writes " + in_quotes(tensor) + ", which another node also writes");
        ++output;
      }
      read_.insert(node.input().begin(), node.input().end());
      if (const BodyWork* body = types_.body_of(node)) read_.insert(body->reads.begin(), body->reads.end());
    }
    for (const auto& output : graph_.output()) read_.insert(output.name());
    return Unit{};
  }

  Result<Unit> add_nodes() {
    builder_.reserve(builder_.size() + static_cast<std::size_t>(graph_.node_size()));
    for (int i = 0; i < graph_.node_size(); ++i) {
      EMPLACE_TRY_ASSIGN(auto op, op_of(graph_.node(i), names_[static_cast<std::size_t>(i)]));
      builder_.add(std::move(op));
    }
    return Unit{};
  }

  Result<std::vector<TensorSpec>> outputs_of(const onnx::NodeProto& node) {
    std::vector<TensorSpec> outputs;
    for (const auto& tensor : node.output()) {
      if (tensor.empty()) continue;
      const Value* value = types_.find(tensor);
      auto spec = value == nullptr ? std::nullopt : spec_of(*value);
      if (!spec && value != nullptr && value->shape && value->element == 0)
        spec = TensorSpec{DType::kF32, *value->shape};
      if (!spec && !read_.contains(tensor) && !outputs.empty())
        break;  // Optional outputs come last; an unread one costs nothing.
      if (!spec)
        return fail_at(node, "its output " + in_quotes(tensor) + " has no shape that is known statically",
                       unread_data_ + "export the model with fixed shapes, or set its sizes with " +
                           types_.missing_sizes(tensor));
      outputs.push_back(*std::move(spec));
    }
    return outputs;
  }

  Result<OpSpec> op_of(const onnx::NodeProto& node, const std::string& name) {
    EMPLACE_TRY_ASSIGN(auto outputs, outputs_of(node));
    OpSpec op;
    op.name = name;
    op.group = onnx_scope(node);
    op.outputs = std::move(outputs);
    const OpKind* kind = find_kind(Vocabulary::kOnnx, kind_of(node));
    const bool constant = kind != nullptr && kind->state == StateKind::kConstant;
    if ((constant || is_made_weight(node)) && !op.outputs.empty()) return state_op(node, std::move(op));
    op.type = kind_of(node);
    if (holds_folded_norm(node)) folded_norms_.push_back(builder_.size());
    op.view = is_view(node);
    json attributes = attributes_of(node);
    if (op.view) attributes["view"] = true;
    op.attrs_json = attributes.dump(-1, ' ', false, json::error_handler_t::replace);
    if (const auto* groups = onnx_io::find(node, "group")) op.conv_groups = groups->i();
    EMPLACE_TRY(wire(node, op));
    count_work(node, attributes, op);
    return op;
  }

  /// A Constant node, or a weight that the file computes.
  Result<OpSpec> state_op(const onnx::NodeProto& node, OpSpec op) {
    const Value* value = types_.find(node.output(0));
    auto state = state_of("", *value);
    op.type = is_made_weight(node) || !state ? "Parameter" : state->type;
    if (state && op.type == "Constant") op.attrs_json = state->attrs_json;
    if (op.type == "Parameter" && !is_made_weight(node)) op.attrs_json = R"({"constant":true})";
    const TensorSpec& tensor = op.outputs.front();
    if (op.type == "Parameter" &&
        __builtin_mul_overflow(elements_or_max(tensor.shape), element_bytes(tensor.dtype), &op.param_bytes))
      return fail_at(node, "is too large");
    return op;
  }

  Result<Unit> wire(const onnx::NodeProto& node, OpSpec& op) {
    std::unordered_set<std::string_view> wired;
    const auto add = [&](const std::string& tensor) -> Result<Unit> {
      const auto edge = source_.find(tensor);
      if (edge == source_.end())
        return fail_at(node, "reads " + in_quotes(tensor) + ", which no node produces");
      op.inputs.push_back(edge->second);
      wired.insert(tensor);
      return Unit{};
    };
    for (const auto& tensor : node.input())
      if (!tensor.empty()) EMPLACE_TRY(add(tensor));
    const BodyWork* body = types_.body_of(node);
    if (body == nullptr) return Unit{};
    for (const auto& tensor : body->reads)
      if (!wired.contains(tensor)) EMPLACE_TRY(add(tensor));
    const auto& weights = of_bodies_[&node];
    op.inputs.insert(op.inputs.end(), weights.begin(), weights.end());
    return Unit{};
  }

  void count_work(const onnx::NodeProto& node, const json& attributes, OpSpec& op) {
    if (const BodyWork* body = types_.body_of(node)) {
      op.flops = body->flops;
      if (body->unknown_work) approximations_.uncounted.insert(op.type);
      if (op.type == "If") ++approximations_.branches;
      if (op.type != "If") ++approximations_.loops;
      if (op.type != "If" && !body->iterations) {
        ++approximations_.loops_once;
        approximations_.uncounted.insert(op.type);
      }
      return;
    }
    const auto flops = node_flops(node, attributes, types_);
    if (flops && !op.outputs.empty()) op.flops = *flops;
    if (!flops && !op.view) approximations_.uncounted.insert(op.type);
  }

  std::string meta() const {
    json notes = weight_notes_, outputs = json::array();
    const auto note = [&](std::string_view what, std::size_t count, std::string_view meaning) {
      if (count > 0) notes.push_back(fmt::format("{}: {}; {}", what, count, meaning));
    };
    note("branches (If)", approximations_.branches,
         "each is placed as one op and takes the time of its costlier branch");
    note("loops (Loop, Scan)", approximations_.loops, "each is placed as one op");
    note("loops of unknown length", approximations_.loops_once, "one iteration of each is counted");
    note("inputs of text", approximations_.strings, "each element counts as a byte");
    if (const auto& bounds = symbols_.bounds(); !bounds.empty()) {
      std::string sizes;
      for (std::size_t k = 0; k < std::min(bounds.size(), kNamed); ++k)
        sizes +=
            fmt::format("{}{} ({})", k == 0 ? "" : ", ", printable(bounds[k].first, 60), bounds[k].second);
      if (bounds.size() > kNamed) sizes += fmt::format(" and {} more", bounds.size() - kNamed);
      notes.push_back("sizes that depend on data: " + sizes +
                      "; each counts as the largest that it can be; set one with --shape " +
                      printable(bounds[0].first, 60) + "=N");
    }
    for (const auto& output : graph_.output())
      if (const auto edge = source_.find(output.name()); edge != source_.end())
        outputs.push_back({edge->second.op, edge->second.output});
    json meta{{"kind", "inference"},
              {"opset", opset_of(model_)},
              {"notes", std::move(notes)},
              {"outputs", std::move(outputs)},
              {"uncounted", approximations_.uncounted}};
    if (!folded_norms_.empty()) meta["folded_norms"] = folded_norms_;
    return meta.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  onnx::GraphProto& graph_;
  onnx::ModelProto& model_;
  const std::span<const std::byte> file_;
  const std::string_view where_;
  Symbols symbols_;
  Types types_{symbols_, opset_of(model_), where_};
  OpGraphBuilder builder_;
  Approximations approximations_;
  std::vector<std::string> weight_notes_;
  std::string unread_data_;  // The cure for whole numbers in a file that is not there; empty if all are.
  std::vector<std::size_t> folded_norms_;  // Ops whose weights hold a batch norm.
  bool holds_weights_ = false;
  std::unordered_set<std::string_view> is_initializer_;
  std::unordered_map<std::string, EdgeSpec> source_;  // [tensor name] Producer and output index.
  std::unordered_set<std::string_view> read_;         // Tensors read by a node or returned by the model.
  std::unordered_map<const onnx::NodeProto*, std::vector<EdgeSpec>> of_bodies_;  // Weights in bodies.
  std::vector<std::string> names_;                                               // [nodes]
};

}  // namespace

bool looks_like_onnx(std::span<const std::byte> bytes) {
  // Field 1, a varint: ModelProto.ir_version. In MessagePack the byte is the number 8, in JSON a control
  // character.
  return bytes.size() > 1 && bytes[0] == std::byte{0x08};
}

std::vector<std::string> onnx_node_names(const onnx::ModelProto& model) {
  const auto& graph = model.graph();
  std::unordered_map<std::string_view, int> uses;
  for (const auto& tensor : graph.input()) uses.try_emplace(tensor.name(), 1);
  for (const auto& tensor : graph.initializer()) uses.try_emplace(tensor.name(), 1);
  for (const auto& tensor : graph.sparse_initializer()) uses.try_emplace(tensor.values().name(), 1);
  for (const auto& node : graph.node()) ++uses[node.name()];
  std::vector<std::string> names;
  std::unordered_set<std::string> taken;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto& node = graph.node(i);
    const std::string id = fmt::format("#{}", i);
    std::string name = node.name().empty()     ? node.op_type() + id
                       : uses[node.name()] > 1 ? node.name() + id
                                               : node.name();
    while ((name != node.name() && uses.contains(name)) || taken.contains(name)) name += id;
    names.push_back(name);
    taken.insert(std::move(name));
  }
  return names;
}

Result<OpGraph> parse_onnx(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims) {
  onnx::ModelProto model;
  EMPLACE_TRY(parse_model(bytes, where, model));
  EMPLACE_TRY(inline_functions(model, where));
  return OnnxReader{model, bytes, where, dims}.read();
}

}  // namespace emplace
