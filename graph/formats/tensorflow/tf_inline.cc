#include "graph/formats/tensorflow/tf_inline.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "graph/formats/tensorflow/tf_inliner.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/tensorflow/tf_step.h"

namespace emplace::tf {
namespace {

constexpr int kMaxNodes = 300'000;
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr std::size_t kLargestValue = 1024;  // Limit of a constant that may be a shape [B].

}  // namespace

const AttrValue* find_in(const Attributes& attributes, std::string_view name) {
  for (const NodeDef::Attr& attr : attributes)
    if (attr.key() == name) return &attr.value();
  return nullptr;
}

InputText parse_input(std::string_view text) {
  InputText input;
  if (text.starts_with('^')) {
    input.control = true;
    input.node = text.substr(1);
    return input;
  }
  std::size_t colon = text.find(':');
  input.node = text.substr(0, colon);
  while (colon != std::string_view::npos && input.ok) {
    const std::size_t next = text.find(':', colon + 1);
    const std::string_view part =
        text.substr(colon + 1, next == std::string_view::npos ? next : next - colon - 1);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), input.number);
    const bool number = error == std::errc{} && end == part.data() + part.size();
    input.ok = !input.has_number &&
               (number || (input.output.empty() && !part.empty() && (part[0] < '0' || part[0] > '9')));
    input.has_number = number;
    if (!number) input.output = part;
    colon = next;
  }
  if (!input.has_number) input.number = 0;
  return input;
}

Inliner::Inliner(const GraphDef& graph, std::string_view where) : graph_{graph}, where_{where} {
  for (const FunctionDef& function : graph.library().function())
    functions_.emplace(function.signature().name(), &function);
}

Result<Inlined> Inliner::run(const std::function<bool(int)>& runs) {
  Body top;
  for (const NodeDef& node : graph_.node()) {
    top.names.emplace(node.name(), node.name());
    taken_.insert(node.name());
  }
  for (int i = 0; i < graph_.node_size(); ++i) EMPLACE_TRY(add(graph_.node(i), top, !runs || runs(i)));
  EMPLACE_TRY(resolve());
  *out_.graph.mutable_versions() = graph_.versions();
  return std::move(out_);
}

Error Inliner::fail(std::string_view node, std::string_view what, std::string_view cure) const {
  return invalid(std::string{where_} + ": node " + in_quotes(node), what, cure);
}

Result<NodeDef*> Inliner::make(std::string name, std::string_view op) {
  if (out_.graph.node_size() >= kMaxNodes || bytes_ > kMaxBytes)
    return invalid(where_, "has more than 10^6 nodes or 1 GiB once its functions are inlined",
                   "look for a function with very many calls");
  NodeDef* node = out_.graph.add_node();
  node->set_name(std::move(name));
  node->set_op(std::string{op});
  return node;
}

std::string Inliner::free_name(const std::string& wanted) {
  std::string name = wanted;
  while (!taken_.insert(name).second) name = fmt::format("{}_{}", wanted, ++renamed_);
  return name;
}

Result<std::vector<TensorRef>> Inliner::tensors_of(const NodeDef& node, const Body& body,
                                                   std::string_view text) const {
  const auto bad = [&](std::string_view what) {
    const std::string in =
        body.function == nullptr ? "" : " of the function " + in_quotes(body.function->signature().name());
    return fail(node.name(), "has the input " + in_quotes(text) + in + ", which " + std::string{what});
  };
  const InputText input = parse_input(text);
  if (!input.ok) return bad("is malformed");
  if (const auto it = body.arguments.find(input.node); it != body.arguments.end()) {
    if (!input.has_number) return it->second;
    if (input.number >= it->second.size()) return bad("is out of range of the argument's list");
    return std::vector<TensorRef>{it->second[input.number]};
  }
  const auto it = body.names.find(input.node);
  if (it == body.names.end())
    return bad(body.function == nullptr ? "is not a node of the graph"
                                        : "is neither an argument nor a node of it");
  std::uint32_t first = 0;
  if (const auto of = body.nodes.find(input.node); of != body.nodes.end() && !input.output.empty())
    first = first_output_of(*of->second, input.output);
  return std::vector<TensorRef>{{it->second, first + input.number}};
}

std::uint32_t Inliner::first_output_of(const NodeDef& node, std::string_view output) const {
  const auto it = functions_.find(node.op());
  if (it == functions_.end()) return first_output(node, output);
  std::uint32_t at = 0;
  for (const OpDef::ArgDef& arg : it->second->signature().output_arg()) {
    if (arg.name() == output) return at;
    at += argument_length(arg, node.attr());
  }
  return 0;
}

Result<std::string> Inliner::control_of(std::string_view reader, const Body& body,
                                        std::string_view name) const {
  if (const auto it = body.arguments.find(name); it != body.arguments.end() && !it->second.empty())
    return "^" + it->second.front().node;
  const auto it = body.names.find(name);
  if (it != body.names.end()) return "^" + it->second;
  return fail(reader, "reads " + in_quotes(name) + ", which is not a node of the " +
                          (body.function == nullptr ? "graph" : "function"));
}

Result<Unit> Inliner::fill_in(AttrValue& value, const Body& body, int depth) const {
  constexpr int kDeepest = 8;
  if (depth > kDeepest) return invalid("", "has attributes nested too deeply");
  if (value.value_case() == AttrValue::kPlaceholder) {
    const AttrValue* given =
        body.attributes == nullptr ? nullptr : find_in(*body.attributes, value.placeholder());
    const AttrValue filled = given == nullptr ? AttrValue{} : *given;
    value = filled;
  } else if (value.value_case() == AttrValue::kFunc) {
    for (NodeDef::Attr& attr : *value.mutable_func()->mutable_attr())
      EMPLACE_TRY(fill_in(*attr.mutable_value(), body, depth + 1));
  }
  return Unit{};
}

Result<Unit> Inliner::add(const NodeDef& node, const Body& body, bool runs) {
  if (node.attr_size() > kMaxAttributes)
    return fail(node.name(), fmt::format("has more than {} attributes", kMaxAttributes));
  CallSite call{.node = node,
                .name = body.names.at(node.name()),
                .inputs = {},
                .waits_for = {},
                .attributes = node.attr()};
  for (const std::string& text : node.input()) {
    if (text.starts_with('^')) {
      EMPLACE_TRY_ASSIGN(auto waits, control_of(node.name(), body, std::string_view{text}.substr(1)));
      call.waits_for.push_back(std::move(waits));
    } else {
      EMPLACE_TRY_ASSIGN(auto tensors, tensors_of(node, body, text));
      call.inputs.insert(call.inputs.end(), tensors.begin(), tensors.end());
    }
  }
  // As in TensorFlow: a node without inputs starts with the call.
  if (node.input_size() == 0 || is_calling(node))
    call.waits_for.insert(call.waits_for.end(), body.waits_for.begin(), body.waits_for.end());
  for (NodeDef::Attr& attr : call.attributes) {
    AttrValue& value = *attr.mutable_value();
    if (auto done = fill_in(value, body, 0); !done) return fail(node.name(), done.error().context);
    // Weights do not determine shapes, and would be copied for every call.
    if (value.value_case() == AttrValue::kTensor && value.tensor().tensor_content().size() > kLargestValue)
      value.mutable_tensor()->clear_tensor_content();
  }
  if (is_calling(node)) return runs ? lower(call) : copy(call, "NoOp");
  return copy(call, node.op());
}

Result<Unit> Inliner::copy(const CallSite& call, std::string_view op) {
  EMPLACE_TRY_ASSIGN(auto made, make(call.name, op));
  NodeDef& node = *made;
  node.set_device(call.node.device());
  if (op == call.node.op()) {
    for (const TensorRef& input : call.inputs) node.add_input(input.text());
    node.mutable_attr()->CopyFrom(call.attributes);
  }
  for (const std::string& waits : call.waits_for) node.add_input(waits);
  bytes_ += node.ByteSizeLong();
  return Unit{};
}

Result<TensorRef> Inliner::resolved(TensorRef tensor) const {
  for (std::size_t steps = 0; steps <= results_.size(); ++steps) {
    const auto it = results_.find(tensor.node);
    if (it == results_.end()) return tensor;
    if (tensor.output >= it->second.size())
      return fail(tensor.node, fmt::format("has no result number {}", tensor.output));
    tensor = it->second[tensor.output];
  }
  return fail(tensor.node, "returns its own result");
}

Result<Unit> Inliner::resolve() {
  // Resolve each result once, so that long chains of calls are not walked for every reader.
  for (auto& [call, results] : results_) {
    for (TensorRef& result : results) {
      EMPLACE_TRY_ASSIGN(result, resolved(result));
    }
  }
  for (NodeDef& node : *out_.graph.mutable_node()) {
    for (std::string& text : *node.mutable_input()) {
      const InputText input = parse_input(text);
      if (!input.ok || text.starts_with('^') || !results_.contains(std::string{input.node})) continue;
      EMPLACE_TRY_ASSIGN(auto found, resolved({std::string{input.node}, input.number}));
      text = found.text();
    }
  }
  for (auto& [tensor, shape] : declared_)
    if (auto found = resolved(tensor); found.ok()) out_.results.emplace(found->text(), std::move(shape));
  for (auto& [tensor, handle] : handles_)
    if (auto found = resolved(tensor); found.ok()) out_.variables.emplace(found->node, std::move(handle));
  return Unit{};
}

bool calls_functions(const GraphDef& graph) {
  std::unordered_set<std::string_view> functions;
  for (const FunctionDef& function : graph.library().function())
    functions.insert(function.signature().name());
  return std::any_of(graph.node().begin(), graph.node().end(), [&](const NodeDef& node) {
    return is_call(node.op()) || functions.contains(node.op());
  });
}

Result<Inlined> inline_functions(const GraphDef& graph, const std::function<bool(int)>& runs,
                                 std::string_view where) {
  return Inliner{graph, where}.run(runs);
}

}  // namespace emplace::tf
