// Goal: a graph file may contain its machine, and a wrong one is refused in one line. Method: graphs of one
// op with different meta.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/copied_op.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/machine_text.h"
#include "placement/partitioning_machine.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

OpGraph with_meta(const std::string& meta) {
  OpGraphBuilder builder;
  OpSpec op;
  op.name = "a", op.type = "Relu";
  op.outputs.push_back({.dtype = DType::kF32, .shape = {4}});
  builder.add(op);
  builder.set_meta_json(meta);
  return std::move(builder).build().value();
}

TEST(MachineOf, AcceptsADeviceFileOrNamesOfTheCatalogue) {
  const auto text = machine_of(with_meta(R"({"machine":"h100 x 2, epyc9654"})"), Objective::kStepTime);
  ASSERT_TRUE(text.ok() && text->has_value());
  EXPECT_EQ((*text)->sha256(), parse_machine("h100 x 2, epyc9654").value().sha256());
  const auto first =
      machine_of(with_meta(R"({"machine":"h100"})"), Objective::kStepTime, {}, CostVersion::k1);
  EXPECT_EQ((**first)[DeviceId{0}].profile.cost_version, CostVersion::k1);
  const OpGraph graph = with_meta(R"({"machine":"[[device]]\nname = \"v100\"\nmemory = \"8GiB\"\n"})");
  const DeviceSet file = machine_of(graph, Objective::kLatency).value().value();
  ASSERT_EQ(file.size(), 1u);
  EXPECT_EQ(file[DeviceId{0}].memory_bytes, std::int64_t{8} << 30);
  EXPECT_EQ(machine_of(graph, Objective::kLatency, Reserve{0.5}).value().value()[DeviceId{0}].memory_bytes,
            std::int64_t{4} << 30);
  EXPECT_FALSE(is_workload(graph));
  EXPECT_FALSE(machine_of(with_meta("{}"), Objective::kStepTime).value().has_value());
}

TEST(MachineOf, RefusesAWrongMachine) {
  const auto refused = [](const std::string& meta) {
    const auto machine = machine_of(with_meta(meta), Objective::kStepTime);
    return machine.ok() ? std::string{"accepted"} : machine.error().context;
  };
  EXPECT_THAT(refused(R"({"machine":7})"), HasSubstr("meta.machine: is not a text"));
  EXPECT_THAT(refused(R"({"machine":"h101"})"), HasSubstr("'h101' is unknown"));
  EXPECT_THAT(refused(R"({"machine":"[[device]]\nname = 4\n"})"), HasSubstr("meta.machine"));
}

TEST(CopiedOp, CopiesOfAllOpsBuildAnEqualGraph) {
  for (const char* name : {"cifar10_cnn-bs128.json", "rnnlm-bs2-hidden8-steps2.json.gz"}) {
    const OpGraph graph = load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/" + name).value();
    OpGraphBuilder builder;
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      OpSpec op = copied_op(graph, OpId{i});
      EXPECT_EQ(op.colocate, graph.colocated_with(OpId{i}));
      builder.add(std::move(op));
    }
    EXPECT_EQ(graph_sha256(std::move(builder).build().value()), graph_sha256(graph)) << name;
  }
  OpGraphBuilder one;
  OpSpec op;
  op.name = "a", op.type = "Conv", op.conv_groups = 3, op.measured_us = {{"gpu", 2.5}};
  op.allowed_devices = {"gpu:*"}, op.has_allowed_devices = true;
  op.outputs.push_back({.dtype = DType::kI8, .shape = {2, 3}});
  one.add(op);
  const OpGraph graph = std::move(one).build().value();
  OpGraphBuilder again;
  again.add(copied_op(graph, OpId{0}));
  EXPECT_EQ(graph_sha256(std::move(again).build().value()), graph_sha256(graph));
}

}  // namespace
}  // namespace emplace
