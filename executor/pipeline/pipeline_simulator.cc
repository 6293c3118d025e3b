#include "executor/pipeline/pipeline_simulator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/text/words.h"
#include "executor/pipeline/lifted_step.h"
#include "executor/sim/simulator.h"
#include "graph/training/passes.h"
#include "graph/training/replica_graph.h"

namespace emplace {
namespace {

/// The replicas whose devices have the fastest links to each other, in each position, are an island.
Islands islands_of(const std::vector<std::vector<DeviceId>>& groups, const DeviceSet& devices) {
  const std::size_t count = groups.size();
  const auto rate = [&](std::size_t a, std::size_t b, std::size_t k) {
    return devices.link(groups[a][k], groups[b][k]).bytes_per_s;
  };
  const auto near = [&](std::size_t a, std::size_t b) {
    for (std::size_t k = 0; k < groups[a].size(); ++k) {
      double fastest = 0;
      for (std::size_t other = 0; other < count; ++other)
        if (other != a) fastest = std::max(fastest, rate(a, other, k));
      if (rate(a, b, k) < fastest / 2) return false;
    }
    return true;
  };
  Islands islands;
  for (std::uint32_t r = 0; r < count; ++r) {
    const auto at = std::ranges::find_if(islands, [&](const auto& own) { return near(own.front(), r); });
    if (at != islands.end()) {
      at->push_back(r);
    } else {
      islands.push_back({r});
    }
  }
  const auto like_first = [&](const auto& island) { return island.size() == islands.front().size(); };
  if (std::ranges::all_of(islands, like_first)) return islands;
  islands.assign(1, std::vector<std::uint32_t>(count));
  std::iota(islands.front().begin(), islands.front().end(), 0u);
  return islands;
}

MicroBatchGraph checked(Result<MicroBatchGraph> graph) {
  EMPLACE_CHECK(graph.ok(), "a pipeline needs a graph that was checked");
  return *std::move(graph);
}

}  // namespace

struct PipelineSimulator::State {
  State(const OpGraph& graph, const DeviceSet& devices_in, const Strategy& strategy_in)
      : strategy{strategy_in},
        devices{devices_in},
        micro_batch{micro_batch_of(graph)},
        tables{micro_batch.graph, devices_in},
        lifted{micro_batch, tables},
        num_ops{graph.num_ops()},
        placed(micro_batch.graph.num_ops()),
        position(devices_in.size(), kNoIndex) {
    for (std::uint32_t k = 0; !strategy.replicas.empty() && k < strategy.replicas[0].size(); ++k)
      position[index(strategy.replicas[0][k])] = k;
  }

  /// The micro-batch's graph of all replicas; notes which one each op belongs to.
  MicroBatchGraph micro_batch_of(const OpGraph& graph) {
    if (strategy.replicas.empty()) return checked(micro_batch_graph(graph, strategy.micro_batches));
    ReplicaGraph replicas = replica_graph(graph, islands_of(strategy.replicas, devices));
    std::vector<std::uint32_t> micro_batches;  // [ops of all replicas]
    for (const std::uint32_t r : replicas.replica) micro_batches.push_back(strategy.share(r));
    MicroBatchGraph result = is_plain() ? MicroBatchGraph{std::move(replicas.graph)}
                                        : checked(micro_batch_graph(replicas.graph, micro_batches));
    if (is_plain()) {
      const TrainingPasses passes{result.graph};
      result.each = passes.each;
      result.runs.assign(result.graph.num_ops(), 1);
      for (std::uint32_t i = 0; i < result.graph.num_ops(); ++i) result.source.push_back(OpId{i});
    }
    for (OpId& op : result.source) {
      replica.push_back(replicas.replica[index(op)]);
      op = replicas.source[index(op)];
    }
    return result;
  }
  /// Whether replicas have one micro-batch each: their step is a plain one.
  bool is_plain() const {
    return !strategy.replicas.empty() && strategy.micro_batches == strategy.num_replicas();
  }

  /// Places the micro-batch's graph.
  Result<Unit> place(std::span<const DeviceId> placement) {
    EMPLACE_TRY(check_devices(placement, num_ops, devices.size()));
    if (strategy.replicas.empty()) {
      for (std::size_t i = 0; i < placed.size(); ++i) placed[i] = placement[index(micro_batch.source[i])];
      return Unit{};
    }
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const DeviceId device = placement[index(micro_batch.source[i])];
      const std::uint32_t at = position[index(device)];
      if (at == kNoIndex)
        return invalid(printable(devices[device].name), "is no device of the first replica");
      placed[i] = strategy.replicas[replica[i]][at];
    }
    return Unit{};
  }
  Result<UnrolledGraph> unroll(const Chunks& chunks) const {
    if (is_plain()) {
      UnrolledGraph step{micro_batch.graph, {}, placed};
      for (std::uint32_t i = 0; i < step.graph.num_ops(); ++i) step.source.push_back(OpId{i});
      return step;
    }
    return unrolled(micro_batch, tables.lowered, chunks, order(chunks), placed);
  }
  Chunks chunks() const { return cut_into_chunks(micro_batch, tables.lowered, placed); }
  PipelineOrder order(const Chunks& chunks) const {
    std::vector<std::int64_t> chunk_ns;
    for (const Chunk& chunk : chunks.chunks) {
      const std::int64_t* const row = tables.rows[index(chunk.device)];
      std::int64_t& ns = chunk_ns.emplace_back(0);
      for (const OpId op : chunk.kernels) ns += row[index(op)];
    }
    return pipeline_order(chunks, strategy, devices.size(), chunk_ns);
  }

  const Strategy strategy;
  const DeviceSet& devices;
  std::vector<std::uint32_t> replica;  // [ops of the micro-batch's graph] Empty: there is one.
  const MicroBatchGraph micro_batch;   // Its sources are ops of the graph.
  const StepTables tables;
  LiftedStep lifted;
  std::unique_ptr<Simulator> plain;  // Null until it is needed.
  const std::size_t num_ops;
  Placement placed;                     // [ops of the micro-batch's graph]
  std::vector<std::uint32_t> position;  // [devices] In the first replica; kNoIndex: not in it.
};

PipelineSimulator::PipelineSimulator(const OpGraph& graph, const DeviceSet& devices, const Strategy& strategy)
    : state_{std::make_unique<State>(graph, devices, strategy)} {}
PipelineSimulator::~PipelineSimulator() = default;

Result<Unit> PipelineSimulator::measure(std::span<const DeviceId> placement, Measurement& out) {
  State& own = *state_;
  EMPLACE_TRY(own.place(placement));
  if (own.is_plain()) {
    if (!own.plain)
      own.plain = std::make_unique<Simulator>(own.micro_batch.graph, own.devices, own.tables.costs);
    return own.plain->measure(own.placed, out);
  }
  const Chunks chunks = own.chunks();
  if (LiftedStep::supports(own.devices)) {
    own.lifted.run(own.placed, chunks, own.order(chunks), out);
    return Unit{};
  }
  EMPLACE_TRY_ASSIGN(const UnrolledGraph step, own.unroll(chunks));
  return Simulator{step.graph, own.devices, CostTable{own.tables.costs, step.source}}.measure(step.placement,
                                                                                              out);
}

Result<UnrolledGraph> PipelineSimulator::unroll(std::span<const DeviceId> placement) const {
  EMPLACE_TRY(state_->place(placement));
  return state_->unroll(state_->chunks());
}

const MicroBatchGraph& PipelineSimulator::micro_batch() const { return state_->micro_batch; }

Result<Chunks> PipelineSimulator::chunks(std::span<const DeviceId> placement) const {
  EMPLACE_TRY(state_->place(placement));
  return state_->chunks();
}

}  // namespace emplace
