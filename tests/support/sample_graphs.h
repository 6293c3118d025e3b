#pragma once
/// Small graphs and machines that tests of several rooms share.

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "graph/memory_plan.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::testing {

/// One op of a hand-made graph: a name, its producers by position, output bytes, and its time on "gpu" and
/// "cpu".
struct SampleOp {
  std::string name;
  std::vector<EdgeSpec> inputs;
  std::vector<std::int64_t> output_bytes = {4};
  double gpu_us = 1, cpu_us = 1;
  std::string type = "Work";
  bool view = false;
  Phase phase = Phase::kForward;
  OpId colocate = kNoOp;
};
OpGraph sample_graph(const std::vector<SampleOp>& ops);

/// A random DAG with views, state, colocation and updates in it. @pre ops >= 4.
OpGraph random_graph(Rng& rng, std::uint32_t ops);
OpGraph random_graph(std::uint64_t seed, std::uint32_t ops);

/// Such a graph whose later ops are a backward pass, and decisions about the tensors that wait for it.
OpGraph random_training_graph(Rng& rng, std::uint32_t ops);
MemoryPlan random_plan(Rng& rng, const OpGraph& graph, std::size_t devices);

/// A training step of layers in a chain: in → f0 → f1 → … and back, where b_k reads the gradient of b_{k+1},
/// what f_k read and the weight w_k, and makes the gradient that u_k applies. `us` [layers]: the time of f_k;
/// b_k takes `back` times as long, u_k 1 us. Each f_k and b_k makes `activation` bytes; a weight has 100.
OpGraph layers_step(const std::vector<double>& us, double back, std::int64_t activation);

/// A random topological order: any ready op comes next, with equal probability.
std::vector<OpId> random_order(Rng& rng, const OpGraph& graph);

/// A large layered DAG without views or state: `ops` ops of 24 types, about 1.4 inputs each from the layers
/// before.
OpGraph layered_graph(Rng& rng, std::uint32_t ops);

/// `gpus` devices "gpu:k" of kind gpu, and "cpu:0" first if `cpu`; each with `memory` bytes; every link
/// alike.
DeviceSet sample_devices(std::size_t gpus, bool cpu, std::int64_t memory,
                         Link link = {.bytes_per_s = 1e9, .latency_s = 1e-6});

/// The machine with groups of 2 or 3 of its devices behind a shared link each, sometimes with a second one
/// for two groups, and, unless `one_engine_each`, in half of the cases with several copy engines or any
/// number.
DeviceSet with_random_sharing(Rng& rng, DeviceSet devices, bool one_engine_each = false);

/// A chain of 12 ops of which every fourth, from the first on, may only be on "gpu:1".
OpGraph restricted_graph();

/// A graph, a machine, and what may be where. Not to be moved: what is made of it keeps references.
struct SampleTask {
  SampleTask(OpGraph g, DeviceSet d);
  SampleTask(const SampleTask&) = delete;
  SampleTask& operator=(const SampleTask&) = delete;

  OpGraph graph;
  DeviceSet devices;
  Constraints constraints;
};

Placement random_placement(Rng& rng, std::size_t ops, std::size_t devices);

}  // namespace emplace::testing
