#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "actors/task.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"

namespace emplace::actors {

/// Executors of every graph of a task, made when first needed, asked by message. Thread: one.
class Measurer {
 public:
  Measurer(TaskPtr task, std::string kind, ExecutorFactory factory);
  /// Measures `proposal.count` placements [count, ops]. What went wrong stands in the result's `error`; its
  /// executor's name and its wall time are the caller's to fill in.
  messages::PlacementMeasured measure(const messages::PlacementProposed& proposal,
                                      std::span<const std::byte> placements);

 private:
  const TaskPtr task_;
  const std::string kind_;
  const ExecutorFactory factory_;
  std::map<std::string, std::unique_ptr<Executor>> executors_;  ///< By graph.
  Measurement measurement_;
};

}  // namespace emplace::actors
