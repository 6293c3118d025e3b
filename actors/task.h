#pragma once
/// What a run is about: graphs on machines. Shared, never changed, by all actors of a node.

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

/// One graph and the machine that it is to be placed on. Messages name it by its hash.
struct TaskGraph {
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  std::string sha256;
};

struct Task {
  std::vector<TaskGraph> graphs;  ///< At least one; Placer::graph_of() counts in this order.
  std::string host;

  /// Null if no graph has this hash.
  const TaskGraph* find(std::string_view sha256) const {
    for (const TaskGraph& one : graphs) {
      if (one.sha256 == sha256) return &one;
    }
    return nullptr;
  }
  /// What two nodes must agree on: the hashes in order, one after the other.
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
/// A task of one graph.
inline TaskPtr make_task(TaskGraph one, std::string host) {
  Task task{{}, std::move(host)};
  task.graphs.push_back(std::move(one));
  return std::make_shared<const Task>(std::move(task));
}

/// Make what an actor owns, on the actor's own loop. Each call gives an independent one.
using ExecutorFactory = std::function<std::unique_ptr<Executor>(const TaskGraph& task)>;
using PlacerFactory = std::function<std::unique_ptr<policy::Placer>()>;

/// Names of the actors of a run, as they address each other.
inline std::string sampler_name(std::uint32_t controller) { return "sampler/" + std::to_string(controller); }
inline std::string executor_name(std::uint32_t number) { return "executor/" + std::to_string(number); }
inline constexpr const char* kDispatcher = "dispatcher/0";
inline constexpr const char* kRecorder = "recorder/0";
inline constexpr const char* kTracker = "tracker/0";
inline constexpr const char* kLearner = "learner/0";
inline constexpr const char* kView = "view/0";

}  // namespace emplace::actors
