#pragma once
/// The step of a pipeline without a copy of each op for each micro-batch: it is simulated action by action.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "executor/pipeline/chunk_programs.h"
#include "executor/sim/shared/step_tables.h"
#include "placement/measurement.h"
#include "placement/pipeline/pipeline_order.h"

namespace emplace {

/// Equal to the plain step of the unrolled graph (placement/pipeline/unrolled.h), to the nanosecond and the
/// byte, where every kernel takes time. Thread: one at a time. What it is made with must outlive it.
class LiftedStep {
 public:
  LiftedStep(const MicroBatchGraph& graph, const StepTables& tables);

  /// Whether the kernels of an action run without interruption there: not where copies occupy the receiving
  /// device, nor where kernels of several devices slow each other down.
  static bool supports(const DeviceSet& devices);

  /// Simulates a step. `placement` [ops of the micro-batch's graph]. O(ops + actions · their segments and
  /// copies).
  void run(std::span<const DeviceId> placement, const Chunks& chunks, const PipelineOrder& order,
           Measurement& out);

 private:
  struct Copy {
    std::uint32_t remote, instance;
  };
  struct Engine {
    std::uint32_t device;
    Copy copy{};
    bool busy = false;
  };
  struct Lane {
    std::int64_t level = 0, peak = 0, busy_ns = 0;  ///< The level without what the running segment changes.
    std::int64_t start_ns = 0;                      ///< Start of the running segment.
    std::int64_t seen_ns = 0;                       ///< Its levels count up to here.
    std::uint32_t segment = kNoIndex,
                  end_segment = kNoIndex;  ///< Next one of the action, and behind its last one.
    std::uint32_t action = 0;              ///< Number of the running or next action of the device.
    bool running = false, awake = false;
    simulated::Queue<Copy> copies;
  };

  // The step, in order.
  void start_step();
  void count_references();
  void queue_state();
  void run_rounds();
  void write_result(Measurement& out) const;

  /// A part of state that waits for a micro-batch is that of the micro-batch.
  bool is_each(std::uint32_t buffer) const { return graph_.each[producer(buffer)]; }
  std::uint32_t runs(std::uint32_t buffer) const { return graph_.runs[producer(buffer)]; }
  std::size_t producer(std::uint32_t buffer) const {
    return index(tables_.graph.producer(tables_.lowered.tensor(BufferId{buffer})));
  }
  std::uint32_t device_of(std::uint32_t op) const {
    return static_cast<std::uint32_t>(index(placement_[op]));
  }
  std::uint32_t source_of(const Copy& copy) const {
    return device_of(tables_.buffers[programs_.remotes[copy.remote].buffer].owner);
  }
  simulated::LinkQueues::Route route_of(const Copy& copy) const {
    return tables_.routes.between(source_of(copy), programs_.remotes[copy.remote].target);
  }
  /// Number of the instance of a tensor that the action reads or makes.
  std::uint32_t instance(std::uint32_t buffer, const Action& action) const {
    if (!is_each(buffer)) return 0;
    return (*chunks_)[action.chunk].runs_once() ? runs(buffer) - 1 : action.micro_batch;
  }
  std::uint32_t at(std::uint32_t row, std::uint32_t instance) const { return row * most_runs_ + instance; }
  const Action& action_of(std::uint32_t device) const {
    return order_->actions[order_->of_device[device][lanes_[device].action]];
  }
  bool is_sent(const ChunkPrograms::Remote& remote, std::uint32_t instance) const {
    return remote.readers.each > 0 || !is_each(remote.buffer) || instance == runs(remote.buffer) - 1;
  }

  void start_segment(std::uint32_t device);
  void end_segment(std::uint32_t device);
  void see(Lane& lane) const;
  void change(std::uint32_t device, std::int64_t bytes);
  void send(std::uint32_t buffer, std::uint32_t micro_batch);
  void drop(std::uint32_t counter, std::uint32_t instance);
  void queue(const Copy& copy);
  void take_copies(std::uint32_t device);
  void take_copy(std::uint32_t engine);
  void start_copy(std::uint32_t engine);
  void end_copy(std::uint32_t engine);
  void end_at(std::int64_t ns, std::uint32_t what);

  const MicroBatchGraph& graph_;
  const StepTables& tables_;
  const std::uint32_t most_runs_;  // The most that an op has.

  // Of a step.
  std::span<const DeviceId> placement_;
  const Chunks* chunks_ = nullptr;
  const PipelineOrder* order_ = nullptr;
  ChunkPrograms programs_;
  std::int64_t now_ns_ = 0, bytes_moved_ = 0;
  std::vector<Lane> lanes_;  // [devices]
  std::vector<Engine> engines_;
  simulated::LinkQueues links_;
  std::vector<std::uint32_t> runs_on_;     // [devices] Micro-batches.
  std::vector<std::uint32_t> waits_;       // [chunks, micro-batches] Copies that have not arrived.
  std::vector<std::uint32_t> position_;    // [chunks, micro-batches] Of the action in the order.
  std::vector<std::uint32_t> left_;        // [counters, micro-batches] References.
  std::vector<std::uint32_t> counter_of_;  // [buffers] Of a whole tensor at home; kNoIndex: none.
  /// A heap: when, and 2 · device for a segment, 2 · device + 1 for a copy of its first engine, then other
  /// engines.
  std::vector<std::pair<std::int64_t, std::uint32_t>> ends_;
};

}  // namespace emplace
