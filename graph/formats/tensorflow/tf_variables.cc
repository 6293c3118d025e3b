#include "graph/formats/tensorflow/tf_variables.h"

#include <algorithm>

#include "graph/formats/tensorflow/tf_ops.h"

namespace emplace::tf {
namespace {

constexpr const char *kParameter = "Parameter", *kSlot = "OptimizerState";
constexpr int kMaxRounds = 8;  // Limit for slots of slots.

std::int64_t elements(const TensorShapeProto& shape) {
  std::int64_t n = 1;
  for (const auto& dim : shape.dim())
    if (dim.size() < 0 || __builtin_mul_overflow(n, dim.size(), &n)) return -1;
  return n;
}

const TensorShapeProto* listed_shape(const NodeDef& node, std::uint32_t output) {
  const AttrValue* list = find(node, "_output_shapes");
  if (list == nullptr || output >= static_cast<std::uint32_t>(list->list().shape_size())) return nullptr;
  const TensorShapeProto& shape = list->list().shape(static_cast<int>(output));
  return is_complete(shape) ? &shape : nullptr;
}

/// [nodes] Whether a node depends on a gradient, and whether a gradient depends on it, along data edges.
struct Gradients {
  std::vector<bool> behind, before;

  Gradients(const GraphDef& graph, const Step& step)
      : behind(step.inputs.size(), false), before(step.inputs.size(), false), step_{step} {
    for (std::uint32_t i = 0; i < step.inputs.size(); ++i)
      behind[i] = step.role[i] == Role::kWork && !step.one_off[i] &&
                  is_gradient(graph.node(static_cast<int>(i)).name());
    for (auto it = step.order.rbegin(); it != step.order.rend(); ++it)
      for (const Edge& edge : step.inputs[*it])
        if (!edge.control && (before[*it] || behind[*it])) before[edge.node] = true;
    spread({});
  }

  /// Reads from `slots` [nodes] depend on a gradient too, because it was written there before.
  void spread(const std::vector<bool>& slots) {
    for (const std::uint32_t i : step_.order) {
      for (const Edge& edge : step_.inputs[i]) {
        const std::uint32_t variable = step_.variable[edge.node];
        const bool slot = variable != kNoNode && !slots.empty() && slots[variable];
        behind[i] = behind[i] || (!edge.control && (slot || (behind[edge.node] && variable == kNoNode)));
      }
    }
  }

 private:
  const Step& step_;
};

}  // namespace

bool is_complete(const TensorShapeProto& shape) {
  return !shape.unknown_rank() &&
         std::all_of(shape.dim().begin(), shape.dim().end(), [](const auto& dim) { return dim.size() >= 0; });
}

Variables variables_of(const GraphDef& graph, const Step& step) {
  const auto n = static_cast<std::uint32_t>(step.inputs.size());
  Variables found;
  found.kind.assign(n, nullptr);
  Gradients gradients{graph, step};
  const auto variable_of = [&](const Edge& edge) {
    return edge.control ? kNoNode : step.variable[edge.node];
  };
  const auto optimiser = [&](const std::vector<Edge>& inputs, std::uint32_t target) {
    found.trains = true;
    found.kind[target] = kParameter;
    for (std::size_t k = 1; k < inputs.size(); ++k)
      if (const std::uint32_t slot = variable_of(inputs[k]); slot != kNoNode && found.kind[slot] == nullptr)
        found.kind[slot] = kSlot;
  };
  // An optimiser of plain assignments writes its slots first and reads them again for the weight.
  for (int round = 0, fresh = 1; fresh > 0 && round < kMaxRounds; ++round) {
    fresh = 0;
    std::vector<bool> slots(n, false);
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::string& type = graph.node(static_cast<int>(i)).op();
      const auto& inputs = step.inputs[i];
      if (!is_update(type) || step.one_off[i] || inputs.empty()) continue;
      const std::uint32_t target = variable_of(inputs[0]);
      if (target == kNoNode) continue;
      if (is_optimizer(type)) {
        if (round == 0) optimiser(inputs, target);
        continue;
      }
      const bool of_gradient = std::any_of(inputs.begin() + 1, inputs.end(), [&](const Edge& edge) {
        return !edge.control && gradients.behind[edge.node];
      });
      if (!of_gradient || found.kind[target] != nullptr) continue;
      found.trains = found.trains || gradients.before[target];
      found.kind[target] = gradients.before[target] ? kParameter : kSlot;
      slots[target] = !gradients.before[target];
      fresh += slots[target] ? 1 : 0;
    }
    gradients.spread(slots);
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    if (step.role[i] == Role::kPlaceholder) found.kind[i] = "Input";
    if (step.role[i] != Role::kVariable) continue;
    found.any = true;
    if (found.kind[i] == nullptr) found.kind[i] = found.trains ? "Buffer" : "Parameter";
  }
  return found;
}

std::unordered_map<std::uint32_t, OpDef::DtypeAndShape> variable_sizes(const GraphDef& graph,
                                                                       const Step& step,
                                                                       const Inlined& inlined) {
  std::unordered_map<std::uint32_t, OpDef::DtypeAndShape> sizes;
  const auto consider = [&](std::uint32_t variable, DataType type, const TensorShapeProto& shape) {
    const auto [it, fresh] = sizes.try_emplace(variable);
    if (!fresh && elements(it->second.shape()) >= elements(shape)) return;
    it->second.set_dtype(type);
    *it->second.mutable_shape() = shape;
  };
  for (std::uint32_t i = 0; i < step.inputs.size(); ++i) {
    const NodeDef& node = graph.node(static_cast<int>(i));
    if (step.variable[i] != kNoNode) {
      const auto it = inlined.variables.find(node.name());
      if (it != inlined.variables.end() && is_complete(it->second.shape()))
        consider(step.variable[i], it->second.dtype(), it->second.shape());
    }
    if (step.inputs[i].empty() || step.inputs[i][0].control || !uses_variable(node.op())) continue;
    const std::uint32_t variable = step.variable[step.inputs[i][0].node];
    if (variable == kNoNode) continue;
    const AttrValue* type = find(node, "dtype");
    if (type == nullptr) type = find(node, "T");
    if (type == nullptr) continue;
    if (node.op() == "ReadVariableOp")
      if (const TensorShapeProto* shape = listed_shape(node, 0)) consider(variable, type->type(), *shape);
    if (!node.op().starts_with("Assign") && !is_optimizer(node.op())) continue;
    if (node.op().find("Sparse") != std::string::npos) continue;  // Sparse updates write only a part.
    for (std::size_t k = 1; k < step.inputs[i].size(); ++k) {
      const Edge& edge = step.inputs[i][k];
      if (edge.control || step.variable[edge.node] != kNoNode) continue;
      const TensorShapeProto* shape = listed_shape(graph.node(static_cast<int>(edge.node)), edge.output);
      if (shape != nullptr) consider(variable, type->type(), *shape);
    }
  }
  return sizes;
}

}  // namespace emplace::tf
