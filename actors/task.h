#pragma once
/// What a run is about: one graph on one machine. Shared, never changed, by all actors of a node.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/device.h"
#include "placement/placement.h"
#include "policy/placer.h"

namespace emplace::actors {

struct Task {
  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
  std::string graph_sha256;
  std::string host;
};
using TaskPtr = std::shared_ptr<const Task>;

/// Make what an actor owns, on the actor's own loop. Each call gives an independent one.
using ExecutorFactory = std::function<std::unique_ptr<Executor>()>;
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
