#include "placement/dataflow.h"

#include <unordered_map>

namespace emplace {
namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

}  // namespace

Dataflow::Dataflow(const OpGraph& graph)
    : graph_{&graph}, kernel_(graph.num_ops()), base_(graph.num_tensors()), resident_bytes_(graph.num_ops()) {
  const std::size_t n = graph.num_ops();
  std::vector<TensorId> buffer_of(graph.num_tensors());
  std::unordered_map<std::uint32_t, std::vector<TensorId>> waits_of;  // Views of several inputs; rare.
  for (const OpId op : graph.topological_order()) {
    const auto inputs = graph.inputs(op);
    const bool state = graph.is_state(op) && inputs.empty();
    const bool view = !state && graph.is_view(op) && !inputs.empty();
    kernel_[index(op)] = !state && !view;
    if (kernel_[index(op)]) resident_bytes_[index(op)] = graph.param_bytes(op);
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId tensor = graph.output(op, k);
      buffer_of[index(tensor)] = base_[index(tensor)] = tensor;
      if (state) resident_bytes_[index(op)] += graph.bytes(tensor);
      if (!view) continue;
      const TensorId of = buffer_of[index(inputs[0])];
      base_[index(tensor)] = base(of);
      if (graph.bytes(tensor) >= graph.bytes(of)) buffer_of[index(tensor)] = of;
      std::vector<TensorId> waits;
      for (const TensorId input : inputs) {
        const TensorId buffer = buffer_of[index(input)];
        if (buffer != of && !is_state(buffer)) waits.push_back(buffer);
        const auto inherited = waits_of.find(static_cast<std::uint32_t>(index(input)));
        if (inherited != waits_of.end())
          waits.insert(waits.end(), inherited->second.begin(), inherited->second.end());
      }
      if (!waits.empty()) waits_of.emplace(static_cast<std::uint32_t>(index(tensor)), std::move(waits));
    }
  }
  std::vector<std::uint32_t> seen(graph.num_tensors(), kNone);
  read_begin_.reserve(n + 1);
  for (std::uint32_t op = 0; op < n; ++op) {
    read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
    if (!kernel_[op]) continue;
    const auto read = [&](TensorId buffer) {
      if (seen[index(buffer)] == op) return;
      seen[index(buffer)] = op;
      reads_.push_back(buffer);
    };
    for (const TensorId input : graph.inputs(OpId{op})) {
      read(buffer_of[index(input)]);
      const auto waits = waits_of.find(static_cast<std::uint32_t>(index(input)));
      if (waits == waits_of.end()) continue;
      for (const TensorId buffer : waits->second) read(buffer);
    }
  }
  read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
}

std::int64_t Dataflow::held_bytes(TensorId buffer) const {
  return graph_->phase(owner(buffer)) == Phase::kUpdate ? 0 : graph_->bytes(base(buffer));
}

}  // namespace emplace
