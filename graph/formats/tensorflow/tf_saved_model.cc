#include "graph/formats/tensorflow/tf_saved_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/formats/tensorflow/tf_inliner.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/tensorflow/tf_step.h"

namespace emplace::tf {
namespace {

constexpr std::size_t kListed = 4;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t k = 0; k < names.size() && k < kListed; ++k)
    text += (k == 0 ? "" : ", ") + in_quotes(names[k]);
  if (names.size() > kListed) text += fmt::format(" and {} more", names.size() - kListed);
  return text;
}

const MetaGraphDef& chosen(const SavedModel& model, std::vector<std::string>& notes) {
  const auto& all = model.meta_graphs();
  const auto serves = [](const MetaGraphDef& one) {
    const auto& tags = one.meta_info_def().tags();
    return std::find(tags.begin(), tags.end(), "serve") != tags.end();
  };
  const auto it = std::find_if(all.begin(), all.end(), serves);
  if (all.size() > 1)
    notes.push_back(fmt::format("SavedModel with {} meta graphs: the {} is read", all.size(),
                                it == all.end() ? "first" : "one tagged 'serve'"));
  return it == all.end() ? *all.begin() : *it;
}

/// The signature to run; null if none has a result.
const MetaGraphDef::SignatureEntry* signature_of(const MetaGraphDef& meta) {
  std::map<std::string_view, const MetaGraphDef::SignatureEntry*> by_name;
  for (const auto& entry : meta.signature_def())
    if (entry.value().outputs_size() > 0 && !entry.key().starts_with("__saved_model"))
      by_name[entry.key()] = &entry;
  for (const char* name : {"serving_default", "serve", "predict"})
    if (const auto it = by_name.find(name); it != by_name.end()) return it->second;
  return by_name.empty() ? nullptr : by_name.begin()->second;
}

/// [nodes] Whether the nodes `wanted` depend on a node; includes themselves.
std::vector<bool> needed(const GraphDef& graph, std::vector<int> wanted) {
  std::unordered_map<std::string_view, int> number;
  for (int i = 0; i < graph.node_size(); ++i) number.emplace(graph.node(i).name(), i);
  std::vector<bool> runs(static_cast<std::size_t>(graph.node_size()), false);
  while (!wanted.empty()) {
    const int i = wanted.back();
    wanted.pop_back();
    if (runs[static_cast<std::size_t>(i)]) continue;
    runs[static_cast<std::size_t>(i)] = true;
    for (const std::string& input : graph.node(i).input())
      if (const auto it = number.find(parse_input(input).node); it != number.end())
        wanted.push_back(it->second);
  }
  return runs;
}

/// Functions that neither a node nor a function calls, except those for saving and restoring.
std::vector<const FunctionDef*> entries(const GraphDef& graph) {
  std::unordered_set<std::string_view> called;
  const auto add_calls = [&](const NodeDef& node) {
    called.insert(node.op());
    for (const NodeDef::Attr& attr : node.attr()) {
      called.insert(attr.value().func().name());
      for (const NameAttrList& one : attr.value().list().func()) called.insert(one.name());
    }
  };
  for (const NodeDef& node : graph.node()) add_calls(node);
  for (const FunctionDef& function : graph.library().function())
    for (const NodeDef& node : function.node_def()) add_calls(node);
  std::vector<const FunctionDef*> found;
  for (const FunctionDef& function : graph.library().function()) {
    const std::string& name = function.signature().name();
    const auto& arguments = function.signature().input_arg();
    const bool simple = std::all_of(arguments.begin(), arguments.end(), [](const OpDef::ArgDef& arg) {
      return arg.number_attr().empty() && arg.type_list_attr().empty() && arg.type_attr().empty();
    });
    if (simple && !called.contains(name) && name.find("traced_save") == std::string::npos &&
        name.find("traced_restore") == std::string::npos && function.signature().output_arg_size() > 0)
      found.push_back(&function);
  }
  std::stable_sort(found.begin(), found.end(), [](const FunctionDef* a, const FunctionDef* b) {
    return a->node_def_size() > b->node_def_size();
  });
  return found;
}

NodeDef::Attr& attribute(NodeDef& node, const char* key) {
  NodeDef::Attr& attr = *node.add_attr();
  attr.set_key(key);
  return attr;
}

/// Adds a call of the function and Placeholders for its arguments. Returns the call's number.
int add_call(GraphDef& graph, const FunctionDef& function) {
  std::unordered_set<std::string> taken;
  for (const NodeDef& node : graph.node()) taken.insert(node.name());
  const auto free_name = [&](const std::string& wanted) {
    std::string name = wanted;
    for (int k = 1; !taken.insert(name).second; ++k) name = fmt::format("{}_{}", wanted, k);
    return name;
  };
  std::vector<std::string> inputs;
  for (int k = 0; k < function.signature().input_arg_size(); ++k) {
    const OpDef::ArgDef& arg = function.signature().input_arg(k);
    NodeDef& node = *graph.add_node();
    node.set_name(free_name(arg.name()));
    node.set_op("Placeholder");
    attribute(node, "dtype").mutable_value()->set_type(arg.type());
    for (const auto& entry : function.arg_attr()) {
      if (entry.key() != static_cast<std::uint32_t>(k)) continue;
      const AttrValue* shapes = find_in(entry.value().attr(), "_output_shapes");
      if (shapes != nullptr && shapes->list().shape_size() == 1)
        *attribute(node, "shape").mutable_value()->mutable_shape() = shapes->list().shape(0);
    }
    inputs.push_back(node.name());
  }
  NodeDef& call = *graph.add_node();
  call.set_name(free_name(function.signature().name()));
  call.set_op(function.signature().name());
  for (const std::string& input : inputs) call.add_input(input);
  return graph.node_size() - 1;
}

}  // namespace

Result<Served> served_by(const SavedModel& model, std::string_view where) {
  if (model.meta_graphs().empty())
    return invalid(where, "is a SavedModel without a graph", "save the model again");
  Served served;
  const MetaGraphDef& meta = chosen(model, served.notes);
  served.graph = meta.graph_def();
  GraphDef& graph = served.graph;
  std::vector<int> wanted;
  if (const auto* signature = signature_of(meta)) {
    std::unordered_map<std::string_view, int> number;
    for (int i = 0; i < graph.node_size(); ++i) number.emplace(graph.node(i).name(), i);
    for (const auto& output : signature->value().outputs()) {
      if (output.value().name().empty()) continue;
      const auto it = number.find(parse_input(output.value().name()).node);
      if (it == number.end())
        return invalid(where, "has the signature " + in_quotes(signature->key()) + " with the result " +
                                  in_quotes(output.value().name()) + ", which is not a node of its graph");
      wanted.push_back(it->second);
    }
    std::vector<std::string> others;
    for (const auto& entry : meta.signature_def())
      if (entry.key() != signature->key() && !entry.key().starts_with("__saved_model"))
        others.push_back(entry.key());
    served.notes.push_back("SavedModel: a step runs the signature " + in_quotes(signature->key()) +
                           (others.empty() ? "" : ", not " + listed(others)));
  } else {
    const std::vector<const FunctionDef*> functions = entries(graph);
    if (functions.empty())
      return invalid(where, "is a SavedModel with neither a signature nor a function",
                     "save it with signatures=model.__call__.get_concrete_function(…)");
    std::vector<std::string> others;
    for (std::size_t k = 1; k < functions.size(); ++k) others.push_back(functions[k]->signature().name());
    served.notes.push_back("SavedModel without a signature: a step runs the function " +
                           in_quotes(functions[0]->signature().name()) +
                           (others.empty() ? "" : ", not " + listed(others)));
    const FunctionDef entry = *functions[0];
    wanted.push_back(add_call(graph, entry));
  }
  served.runs = needed(graph, std::move(wanted));
  return served;
}

}  // namespace emplace::tf
