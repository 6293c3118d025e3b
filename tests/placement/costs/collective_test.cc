// Goal: a collective costs what its link and its number of GPUs make it cost, whichever framework's it is;
// and version 1 keeps its times. Method: times that NCCL took on H100s; the roofline of links without a
// table; modules of XLA with every spelling of replica groups; one op of each framework; machines of unlike
// links.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "graph/formats/graph_file.h"
#include "graph/formats/hlo/hlo.h"
#include "graph/op_role.h"
#include "placement/machine/cost_model.h"
#include "placement/machine/cost_trust.h"
#include "placement/machine/device_file.h"
#include "placement/machine/machine_text.h"
#include "tests/placement/costs/one_op.h"

namespace emplace {
namespace {

using enum KernelKind;

/// A module with the instructions `lines`, which read %x, f16[33554432]: 64 MiB.
OpGraph module_of(const std::string& lines, const std::string& header = "m") {
  const std::string add =
      "%add (a: f16[], b: f16[]) -> f16[] {\n  %a = f16[] parameter(0)\n  %b = f16[] parameter(1)\n"
      "  ROOT %s = f16[] add(%a, %b)\n}\n\n";
  const std::string text = "HloModule " + header + "\n\n" + add +
                           "ENTRY %main (x: f16[33554432]) -> f16[33554432] {\n" +
                           "  %x = f16[33554432]{0} parameter(0)\n" + lines + "}\n";
  return parse_hlo(std::as_bytes(std::span{text.data(), text.size()}), "module.hlo").value();
}

OpGraph all_reduce_of(int gpus) {
  std::string group;
  for (int i = 0; i < gpus; ++i) group += (i == 0 ? "" : ",") + std::to_string(i);
  return module_of("  ROOT %r = f16[33554432]{0} all-reduce(%x), replica_groups={{" + group +
                   "}}, to_apply=%add\n");
}

OpId last_of(const OpGraph& graph) { return OpId{static_cast<std::uint32_t>(graph.num_ops() - 1)}; }

/// The last op on the first device.
OpTime time_on(const std::string& machine, const OpGraph& graph, CostVersion costs = CostVersion::k2) {
  const DeviceSet devices = parse_machine(machine, {}, costs).value();
  return PlacementCosts{graph, devices}.of(last_of(graph), DeviceId{0});
}

double gpus_of(const OpGraph& graph) { return kernels_of(graph, last_of(graph)).at(0).at[1]; }

// NCCL's all-reduce of 64 MiB in half precision [us]: aiconfigurator-core 0.12.0,
// systems/data/h100_sxm/comm/nccl/2.29.2/nccl_perf.parquet, message_size 33554432.
TEST(Collectives, AllReduceOnH100sTakesWhatNcclTakes) {
  const FittedTable* const table = FittedTables::shipped().find("nvlink4", kAllReduce, Arithmetic::kFp32);
  ASSERT_NE(table, nullptr);
  for (const auto& [gpus, measured_us] : {std::pair{2, 254.57}, {4, 330.44}, {8, 324.53}}) {
    const OpTime time = time_on("h100 x 8 by nvlink4", all_reduce_of(gpus));
    EXPECT_LT(std::abs(time.us / measured_us - 1), table->error.p90) << gpus << ": " << time.us;
    EXPECT_EQ(time.trust.source, CostSource::kMeasured);
    EXPECT_EQ(time.trust.error, table->error.mean);
    EXPECT_NEAR(time.floor_us, 2.0 * (gpus - 1) / gpus * 67108864 / 348e3, 1e-6);
  }
}

TEST(Collectives, NoTableIsFasterThanItsLink) {
  for (const char* machine :
       {"v100 x 8 by nvlink2", "a100_80 x 8 by nvlink3", "b200 x 8 by nvlink5", "h100 x 8", "a100_80 x 8"}) {
    for (const int gpus : {2, 4, 8}) {
      const OpTime time = time_on(machine, all_reduce_of(gpus));
      EXPECT_EQ(time.trust.source, CostSource::kMeasured) << machine;
      EXPECT_LE(time.floor_us, time.us) << machine << ", " << gpus;
      EXPECT_GT(time.floor_us, 0) << machine << ", " << gpus;
    }
  }
}

TEST(Collectives, WithoutATableALinkHasItsDataSheet) {
  const std::string machine = "h100 x 8 by nvlink1";
  const double launch_us = find_profile("h100", CostVersion::k2)->launch_us;
  EXPECT_EQ(time_on(machine, all_reduce_of(1)).us, launch_us) << "alone there is nothing to exchange";
  for (const int gpus : {2, 3, 8}) {
    const OpTime time = time_on(machine, all_reduce_of(gpus));
    EXPECT_NEAR(time.us, launch_us + 8 + 2.0 * (gpus - 1) / gpus * 67108864 / 70e3, 1e-6) << gpus;
    EXPECT_EQ(time.trust.source, CostSource::kDataSheet);
  }
  const OpGraph permute = module_of(
      "  ROOT %r = f16[33554432]{0} collective-permute(%x), source_target_pairs={{0,1},{1,2},{2,0}}\n");
  EXPECT_EQ(gpus_of(permute), 3);
  EXPECT_NEAR(time_on(machine, permute).us, launch_us + 8 + 67108864 / 70e3, 1e-6) << "the tensor, once";
}

TEST(Collectives, VersionOneKnowsNoLinks) {
  const Profile h100 = find_profile("h100", CostVersion::k1).value();
  const OpGraph graph = all_reduce_of(8);
  for (const char* machine : {"h100", "h100 x 8 by nvlink4", "h100 x 8 by nvlink1"})
    EXPECT_EQ(time_on(machine, graph, CostVersion::k1).us, roofline_us(graph, last_of(graph), h100))
        << machine;
  EXPECT_EQ(graph_sha256(graph), graph_sha256(module_of("  ROOT %r = f16[33554432]{0} all-reduce(%x)\n")))
      << "the id of a graph is what it was before sizes of groups were read";
}

TEST(Collectives, GroupsOfXlaAreCounted) {
  const auto reduced = [](const std::string& groups, const std::string& header = "m") {
    return module_of("  ROOT %r = f16[33554432]{0} all-reduce(%x), channel_id=1, replica_groups=" + groups +
                         ", use_global_device_ids=true, to_apply=%add\n",
                     header);
  };
  EXPECT_EQ(gpus_of(reduced("{{0,1,2,3},{4,5,6,7}}")), 4);
  EXPECT_EQ(gpus_of(reduced("[2,4]<=[8]")), 4);
  EXPECT_EQ(gpus_of(reduced("[4,2]<=[2,4]T(1,0)")), 2);
  EXPECT_EQ(gpus_of(reduced("{}", "m, is_scheduled=true, replica_count=2, num_partitions=8")), 16);
  EXPECT_EQ(gpus_of(reduced("{}")), 2) << "unknown: the least";
  EXPECT_EQ(gpus_of(reduced("{}", "m, num_partitions=many")), 2);
  const OpGraph second = module_of(
      "  %g = f16[268435456]{0} all-gather(%x), dimensions={0}\n"
      "  ROOT %r = f16[33554432]{0} all-reduce(%x), to_apply=%add\n");
  EXPECT_EQ(gpus_of(second), 8) << "as many as its neighbour, whose tensors show it";
}

TEST(Collectives, AStartedCollectiveCostsWhenItStarts) {
  const OpGraph graph = module_of(
      "  %s = f16[33554432]{0} all-reduce-start(%x), replica_groups={{0,1}}, to_apply=%add\n"
      "  ROOT %d = f16[33554432]{0} all-reduce-done(%s)\n");
  const DeviceSet devices = parse_machine("h100 x 2 by nvlink4").value();
  PlacementCosts costs{graph, devices};
  EXPECT_EQ(costs.of(OpId{1}, DeviceId{0}).us, time_on("h100 x 2 by nvlink4", all_reduce_of(2)).us);
  EXPECT_EQ(costs.of(OpId{2}, DeviceId{0}).us, 0);
}

TEST(Collectives, EveryFrameworkHasThem) {
  struct Row {
    KernelKind kind;
    OneOp op;
    double bytes, gpus;
  };
  const Row rows[]{
      {kAllReduce, {"_c10d_functional::all_reduce", {{1024}}, {{1024}}}, 4096, 2},
      {kAllGather, {"_c10d_functional::all_gather_into_tensor", {{1024}}, {{8192}}}, 32768, 8},
      {kReduceScatter, {"_c10d_functional::reduce_scatter_tensor", {{1024}}, {{256}}}, 4096, 4},
      {kAllToAll, {"_c10d_functional::all_to_all_single", {{1024}}, {{1024}}}, 4096, 2},
      {kAllReduce, {"com.microsoft::AllReduce", {{1024}}, {{1024}}}, 4096, 2},
      {kAllReduce, {"com.microsoft::NcclAllReduce", {{1024}}, {{1024}}, R"({"group_size":4})"}, 4096, 4},
      {kAllGather, {"com.microsoft::AllGather", {{1024}}, {{4096}}, R"({"group_size":4})"}, 16384, 4},
      {kAllToAll, {"com.microsoft::AllToAll", {{1024}}, {{1024}}, R"({"group_size":8})"}, 4096, 8},
      {kAllReduce, {"CollectiveReduce", {{1024}}, {{1024}}, R"({"group_size":4})"}, 4096, 4},
      {kAllReduce, {"NcclAllReduce", {{1024}}, {{1024}}, R"({"num_devices":8})"}, 4096, 8},
  };
  for (const Row& row : rows) {
    const KernelShape kernel = kernel_of(row.op);
    EXPECT_EQ(kernel.kind, row.kind) << row.op.type;
    EXPECT_EQ(kernel.at[0], row.bytes) << row.op.type;
    EXPECT_EQ(kernel.at[1], row.gpus) << row.op.type;
    EXPECT_NE(role_of_type(row.op.type).kind, nullptr) << row.op.type << " is not in the table of types";
  }
  EXPECT_EQ(kernel_of({"hlo::broadcast", {{1}}, {{8}}}).kind, kCopy) << "no collective, in spite of its name";
}

TEST(Collectives, AMachineHasTheSlowestLinkThatTheNearestPeersNeed) {
  const auto link = [](const char* machine, double gpus) {
    return PeerLinks{parse_machine(machine).value(), DeviceId{0}}.of(gpus).name;
  };
  const char* const islands = "h100 x 2 by nvlink4, h100 x 2 by nvlink4, epyc9654";
  EXPECT_EQ(link(islands, 2), "nvlink4");
  EXPECT_EQ(link(islands, 3), "pcie5_x16");
  EXPECT_EQ(link(islands, 64), "pcie5_x16") << "as far as the machine reaches";
  EXPECT_EQ(link("h100", 8), "pcie5_x16") << "alone: the link that it would have to another one";
  EXPECT_EQ(link("h100 x 8 by nvlink4", 8), "nvlink4");
  EXPECT_EQ(parse_machine("h100 x 2 by nvlink4", {}, CostVersion::k1)->link(DeviceId{0}, DeviceId{1}).name,
            "");
  const auto file = [](const std::string& rate) {
    const std::string text =
        "costs = 2\n[[device]]\nprofile = \"h100\"\ncount = 2\n[[link]]\n"
        "between = [\"gpu:0\", \"gpu:1\"]\nprofile = \"nvlink4\"\n" +
        rate;
    return parse_devices(text, "test").value().link(DeviceId{0}, DeviceId{1}).name;
  };
  EXPECT_EQ(file(""), "nvlink4");
  EXPECT_EQ(file("bandwidth = \"200GB/s\"\n"), "") << "the user's own rate is not that of the table";
  EXPECT_EQ(file("latency = \"9us\"\n"), "");
}

TEST(Collectives, DevicesOfUnlikeLinksHaveRowsOfTheirOwnOnlyForCollectives) {
  const DeviceSet devices = parse_machine("h100 x 2 by nvlink4, h100 x 2").value();
  const OpGraph exchange = all_reduce_of(2);
  const CostTable costs{exchange, devices};
  EXPECT_EQ(costs.num_rows(), 2u);
  EXPECT_EQ(costs.row_of(DeviceId{0}), costs.row_of(DeviceId{1}));
  EXPECT_LT(2 * costs.ns(DeviceId{0}, OpId{1}), costs.ns(DeviceId{2}, OpId{1})) << "NVLink, and PCI Express";
  PlacementCosts by_trust{exchange, devices};
  for (const DeviceId device : {DeviceId{0}, DeviceId{2}})
    EXPECT_EQ(costs.ns(device, OpId{1}), std::llround(1e3 * by_trust.us(device)[1]));
  const std::vector<DeviceId> near(2, DeviceId{0}), far(2, DeviceId{2}), beside(2, DeviceId{1});
  EXPECT_GT(by_trust.difference_error(near, far), 0) << "one profile, but unlike links";
  EXPECT_EQ(by_trust.difference_error(near, beside), 0);
  EXPECT_EQ((CostTable{module_of("  ROOT %r = f16[33554432]{0} negate(%x)\n"), devices}.num_rows()), 1u);
}

}  // namespace
}  // namespace emplace
