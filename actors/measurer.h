#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/task.h"
#include "executor/polled_executor.h"
#include "messages/placement_measured.h"

namespace emplace::actors {

/// Placements of one graph to be measured.
struct Batch {
  std::string graph_sha256;
  std::uint64_t placement_id = 0;  ///< Id of the first placement.
  std::uint32_t count = 0;
};

/// Executors of every graph of a task, made when first needed, asked by message. Thread: one.
class Measurer {
 public:
  Measurer(TaskPtr task, std::string kind, ExecutorFactory factory);
  /// Takes on a batch of placements [count, ops]. @pre what was taken on before is done.
  void begin(const Batch& batch, messages::SharedBytes placements);
  /// What they cost, once all of them are measured: at once, but for executors that are polled
  /// (executor/polled_executor.h), which are looked at, never waited for. What went wrong stands in the
  /// result's `error`; executor, lease and wall time are the caller's to fill in.
  std::optional<messages::PlacementMeasured> poll();
  /// Nothing will be measured here any more: an executor's processes die again and again.
  bool broken() const { return broken_; }

 private:
  Result<bool> measure_next();

  const TaskPtr task_;
  const std::string kind_;
  const ExecutorFactory factory_;
  /// By graph. A polled one has a process and devices of its own, so of those only the last one stays.
  std::map<std::string, std::unique_ptr<Executor>> executors_;
  Executor* executor_ = nullptr;
  PolledExecutor* polled_ = nullptr;  // The same, if it is one.
  bool waiting_ = false;              // For polled_.
  bool broken_ = false;

  // Of what was taken on.
  messages::SharedBytes placements_;
  std::size_t ops_ = 0;
  std::uint32_t done_ = 0;
  messages::PlacementMeasured out_;
  Measurement measurement_;
};

}  // namespace emplace::actors
