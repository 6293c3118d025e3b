#pragma once
/// Task of a run: graphs and their machines. Immutable; shared by all actors of a node.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

/// One graph and the machine to place it on. Messages refer to it by its hash.
struct TaskGraph {
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  std::string sha256;
};

struct Task {
  std::vector<TaskGraph> graphs;  ///< At least one; indices of Placer::graph_of().
  std::string host;
  std::string measuring = {};  ///< Hash of all that decides a measurement, such as rules; empty: unknown.

  /// Returns null if no graph has this hash.
  const TaskGraph* find(std::string_view sha256) const {
    for (const TaskGraph& one : graphs) {
      if (one.sha256 == sha256) return &one;
    }
    return nullptr;
  }
  /// Concatenated graph hashes, which two nodes must agree on.
  std::string signature() const {
    std::string all;
    for (const TaskGraph& one : graphs) all += one.sha256;
    return all;
  }
  std::size_t most_ops() const {
    std::size_t most = 0;
    for (const TaskGraph& one : graphs) most = std::max(most, one.graph.num_ops());
    return most;
  }
};
using TaskPtr = std::shared_ptr<const Task>;
/// Makes a task of one graph.
inline TaskPtr make_task(TaskGraph one, std::string host) {
  Task task{{}, std::move(host)};
  task.graphs.push_back(std::move(one));
  return std::make_shared<const Task>(std::move(task));
}

/// Factories for what an actor owns, called on the actor's loop. Each call returns an independent object.
using ExecutorFactory = std::function<std::unique_ptr<Executor>(const TaskGraph& task)>;
using PlacerFactory = std::function<std::unique_ptr<policy::Placer>()>;

/// Names of the actors of a run.
inline std::string sampler_name(std::uint32_t controller) { return "sampler/" + std::to_string(controller); }
inline std::string executor_name(std::uint32_t number) { return "executor/" + std::to_string(number); }
inline constexpr const char* kDispatcher = "dispatcher/0";
inline constexpr const char* kRecorder = "recorder/0";
inline constexpr const char* kTracker = "tracker/0";
inline constexpr const char* kLearner = "learner/0";
inline constexpr const char* kView = "view/0";

}  // namespace emplace::actors
