#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/task.h"
#include "executor/polled_executor.h"
#include "messages/placement_measured.h"

namespace emplace::actors {

/// Placements of one graph to measure.
struct Batch {
  std::string graph_sha256;
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::uint32_t count = 0;
};

/// Measures batches with one executor per graph, created on first use. Thread: one.
class Measurer {
 public:
  Measurer(TaskPtr task, std::string kind, ExecutorFactory factory);
  /// Starts a batch of placements [count, ops]. `next`: placements of the same graph that are measured after
  /// it; empty: unknown. @pre the previous batch is done.
  void start(const Batch& batch, messages::SharedBytes placements, messages::SharedBytes next = {});
  /// Returns the result once all placements are measured. Most executors measure synchronously; a polled one
  /// (executor/polled_executor.h) is polled once and never waited for. Failures are in the result's `error`;
  /// executor, lease and wall time are left to the caller.
  std::optional<messages::PlacementMeasured> poll();
  /// Number of placements of the current batch that are measured.
  std::uint32_t done() const { return done_; }
  /// Whether measuring has failed for good: the executor's processes keep crashing.
  bool broken() const { return broken_; }

 private:
  Result<bool> measure_next();
  std::span<const DeviceId> after_current() const;

  const TaskPtr task_;
  const std::string kind_;
  const ExecutorFactory factory_;
  /// Executors by graph. A polled one owns a process and devices, so only the last of those is kept.
  std::map<std::string, std::unique_ptr<Executor>> executors_;
  Executor* executor_ = nullptr;
  PolledExecutor* polled_ = nullptr;  // executor_, if it is a polled one.
  bool waiting_ = false;              // A measurement of polled_ is running.
  bool broken_ = false;

  // Current batch.
  messages::SharedBytes placements_, next_;
  std::size_t ops_ = 0;
  std::uint32_t done_ = 0;
  messages::PlacementMeasured out_;
  Measurement measurement_;
};

}  // namespace emplace::actors
