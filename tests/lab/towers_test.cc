// Goal: towers do the original's work on parts of the batch, exchange the gradients that they must, and are
// never used as a placement. Method: a small training graph by hand, and a real one whose sums must agree.

#include "lab/towers/towers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "graph/formats/graph_file.h"
#include "lab/towers/towers_graph.h"
#include "solver/methods.h"
#include "tests/solver/world.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::sample_devices;
using testing::World;

/// y = x w, its gradient, and the update of w, for a batch of `batch` (0: not stated).
OpGraph regression(std::int64_t batch) {
  OpGraphBuilder builder;
  builder.set_name("regression");
  if (batch > 0) builder.set_meta_json(R"({"batch":)" + std::to_string(batch) + "}");
  const auto add = [&](std::string name, std::string type, std::vector<EdgeSpec> inputs,
                       std::vector<std::int64_t> shape, Phase phase, double us, std::int64_t flops) {
    OpSpec op;
    op.name = std::move(name);
    op.type = std::move(type);
    op.inputs = std::move(inputs);
    op.outputs = {{DType::kF32, std::move(shape)}};
    op.phase = phase;
    op.flops = flops;
    op.measured_us = {{"gpu", us}, {"cpu", 10 * us}};
    return builder.add(std::move(op));
  };
  const std::int64_t n = std::max<std::int64_t>(batch, 8);
  add("w", "Parameter", {}, {1000, 24}, Phase::kForward, 0, 0);
  add("x", "Input", {}, {n, 1000}, Phase::kForward, 0, 0);
  add("y", "aten::mm", {{1, 0}, {0, 0}}, {n, 24}, Phase::kForward, 1000, 800);
  add("dw", "aten::mm", {{1, 0}, {2, 0}}, {1000, 24}, Phase::kBackward, 1000, 800);
  add("step", "aten::mul", {{3, 0}}, {1000, 24}, Phase::kUpdate, 10, 4);
  add("new_w", "aten::add", {{0, 0}, {4, 0}}, {1000, 24}, Phase::kUpdate, 10, 4);
  return std::move(builder).build().value();
}

OpId named(const OpGraph& graph, const std::string& name) {
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.name(OpId{i}) == name) return OpId{i};
  ADD_FAILURE() << "no op " << name;
  return OpId{0};
}

TEST(Towers, DivideTheBatchAndKeepParametersAndGradientsWhole) {
  const TowersGraph towers = towers_graph(regression(8), {.towers = 4}).value();
  const OpGraph& graph = towers.graph;
  EXPECT_EQ(towers.tower_batch, 2);
  EXPECT_EQ(graph.shape(graph.output(named(graph, "tower3/x"), 0))[0], 2);
  EXPECT_EQ(graph.shape(graph.output(named(graph, "tower3/y"), 0))[0], 2);
  EXPECT_EQ(graph.flops(named(graph, "tower3/y")), 200);
  EXPECT_EQ(graph.bytes(graph.output(named(graph, "tower3/dw"), 0)), 96'000);
  EXPECT_EQ(graph.flops(named(graph, "tower3/dw")), 200);
  EXPECT_EQ(graph.flops(named(graph, "tower3/step")), 4);
  EXPECT_EQ(graph.measured_us(named(graph, "tower0/y"), 0), 250);
  const OpId sum = named(graph, "sum/dw/0");
  EXPECT_EQ(graph.inputs(sum).size(), 4u);
  EXPECT_EQ(graph.producer(graph.inputs(named(graph, "tower2/step"))[0]), sum);
}

TEST(Towers, RoundUpABatchThatDoesNotDivide) {
  EXPECT_EQ(towers_graph(regression(10), {.towers = 4})->tower_batch, 3);
}

TEST(Towers, SharedParametersAreUpdatedOnceOrByEachTower) {
  const TowersGraph sync = towers_graph(regression(8), {2, /*mirrored=*/false, true}).value();
  EXPECT_EQ(sync.graph.num_ops(), 1 + 3 * 2 + 1 + 2u);  // There are w; x, y, dw twice; the sum; one update.
  const TowersGraph async = towers_graph(regression(8), {2, false, /*synchronous=*/false}).value();
  EXPECT_EQ(async.graph.num_ops(), 1 + 3 * 2 + 2 * 2u);  // There are two updates and no sum.
  const OpId update = named(async.graph, "tower1/step");
  EXPECT_TRUE(async.on_server[index(update)]);
  EXPECT_EQ(async.tower[index(update)], 1);
  EXPECT_EQ(async.graph.producer(async.graph.inputs(update)[0]), named(async.graph, "tower1/dw"));
  EXPECT_FALSE(towers_graph(regression(8), {2, /*mirrored=*/true, /*synchronous=*/false}).ok());
}

TEST(Towers, TakeHalfTheTimePlusTheExchange) {
  World world{regression(8), sample_devices(2, true, kPlenty, {.bytes_per_s = 1e9, .latency_s = 0})};
  const Answer sync = world.run(TowersSync{}).value();
  // Half of 2,000 us, one gradient of 96 us to the other GPU, a sum and an update.
  EXPECT_GT(sync.measurement.step_time_s, 1100e-6);
  EXPECT_LT(sync.measurement.step_time_s, 1400e-6);
  const Answer async = world.run(TowersAsync{}).value();
  EXPECT_LT(async.measurement.step_time_s, 1400e-6);
  EXPECT_GT(async.measurement.step_time_s, 1000e-6);
  EXPECT_NE(async.notes.back().find("samples/s"), std::string::npos);
  EXPECT_NE(async.notes.back().find("changes convergence"), std::string::npos);
}

TEST(Towers, AreNeverAPlacement) {
  World world{regression(8), sample_devices(2, true, kPlenty)};
  for (const Method* method : transforming_methods()) {
    EXPECT_TRUE(method->transforms_graph());
    EXPECT_TRUE(world.run(*method)->placement.empty());
    EXPECT_EQ(*find_compared_method(method->name()), method);
    EXPECT_EQ(find_method(method->name()).error().context,
              "method '" + std::string{method->name()} +
                  "': measures a transformed graph and returns no placement; use it in `compare`");
    for (const Method* other : all_methods()) EXPECT_NE(other->name(), method->name());
  }
  for (const Method* method : all_methods()) EXPECT_FALSE(method->transforms_graph());
}

TEST(Towers, ReportWhyTheyAreImpossible) {
  World unstated{regression(0), sample_devices(2, true, kPlenty)};
  EXPECT_EQ(unstated.run(TowersSync{}).error().context,
            "regression: batch size is unknown; towers need meta.batch");
  World few{regression(2), sample_devices(4, true, kPlenty)};
  EXPECT_EQ(few.run(TowersAsync{}).error().context,
            "regression: a batch of 2 cannot be divided among 4 towers");
  World one{regression(8), sample_devices(1, true, kPlenty)};
  EXPECT_EQ(one.run(TowersSync{}).error().code, Errc::kNoPlacement);
}

TEST(Towers, DoAllTheWorkOfARealGraph) {
  const OpGraph graph = load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/resnet50-bs32.json.gz").value();
  World world{graph, sample_devices(2, true, kPlenty, {.bytes_per_s = 12e9, .latency_s = 10e-6})};
  const TowersGraph towers = towers_graph(graph, {2, /*mirrored=*/false, true}).value();
  std::int64_t before = 0, after = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) before += graph.flops(OpId{i});
  for (std::uint32_t i = 0; i < towers.graph.num_ops(); ++i)
    if (towers.graph.name(OpId{i}).substr(0, 4) != "sum/") after += towers.graph.flops(OpId{i});
  EXPECT_NEAR(static_cast<double>(after), static_cast<double>(before), 1e-4 * static_cast<double>(before));
  const double one_gpu = world.run(**find_method("single-gpu"))->measurement.step_time_s;
  const double two = world.run(TowersSync{})->measurement.step_time_s;
  EXPECT_LT(two, 0.55 * one_gpu);
  EXPECT_GT(two, 0.48 * one_gpu);
}

}  // namespace
}  // namespace emplace
