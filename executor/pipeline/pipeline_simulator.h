#pragma once
/// Measures placements by steps of several micro-batches (docs/reference/pipelines.md).

#include <memory>
#include <span>
#include <string_view>

#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/pipeline/pipeline_order.h"
#include "placement/pipeline/unrolled.h"

namespace emplace {

/// A placement's stages are where it changes devices. The time is that of the whole step: all micro-batches
/// and the update. Replicas that have one micro-batch each are a plain step, in which gradients are exchanged
/// during the backward pass. Thread: construct anywhere, then one thread at a time. `graph` and
/// `devices` must outlive it.
class PipelineSimulator final : public Executor {
 public:
  /// @pre check_micro_batches(graph), check_strategy(strategy, devices).
  PipelineSimulator(const OpGraph& graph, const DeviceSet& devices, const Strategy& strategy);
  ~PipelineSimulator() override;
  PipelineSimulator(const PipelineSimulator&) = delete;
  PipelineSimulator& operator=(const PipelineSimulator&) = delete;

  std::string_view kind() const override { return "sim"; }
  /// Errors: kInvalid if the length is not the number of ops, a device is out of range, or is not one of the
  /// first replica; those of unroll().
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override;

  /// The step as an ordinary graph, made of that of micro_batch(). Errors: as measure(); those
  /// of unrolled().
  Result<UnrolledGraph> unroll(std::span<const DeviceId> placement) const;
  /// The graph of a micro-batch of all replicas. Its `source` are ops of the original graph.
  const MicroBatchGraph& micro_batch() const;
  /// The stages of a placement, of all replicas. Errors: as measure().
  Result<Chunks> chunks(std::span<const DeviceId> placement) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emplace
