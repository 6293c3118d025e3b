// Goal: what proofs take for a kernel's reads is what executors run.
// Method: compared buffer by buffer with the lowering, on random graphs with views and on real ones.

#include "placement/dataflow.h"

#include <gtest/gtest.h>

#include <string>

#include "executor/lowering.h"
#include "graph/graph_file.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

void expect_as_lowered(const OpGraph& graph) {
  const Dataflow flow{graph};
  const LoweredGraph lowered{graph};
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    ASSERT_EQ(flow.is_kernel(op), lowered.is_kernel(op)) << graph.name(op);
    ASSERT_EQ(flow.resident_bytes(op), lowered.resident_bytes(op)) << graph.name(op);
    const auto wanted = lowered.reads(op);
    const auto got = flow.reads(op);
    ASSERT_EQ(got.size(), wanted.size()) << graph.name(op);
    for (std::size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ(got[r], lowered.tensor(wanted[r])) << graph.name(op);
      ASSERT_EQ(flow.bytes(got[r]), lowered.bytes(wanted[r]));
      ASSERT_EQ(flow.base(got[r]), lowered.tensor(lowered.base(wanted[r])));
      ASSERT_EQ(flow.owner(got[r]), lowered.owner(wanted[r]));
      ASSERT_EQ(flow.is_state(got[r]), lowered.is_resident(wanted[r]));
      if (!flow.is_state(got[r])) {
        ASSERT_EQ(flow.held_bytes(got[r]), lowered.held_bytes(lowered.base(wanted[r])));
      }
    }
  }
}

TEST(Dataflow, IsTheLoweringOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    expect_as_lowered(testing::random_graph(seed, 5 + static_cast<std::uint32_t>(seed % 60)));
  }
}

TEST(Dataflow, IsTheLoweringOnRealGraphs) {
  for (const char* file : {EMPLACE_FIXTURES "/graphs/cifar10_cnn-bs128.json",
                           EMPLACE_SOURCE_DIR "/configs/graphs/nmt-2layer-bs64.json.gz"}) {
    const auto graph = load_graph(file);
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    expect_as_lowered(*graph);
  }
}

}  // namespace
}  // namespace emplace
