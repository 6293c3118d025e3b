#include "graph/training/forward_pass.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "graph/capped.h"
#include "graph/tape/training_tape.h"

namespace emplace::training {
namespace {

bool is_float(const OpGraph& graph, TensorId tensor) { return models::carries_gradient(graph.dtype(tensor)); }

/// Shape and Size do not read data.
bool reads_shapes_only(std::string_view type) { return type == "Shape" || type == "Size"; }

std::vector<bool> is_static(const OpGraph& graph) {
  std::vector<bool> known(graph.num_tensors(), false);
  for (const OpId op : graph.topological_order()) {
    const std::string_view type = graph.type_name(op);
    const auto inputs = graph.inputs(op);
    const bool constant =
        graph.is_state(op) ? type == "Constant"
        : reads_shapes_only(type)
            ? true
            : std::all_of(inputs.begin(), inputs.end(), [&](TensorId input) { return known[index(input)]; });
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) known[index(graph.output(op, k))] = constant;
  }
  return known;
}

std::vector<bool> statistic_tensors(const OpGraph& graph) {
  std::vector<bool> found(graph.num_ops(), false);
  for (const OpId op : graph.topological_order()) {
    if (graph.type_name(op) != "BatchNormalization") continue;
    const auto inputs = graph.inputs(op);
    for (std::size_t k = 3; k < inputs.size(); ++k) found[index(graph.producer(inputs[k]))] = true;
  }
  return found;
}

/// The model outputs listed in the file; empty if it lists none.
std::vector<TensorId> listed_outputs(const OpGraph& graph) {
  using nlohmann::json;
  std::vector<TensorId> listed;
  const json meta = json::parse(graph.meta_json(), nullptr, false);
  if (!meta.is_object() || !meta.contains("outputs") || !meta["outputs"].is_array()) return listed;
  for (const json& output : meta["outputs"]) {
    if (!output.is_array() || output.size() != 2 || !output[0].is_number_unsigned() ||
        !output[1].is_number_unsigned())
      continue;
    const auto op = output[0].get<std::uint64_t>();
    if (op >= graph.num_ops()) continue;
    const OpId producer{static_cast<std::uint32_t>(op)};
    if (const auto k = output[1].get<std::uint64_t>(); k < graph.num_outputs(producer))
      listed.push_back(graph.output(producer, k));
  }
  return listed;
}

}  // namespace

bool stops_gradients(std::string_view type) {
  static constexpr std::array<std::string_view, 14> kStops{"Shape",
                                                           "Size",
                                                           "Floor",
                                                           "Ceil",
                                                           "Round",
                                                           "Sign",
                                                           "ConstantOfShape",
                                                           "EyeLike",
                                                           "RandomNormalLike",
                                                           "RandomUniformLike",
                                                           "Bernoulli",
                                                           "Multinomial",
                                                           "OneHot",
                                                           "Range"};
  return std::find(kStops.begin(), kStops.end(), type) != kStops.end();
}

bool ForwardPass::is_number(const OpGraph& graph, TensorId tensor) const {
  const auto shape = graph.shape(tensor);
  return is_static[index(tensor)] &&
         std::all_of(shape.begin(), shape.end(), [](std::int64_t dim) { return dim == 1; });
}

bool is_constant(const OpGraph& graph, OpId op) {
  const auto attrs = nlohmann::json::parse(graph.attrs_json(op), nullptr, false);
  return attrs.is_object() && attrs.value("constant", nlohmann::json{}) == true;
}

ForwardPass forward_pass(const OpGraph& graph) {
  ForwardPass pass;
  pass.is_static = is_static(graph);
  pass.statistic = statistic_tensors(graph);
  for (const OpId op : graph.topological_order()) {
    if (graph.is_state(op)) continue;
    const auto inputs = graph.inputs(op);
    pass.nodes.push_back({.op = op,
                          .type = std::string{graph.type_name(op)},
                          .inputs = {inputs.begin(), inputs.end()},
                          .result = op});
  }
  join_idioms(graph, pass);
  return pass;
}

std::vector<bool> trainable(const OpGraph& graph, const ForwardPass& pass) {
  std::vector<bool> carries(graph.num_tensors(), false);
  for (const OpId op : graph.topological_order()) {
    if (graph.type_name(op) != "Parameter" || graph.num_outputs(op) == 0) continue;
    if (pass.statistic[index(op)] || is_constant(graph, op)) continue;
    const TensorId tensor = graph.first_output(op);
    carries[index(tensor)] = is_float(graph, tensor);
  }
  for (const Node& node : pass.nodes) {
    if (stops_gradients(node.type)) continue;
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](TensorId input) { return carries[index(input)]; });
    for (std::size_t k = 0; any && k < graph.num_outputs(node.result); ++k) {
      const TensorId output = graph.output(node.result, k);
      carries[index(output)] = is_float(graph, output);
    }
  }
  return carries;
}

std::vector<TensorId> results(const OpGraph& graph, const ForwardPass& pass,
                              const std::vector<bool>& trains) {
  std::vector<TensorId> found;
  const auto keep = [&](TensorId tensor) {
    if (trains[index(tensor)] && std::find(found.begin(), found.end(), tensor) == found.end())
      found.push_back(tensor);
  };
  const std::vector<TensorId> listed = listed_outputs(graph);
  for (const TensorId output : listed) {
    if (output == listed.front() || graph.readers(graph.producer(output)).empty()) keep(output);
  }
  for (const Node& node : pass.nodes) {
    if (listed.empty() && graph.readers(node.result).empty() && graph.num_outputs(node.result) > 0)
      keep(graph.first_output(node.result));
  }
  std::vector<TensorId> scalars;
  std::copy_if(found.begin(), found.end(), std::back_inserter(scalars), [&](TensorId tensor) {
    return graph.shape(tensor).empty() || (found.size() == 1 && capped::elements(graph.shape(tensor)) == 1);
  });
  return scalars.empty() ? found : scalars;
}

std::vector<bool> needed(const OpGraph& graph, const ForwardPass& pass, const std::vector<TensorId>& from) {
  std::vector<bool> tensor(graph.num_tensors(), false), node(pass.nodes.size(), false);
  for (const TensorId result : from) tensor[index(result)] = true;
  for (std::size_t i = pass.nodes.size(); i-- > 0;) {
    const OpId op = pass.nodes[i].result;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
      node[i] = node[i] || tensor[index(graph.output(op, k))];
    if (!node[i]) continue;
    for (const TensorId input : pass.nodes[i].inputs) tensor[index(input)] = true;
  }
  return node;
}

}  // namespace emplace::training
