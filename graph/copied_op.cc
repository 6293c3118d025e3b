#include "graph/copied_op.h"

namespace emplace {

OpSpec copied_op(const OpGraph& graph, OpId op) {
  OpSpec spec;
  spec.name = graph.name(op);
  spec.type = graph.type_name(op);
  for (const TensorId tensor : graph.inputs(op)) {
    const OpId producer = graph.producer(tensor);
    const auto maker = static_cast<std::uint32_t>(index(producer));
    spec.inputs.push_back(
        {maker, static_cast<std::uint32_t>(index(tensor) - index(graph.first_output(producer)))});
  }
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
    const TensorId tensor = graph.output(op, k);
    const auto shape = graph.shape(tensor);
    spec.outputs.push_back({.dtype = graph.dtype(tensor), .shape = {shape.begin(), shape.end()}});
  }
  spec.attrs_json = graph.attrs_json(op);
  spec.view = graph.is_view(op);
  spec.conv_groups = graph.conv_groups(op);
  spec.flops = graph.flops(op);
  spec.param_bytes = graph.param_bytes(op);
  spec.group = graph.group_name(op);
  spec.phase = graph.phase(op);
  spec.colocate = graph.colocated_with(op);
  for (std::size_t c = 0; c < graph.measured_classes().size(); ++c) {
    const double us = graph.measured_us(op, c);
    if (us == us) spec.measured_us.emplace_back(graph.measured_classes()[c], us);
  }
  for (const TensorId result : graph.results(op))
    spec.results.push_back(static_cast<std::uint32_t>(index(result) - index(graph.first_output(op))));
  spec.has_allowed_devices = graph.has_allowed_devices(op);
  if (spec.has_allowed_devices) {
    const auto devices = graph.allowed_devices(op);
    spec.allowed_devices.assign(devices.begin(), devices.end());
  }
  return spec;
}

}  // namespace emplace
