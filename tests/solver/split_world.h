#pragma once
// Shared by the tests of split methods: a workload on its machine with the model of its objective.

#include <memory>
#include <string>
#include <utility>

#include "executor/split/latency_model.h"
#include "executor/split/load_model.h"
#include "graph/formats/graph_file.h"
#include "placement/partitioning_machine.h"
#include "solver/method.h"
#include "tests/support/plain_workload.h"

namespace emplace::testing {

struct SplitWorld : SampleTask {
  SplitWorld(OpGraph g, Objective wanted)
      : SampleTask{copy(g), machine_of(g, wanted).value().value()}, objective{wanted}, costs{graph, devices} {
    if (objective == Objective::kLatency) {
      model = std::make_unique<LatencyModel>(graph, devices);
    } else {
      model = std::make_unique<LoadModel>(graph, devices);
    }
  }
  Problem problem(std::uint64_t seed = 1) const {
    return {graph, devices, constraints, costs, seed, objective};
  }
  Measurement measured(const Placement& placement) {
    Measurement measurement;
    EXPECT_TRUE(model->measure(placement, measurement).ok());
    return measurement;
  }

  const Objective objective;
  const CostTable costs;
  std::unique_ptr<Executor> model;

 private:
  static OpGraph copy(const OpGraph& g) { return g; }
};

/// A workload of tests/fixtures/third_party/dnn-partitioning: "latency/bert24_inference.json".
inline OpGraph published(const std::string& name) {
  return load_graph(std::string{EMPLACE_FIXTURES} + "/third_party/dnn-partitioning/" + name).value();
}

}  // namespace emplace::testing
