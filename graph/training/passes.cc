#include "graph/training/passes.h"

#include "graph/op_role.h"

namespace emplace {
namespace {

bool is_kernel(const OpGraph& graph, OpId op) {
  return !graph.is_state(op) && (!graph.is_view(op) || graph.inputs(op).empty());
}

/// Whether a state op is an input of the model. A parameter of an HLO module may as well be a weight.
bool is_input(const OpGraph& graph, OpId op) {
  if (!graph.is_state(op) || !graph.inputs(op).empty()) return false;
  const OpRole role = role_of_type(graph.type_name(op));
  return role.kind != nullptr && role.kind->state == StateKind::kInput && role.vocabulary != Vocabulary::kHlo;
}

}  // namespace

OpId maker_of(const OpGraph& graph, TensorId tensor) {
  OpId op = graph.producer(tensor);
  while (!is_kernel(graph, op) && !graph.inputs(op).empty()) op = graph.producer(graph.inputs(op)[0]);
  return op;
}

TrainingPasses::TrainingPasses(const OpGraph& graph)
    : each(graph.num_ops(), false), is_gradient(graph.num_tensors(), false) {
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    const bool update = graph.phase(op) == Phase::kUpdate, kernel = is_kernel(graph, op);
    if (kernel) each[i] = !update;
    for (const TensorId input : graph.inputs(op)) {
      const OpId producer = graph.producer(input);
      if (update) {
        is_gradient[index(input)] =
            is_gradient[index(input)] || (each[index(producer)] && is_kernel(graph, maker_of(graph, input)));
      } else if (each[i] || !kernel) {
        // An input of the model that a pass reads is that of its micro-batch, and so are its views.
        if (is_input(graph, producer)) each[index(producer)] = true;
        each[i] = each[i] || each[index(producer)];
      }
    }
  }
}

}  // namespace emplace
