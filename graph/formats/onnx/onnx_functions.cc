#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/formats/onnx/onnx_model.h"

namespace emplace::onnx_io {
namespace {

// Limit of nodes from functions; the file's own nodes are not limited.
constexpr std::size_t kMaxNodes = 300'000;

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::unordered_map<std::string, std::string>;

std::string key_of(std::string_view domain, std::string_view name, std::string_view overload) {
  if (domain == "ai.onnx") domain = {};
  return std::string{domain} + '\n' + std::string{name} + '\n' + std::string{overload};
}

class Inliner {
 public:
  Inliner(const onnx::ModelProto& model, std::string_view where) : where_{where} {
    for (const auto& function : model.functions())
      functions_.try_emplace(key_of(function.domain(), function.name(), function.overload()), &function);
  }

  Result<Unit> expand(onnx::GraphProto& graph) {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    return expand(nodes, *graph.mutable_node());
  }

 private:
  /// Appends the nodes of `from` to `to`; `from` is consumed.
  Result<Unit> expand(Nodes& from, Nodes& to) {
    for (auto& node : from) {
      const auto it = functions_.find(key_of(node.domain(), node.op_type(), node.overload()));
      if (it != functions_.end()) {
        EMPLACE_TRY(call(node, *it->second, to));
        continue;
      }
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) EMPLACE_TRY(expand(*attribute.mutable_g()));
        for (auto& body : *attribute.mutable_graphs()) EMPLACE_TRY(expand(body));
      }
      if (!active_.empty() && ++nodes_ > kMaxNodes)
        return invalid(where_, "has more than 300000 nodes in its functions once they are inlined");
      to.Add(std::move(node));
    }
    return Unit{};
  }

  Result<Unit> call(const onnx::NodeProto& node, const onnx::FunctionProto& function, Nodes& to) {
    const std::string name = node.name().empty() ? fmt::format("{}#{}", node.op_type(), calls_) : node.name();
    ++calls_;
    if (std::find(active_.begin(), active_.end(), &function) != active_.end())
      return invalid(std::string{where_} + ": node " + in_quotes(name),
                     "calls the function " + in_quotes(function.name()) + ", which calls itself");
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
      return invalid(std::string{where_} + ": node " + in_quotes(name),
                     "passes the function " + in_quotes(function.name()) + " more arguments than it takes");
    Names names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < node.input_size() ? node.input(i) : std::string{};
    Nodes body;
    for (int i = 0; i < function.output_size(); ++i) {
      const std::string outer = i < node.output_size() ? node.output(i) : name + "/" + function.output(i);
      const auto [it, fresh] = names.try_emplace(function.output(i), outer);
      if (!fresh && !it->second.empty() && !outer.empty()) pass_on(name, it->second, outer, body);
    }
    for (const auto& inner : function.node()) {
      *body.Add() = inner;
      bind(*body.rbegin(), name, node, function, names);
    }
    active_.push_back(&function);
    auto done = expand(body, to);
    active_.pop_back();
    return done;
  }

  /// Handles a function input that is also an output: inserts an Identity.
  static void pass_on(const std::string& call, const std::string& from, const std::string& to, Nodes& body) {
    auto& identity = *body.Add();
    identity.set_op_type("Identity");
    identity.set_name(call + "/" + to);
    identity.add_input(from);
    identity.add_output(to);
  }

  static std::string renamed(const std::string& name, const std::string& call, Names& names) {
    if (name.empty()) return {};
    return names.try_emplace(name, call + "/" + name).first->second;
  }

  /// Rewrites a node of the function's body into a node of the caller.
  static void bind(onnx::NodeProto& inner, const std::string& call, const onnx::NodeProto& node,
                   const onnx::FunctionProto& function, Names& names) {
    for (auto& input : *inner.mutable_input()) input = renamed(input, call, names);
    for (auto& output : *inner.mutable_output()) output = renamed(output, call, names);
    inner.set_name(call + "/" + (inner.name().empty() ? inner.op_type() : inner.name()));
    if (inner.metadata_props_size() == 0) *inner.mutable_metadata_props() = node.metadata_props();
    bind_attributes(inner, call, node, function, names);
  }

  static void bind_attributes(onnx::NodeProto& inner, const std::string& call, const onnx::NodeProto& node,
                              const onnx::FunctionProto& function, Names& names) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> bound;
    for (auto& attribute : *inner.mutable_attribute()) {
      if (attribute.ref_attr_name().empty()) {
        if (attribute.has_g()) bind_body(*attribute.mutable_g(), call, node, function, names);
        for (auto& body : *attribute.mutable_graphs()) bind_body(body, call, node, function, names);
        bound.Add(std::move(attribute));
        continue;
      }
      const onnx::AttributeProto* given = find(node, attribute.ref_attr_name());
      for (const auto& standard : function.attribute_proto())
        if (given == nullptr && standard.name() == attribute.ref_attr_name()) given = &standard;
      if (given == nullptr) continue;  // Without an attribute of the call, the op's default applies.
      const std::string name = attribute.name();
      attribute = *given;
      attribute.set_name(name);
      bound.Add(std::move(attribute));
    }
    inner.mutable_attribute()->Swap(&bound);
  }

  /// Rewrites a body of a control-flow node: names defined in it stay, names of the enclosing function
  /// change.
  static void bind_body(onnx::GraphProto& body, const std::string& call, const onnx::NodeProto& node,
                        const onnx::FunctionProto& function, const Names& outer) {
    std::unordered_set<std::string> own;
    for (const auto& input : body.input()) own.insert(input.name());
    for (const auto& initializer : body.initializer()) own.insert(initializer.name());
    for (const auto& inner : body.node()) own.insert(inner.output().begin(), inner.output().end());
    Names names = outer;
    for (const std::string& name : own) names[name] = name;
    for (auto& inner : *body.mutable_node()) {
      for (auto& input : *inner.mutable_input()) input = renamed(input, call, names);
      bind_attributes(inner, call, node, function, names);
    }
    for (auto& output : *body.mutable_output()) output.set_name(renamed(output.name(), call, names));
  }

  const std::string_view where_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::vector<const onnx::FunctionProto*> active_;
  std::size_t nodes_ = 0, calls_ = 0;
};

}  // namespace

Result<Unit> inline_functions(onnx::ModelProto& model, std::string_view where) {
  if (model.functions_size() == 0) return Unit{};
  return Inliner{model, where}.expand(*model.mutable_graph());
}

}  // namespace emplace::onnx_io
