#include "lab/towers/towers_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "graph/training/micro_batch.h"
#include "placement/machine/cost_model.h"

namespace emplace {
namespace {

bool is_input(const OpGraph& graph, OpId op) { return graph.is_state(op) && graph.type_name(op) == "Input"; }

/// [ops] True for ops that depend on parameters only: the same in every tower, whatever the batch.
std::vector<bool> made_of_parameters(const OpGraph& graph) {
  std::vector<bool> alone(graph.num_ops(), false);
  for (const OpId op : graph.topological_order()) {
    const auto inputs = graph.inputs(op);
    alone[index(op)] = inputs.empty() ? graph.is_state(op) && !is_input(graph, op)
                                      : std::all_of(inputs.begin(), inputs.end(), [&](TensorId input) {
                                          return alone[index(graph.producer(input))];
                                        });
  }
  return alone;
}

/// [tensors] True for the gradients that updates read. Also marks in `full` the sums and views that lead to
/// them, which have a parameter's size in every tower.
std::vector<bool> exchanged(const OpGraph& graph, std::vector<bool>& full) {
  std::vector<bool> gradient(graph.num_tensors(), false);
  std::vector<TensorId> open;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.phase(OpId{i}) != Phase::kUpdate) continue;
    for (const TensorId input : graph.inputs(OpId{i})) {
      const OpId maker = graph.producer(input);
      if (graph.phase(maker) == Phase::kUpdate || graph.is_state(maker) || gradient[index(input)]) continue;
      gradient[index(input)] = true;
      open.push_back(input);
    }
  }
  while (!open.empty()) {
    const TensorId tensor = open.back();
    open.pop_back();
    if (full[index(tensor)]) continue;
    full[index(tensor)] = true;
    const OpId maker = graph.producer(tensor);
    if (graph.phase(maker) != Phase::kBackward) continue;
    if (!graph.is_view(maker) && classify(graph, maker) != OpClass::kElementwise) continue;
    for (const TensorId input : graph.inputs(maker))
      if (graph.bytes(input) == graph.bytes(tensor)) open.push_back(input);
  }
  return gradient;
}

class Builder {
 public:
  Builder(const OpGraph& graph, TowersOptions options, std::int64_t batch)
      : graph_{graph},
        options_{options},
        batch_{batch},
        tower_batch_{(batch + static_cast<std::int64_t>(options.towers) - 1) /
                     static_cast<std::int64_t>(options.towers)},
        alone_{made_of_parameters(graph)},
        full_(graph.num_tensors(), false),
        gradient_{exchanged(graph, full_)},
        copies_(graph.num_ops() * options.towers, 0),
        sum_(graph.num_tensors(), kNoOp) {}

  Result<TowersGraph> build() && {
    builder_.set_name(fmt::format("{}-towers{}", graph_.name(), options_.towers)).set_source(graph_.source());
    builder_.reserve(graph_.num_ops() * options_.towers);
    for (const OpId op : graph_.topological_order()) add_copies(op);
    EMPLACE_TRY_ASSIGN(auto graph, std::move(builder_).build());
    return TowersGraph{std::move(graph), std::move(original_), std::move(tower_), std::move(on_server_),
                       batch_,           tower_batch_};
  }

 private:
  /// True for the parts that all towers share unless mirrored.
  bool is_shared(OpId op) const {
    if (options_.mirrored) return false;
    if (graph_.phase(op) == Phase::kUpdate && !graph_.is_state(op)) return options_.synchronous;
    return graph_.is_state(op) && !is_input(graph_, op) && graph_.type_name(op) != "Buffer";
  }
  /// Index of the dimension to divide; -1: none.
  std::ptrdiff_t divided(TensorId tensor) const {
    const OpId maker = graph_.producer(tensor);
    if (full_[index(tensor)] || alone_[index(maker)] || graph_.phase(maker) == Phase::kUpdate) return -1;
    const auto shape = graph_.shape(tensor);
    auto at = std::find(shape.begin(), shape.end(), batch_);
    if (at == shape.end())
      at = std::find_if(shape.begin(), shape.end(), [&](std::int64_t n) { return n > 0 && n % batch_ == 0; });
    return at == shape.end() ? -1 : at - shape.begin();
  }
  bool divides(OpId op) const {
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k)
      if (divided(graph_.output(op, k)) >= 0) return true;
    const auto inputs = graph_.inputs(op);
    return graph_.phase(op) != Phase::kUpdate &&
           std::any_of(inputs.begin(), inputs.end(), [&](TensorId input) { return divided(input) >= 0; });
  }

  void add_copies(OpId op) {
    if (graph_.phase(op) == Phase::kUpdate) add_sums(op);
    const bool shared = is_shared(op);
    for (std::size_t t = 0; t < options_.towers; ++t) {
      const std::uint32_t before = static_cast<std::uint32_t>(builder_.size());
      copies_[index(op) * options_.towers + t] =
          shared && t > 0 ? copies_[index(op) * options_.towers] : before;
      if (shared && t > 0) continue;
      builder_.add(copy(op, t, shared));
      // Asynchronous updates run where the parameters are, each as the last op of its tower.
      const bool served = shared || (!options_.mirrored && graph_.phase(op) == Phase::kUpdate);
      note(op, shared ? TowersGraph::kNone : static_cast<std::int32_t>(t), served);
    }
  }

  OpSpec copy(OpId op, std::size_t tower, bool shared) const {
    const double share = divides(op) ? static_cast<double>(tower_batch_) / static_cast<double>(batch_) : 1.0;
    OpSpec spec;
    spec.name = shared ? std::string{graph_.name(op)} : fmt::format("tower{}/{}", tower, graph_.name(op));
    spec.type = graph_.type_name(op);
    spec.attrs_json = graph_.attrs_json(op);
    spec.view = graph_.is_view(op);
    spec.conv_groups = graph_.conv_groups(op);
    spec.flops = std::llround(static_cast<double>(graph_.flops(op)) * share);
    spec.param_bytes = is_input(graph_, op)
                           ? std::llround(static_cast<double>(graph_.param_bytes(op)) * share)
                           : graph_.param_bytes(op);
    spec.group = graph_.group_name(op);
    spec.phase = graph_.phase(op);
    for (std::size_t c = 0; c < graph_.measured_classes().size(); ++c) {
      const double us = graph_.measured_us(op, c);
      if (us >= 0) spec.measured_us.emplace_back(graph_.measured_classes()[c], us * share);
    }
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
      const TensorId tensor = graph_.output(op, k);
      const auto shape = graph_.shape(tensor);
      TensorSpec output{graph_.dtype(tensor), {shape.begin(), shape.end()}};
      if (const std::ptrdiff_t d = divided(tensor); d >= 0) {
        std::int64_t& size = output.shape[static_cast<std::size_t>(d)];
        size = size / batch_ * tower_batch_;
      }
      spec.outputs.push_back(std::move(output));
    }
    for (const TensorId input : graph_.inputs(op)) spec.inputs.push_back(edge(op, input, tower));
    return spec;
  }

  EdgeSpec edge(OpId reader, TensorId tensor, std::size_t tower) const {
    const OpId maker = graph_.producer(tensor);
    if (graph_.phase(reader) == Phase::kUpdate && sum_[index(tensor)] != kNoOp)
      return {static_cast<std::uint32_t>(index(sum_[index(tensor)])), 0};
    return {copies_[index(maker) * options_.towers + tower],
            static_cast<std::uint32_t>(index(tensor) - index(graph_.first_output(maker)))};
  }

  /// Adds the sums over towers of the gradients that this update reads.
  void add_sums(OpId update) {
    if (!options_.synchronous) return;
    for (const TensorId input : graph_.inputs(update)) {
      if (!gradient_[index(input)] || sum_[index(input)] != kNoOp) continue;
      const OpId maker = graph_.producer(input);
      OpSpec spec;
      spec.name =
          fmt::format("sum/{}/{}", graph_.name(maker), index(input) - index(graph_.first_output(maker)));
      spec.type = "aten::add";
      spec.phase = Phase::kBackward;
      spec.group = graph_.group_name(update);
      const auto shape = graph_.shape(input);
      spec.outputs = {{graph_.dtype(input), {shape.begin(), shape.end()}}};
      spec.flops = graph_.bytes(input) / element_bytes(graph_.dtype(input)) *
                   static_cast<std::int64_t>(options_.towers - 1);
      for (std::size_t t = 0; t < options_.towers; ++t) spec.inputs.push_back(edge(maker, input, t));
      sum_[index(input)] = builder_.add(std::move(spec));
      note(update, TowersGraph::kNone, true);
    }
  }

  void note(OpId original, std::int32_t tower, bool on_server) {
    original_.push_back(original);
    tower_.push_back(tower);
    on_server_.push_back(on_server);
  }

  const OpGraph& graph_;
  const TowersOptions options_;
  const std::int64_t batch_, tower_batch_;
  const std::vector<bool> alone_;
  std::vector<bool> full_;             // [tensors]
  const std::vector<bool> gradient_;   // [tensors]
  std::vector<std::uint32_t> copies_;  // [ops, towers]
  std::vector<OpId> sum_;              // [tensors]
  OpGraphBuilder builder_;
  std::vector<OpId> original_;
  std::vector<std::int32_t> tower_;
  std::vector<bool> on_server_;
};

}  // namespace

Result<TowersGraph> towers_graph(const OpGraph& graph, TowersOptions options) {
  if (options.towers == 0 || (options.mirrored && !options.synchronous))
    return invalid("towers", "asynchronous towers share their parameters", "set mirrored to false");
  const std::int64_t batch = batch_of(graph);
  if (batch <= 0)
    return Error{Errc::kNoPlacement, graph.name() + ": batch size is unknown; towers need meta.batch"};
  if (batch < static_cast<std::int64_t>(options.towers)) {
    return Error{Errc::kNoPlacement, fmt::format("{}: a batch of {} cannot be divided among {} towers",
                                                 graph.name(), batch, options.towers)};
  }
  return Builder{graph, options, batch}.build();
}

}  // namespace emplace
