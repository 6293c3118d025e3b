#include "graph/training/micro_batch.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "graph/copied_op.h"
#include "graph/training/passes.h"

namespace emplace {
namespace {

/// Whether an op may have been added for micro-batches: its name ends in "@gradient", "@accumulate" or "@"
/// and a number.
bool has_name_of_micro_batch(std::string_view name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string_view::npos) return false;
  const std::string_view end = name.substr(at);
  return end == kGradient || end == kAccumulate ||
         (end.size() > 1 && end.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

/// Whether the phases of a graph make a step, and its names leave room for what is added.
Result<Unit> check_step(const OpGraph& graph) {
  constexpr const char* kWhat = "micro-batches";
  if (!graph.ids_are_topological())
    return invalid(kWhat, "need a graph that lists producers before their readers");
  bool backward = false, update = false;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const Phase phase = graph.phase(OpId{i});
    backward = backward || phase == Phase::kBackward;
    update = update || phase == Phase::kUpdate;
    for (const TensorId input : graph.inputs(OpId{i}))
      if (const OpId read = graph.producer(input); phase < graph.phase(read))
        return invalid(quoted_op(graph, OpId{i}),
                       "of the phase " + std::string{phase_name(phase)} + " reads the result of " +
                           quoted_op(graph, read) + " of the phase " +
                           std::string{phase_name(graph.phase(read))},
                       "correct the phase of one of them");
    if (has_name_of_micro_batch(graph.name(OpId{i})))
      return invalid(quoted_op(graph, OpId{i}), "is called as what micro-batches add",
                     "use the graph of one micro-batch");
  }
  if (backward && update) return Unit{};
  return invalid(kWhat,
                 std::string{"need a training step, and no op of this graph has the phase "} +
                     (backward ? "update" : "backward"),
                 "trace a whole step: em.trace, emplace import --train, or generate --training");
}

/// Builds the graph of a micro-batch, op by op in the order of the original graph.
class Accumulator {
 public:
  Accumulator(const OpGraph& graph, std::span<const std::uint32_t> micro_batches)
      : graph_{graph}, micro_batches_{micro_batches}, passes_{graph}, sum_of_(graph.num_tensors(), kNoOp) {}

  Result<MicroBatchGraph> run() {
    EMPLACE_TRY(check_step(graph_));
    now_.assign(graph_.num_ops(), kNoOp);
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op{i};
      OpSpec spec = copied_op(graph_, op);
      spec.results.clear();  // What a micro-batch returns is not kept.
      const auto inputs = graph_.inputs(op);
      for (std::size_t k = 0; k < inputs.size(); ++k) spec.inputs[k] = edge(op, inputs[k]);
      if (spec.colocate != kNoOp)
        colocated_.emplace_back(builder_.size(), std::exchange(spec.colocate, kNoOp));
      now_[i] = add(std::move(spec), op, passes_.each[i]);
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k)
        if (passes_.is_gradient[index(graph_.output(op, k))]) accumulate(op, k);
    }
    for (const auto& [op, with] : colocated_)
      builder_[OpId{static_cast<std::uint32_t>(op)}].colocate = now_[index(with)];
    builder_.set_name(graph_.name()).set_source(graph_.source()).set_meta_json(graph_.meta_json());
    EMPLACE_TRY_ASSIGN(OpGraph graph, std::move(builder_).build());
    std::vector<std::uint32_t> runs(graph.num_ops(), 1);
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (each_of_[i]) runs[i] = micro_batches_[index(source_[i])];
    return MicroBatchGraph{std::move(graph), std::move(source_), std::move(each_of_), std::move(runs)};
  }

 private:
  EdgeSpec edge(OpId reader, TensorId tensor) const {
    const OpId op = graph_.producer(tensor);
    if (graph_.phase(reader) == Phase::kUpdate && passes_.is_gradient[index(tensor)])
      return {static_cast<std::uint32_t>(index(sum_of_[index(tensor)])), 0};
    return {static_cast<std::uint32_t>(index(now_[index(op)])),
            static_cast<std::uint32_t>(index(tensor) - index(graph_.first_output(op)))};
  }

  OpId add(OpSpec spec, OpId source, bool each) {
    source_.push_back(source);
    each_of_.push_back(each);
    return builder_.add(std::move(spec));
  }

  /// Adds the sum of a gradient, and the op that adds output `k` of `op` to it.
  void accumulate(OpId op, std::size_t k) {
    const TensorId tensor = graph_.output(op, k);
    const OpId source = maker_of(graph_, tensor);
    const std::string name = std::string{graph_.name(op)} + (k > 0 ? "#" + std::to_string(k) : "");
    const auto shape = graph_.shape(tensor);
    const TensorSpec like{graph_.dtype(tensor), {shape.begin(), shape.end()}};
    const std::string group{graph_.group_name(op)};
    OpSpec sum{.name = name + std::string{kGradient},
               .type = "OptimizerState",
               .outputs = {like},
               .group = group,
               .colocate = now_[index(source)]};
    const OpId gradient = add(std::move(sum), source, false);
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    OpSpec addition{
        .name = name + std::string{kAccumulate},
        .type = "aten::add",
        .inputs = {{static_cast<std::uint32_t>(index(gradient)), 0},
                   {static_cast<std::uint32_t>(index(now_[index(op)])), static_cast<std::uint32_t>(k)}},
        .outputs = {like},
        .flops = elements,
        .group = group,
        .phase = Phase::kUpdate,  // It writes in place.
        .colocate = now_[index(source)]};
    sum_of_[index(tensor)] = add(std::move(addition), source, true);
  }

  const OpGraph& graph_;
  const std::span<const std::uint32_t> micro_batches_;
  const TrainingPasses passes_;
  OpGraphBuilder builder_;
  std::vector<OpId> source_;   // [ops of the new graph]
  std::vector<bool> each_of_;  // [ops of the new graph]
  std::vector<OpId> sum_of_;   // [tensors] The op that adds it up; kNoOp: none.
  std::vector<OpId> now_;      // [ops] Their numbers in the new graph.
  std::vector<std::pair<std::size_t, OpId>> colocated_;
};

}  // namespace

std::int64_t batch_of(const OpGraph& graph) {
  const auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object()) return 0;
  const auto batch = meta.find("batch");
  return batch != meta.end() && batch->is_number_integer() ? batch->get<std::int64_t>() : 0;
}

Result<Unit> check_micro_batches(const OpGraph& graph) {
  EMPLACE_TRY(micro_batch_graph(graph, 1));
  return Unit{};
}

Result<MicroBatchGraph> micro_batch_graph(const OpGraph& graph, std::uint32_t micro_batches) {
  return micro_batch_graph(graph, std::vector<std::uint32_t>(graph.num_ops(), micro_batches));
}

Result<MicroBatchGraph> micro_batch_graph(const OpGraph& graph,
                                          std::span<const std::uint32_t> micro_batches) {
  return Accumulator{graph, micro_batches}.run();
}

}  // namespace emplace
