#include "executor/pipeline/pipeline_simulator.h"

#include "base/check.h"
#include "executor/pipeline/lifted_step.h"
#include "executor/sim/simulator.h"

namespace emplace {
namespace {

MicroBatchGraph checked(Result<MicroBatchGraph> graph) {
  EMPLACE_CHECK(graph.ok(), "a pipeline needs a graph that was checked");
  return *std::move(graph);
}

}  // namespace

struct PipelineSimulator::State {
  State(const OpGraph& graph, const DeviceSet& devices_in, const Strategy& strategy_in)
      : strategy{strategy_in},
        devices{devices_in},
        micro_batch{checked(micro_batch_graph(graph))},
        tables{micro_batch.graph, devices_in},
        lifted{micro_batch, tables, strategy_in.micro_batches},
        num_ops{graph.num_ops()},
        placed(micro_batch.graph.num_ops()) {}

  /// Places the micro-batch's graph.
  Result<Unit> place(std::span<const DeviceId> placement) {
    EMPLACE_TRY(check_devices(placement, num_ops, devices.size()));
    for (std::size_t i = 0; i < placed.size(); ++i) placed[i] = placement[index(micro_batch.source[i])];
    return Unit{};
  }
  Result<UnrolledGraph> unroll(const Chunks& chunks, const PipelineOrder& order) const {
    return unrolled(micro_batch, tables.lowered, chunks, order, strategy.micro_batches, placed);
  }

  const Strategy strategy;
  const DeviceSet& devices;
  const MicroBatchGraph micro_batch;
  const StepTables tables;
  LiftedStep lifted;
  const std::size_t num_ops;
  Placement placed;  // [ops of the micro-batch's graph]
};

PipelineSimulator::PipelineSimulator(const OpGraph& graph, const DeviceSet& devices, const Strategy& strategy)
    : state_{std::make_unique<State>(graph, devices, strategy)} {}
PipelineSimulator::~PipelineSimulator() = default;

Result<Unit> PipelineSimulator::measure(std::span<const DeviceId> placement, Measurement& out) {
  State& own = *state_;
  EMPLACE_TRY(own.place(placement));
  const Chunks chunks = cut_into_chunks(own.micro_batch, own.tables.lowered, own.placed);
  const PipelineOrder order = pipeline_order(chunks, own.strategy, own.devices.size());
  if (LiftedStep::supports(own.devices)) {
    own.lifted.run(own.placed, chunks, order, out);
    return Unit{};
  }
  EMPLACE_TRY_ASSIGN(const UnrolledGraph step, own.unroll(chunks, order));
  return Simulator{step.graph, own.devices, CostTable{own.tables.costs, step.source}}.measure(step.placement,
                                                                                              out);
}

Result<UnrolledGraph> PipelineSimulator::unroll(std::span<const DeviceId> placement) const {
  EMPLACE_TRY(state_->place(placement));
  const Chunks chunks = cut_into_chunks(state_->micro_batch, state_->tables.lowered, state_->placed);
  return state_->unroll(chunks, pipeline_order(chunks, state_->strategy, state_->devices.size()));
}

const MicroBatchGraph& PipelineSimulator::micro_batch() const { return state_->micro_batch; }

Chunks PipelineSimulator::chunks(std::span<const DeviceId> placement) const {
  EMPLACE_CHECK(state_->place(placement).ok(), "a placement of the graph");
  return cut_into_chunks(state_->micro_batch, state_->tables.lowered, state_->placed);
}

}  // namespace emplace
