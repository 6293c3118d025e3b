// Goal: the lowering knows which tensors are data, which are names for data, and which ops wait for which.
// Method: graphs written by hand.
#include "graph/lowering.h"

#include <gtest/gtest.h>

#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::sample_graph;

TEST(Lowering, ViewThatCoversItsBaseIsItsBase) {
  const OpGraph graph =
      sample_graph({{.name = "w", .output_bytes = {100}, .type = "Parameter"},
                    {.name = "t", .inputs = {{0, 0}}, .output_bytes = {100}, .view = true},
                    {.name = "expand", .inputs = {{1, 0}}, .output_bytes = {900}, .view = true},
                    {.name = "use", .inputs = {{2, 0}, {1, 0}, {0, 0}}}});
  const LoweredGraph lowered{graph};
  ASSERT_EQ(lowered.kernels().size(), 1u);
  ASSERT_EQ(lowered.reads(OpId{3}).size(), 1u) << "three names of one tensor are one read";
  const BufferId buffer = lowered.reads(OpId{3})[0];
  EXPECT_EQ(lowered.owner(buffer), OpId{0});
  EXPECT_EQ(lowered.bytes(buffer), 100);
  EXPECT_TRUE(lowered.is_resident(buffer));
}

TEST(Lowering, SliceIsAPartThatMovesItsOwnBytes) {
  const OpGraph graph =
      sample_graph({{.name = "big", .output_bytes = {100}},
                    {.name = "split", .inputs = {{0, 0}}, .output_bytes = {40, 60}, .view = true},
                    {.name = "left", .inputs = {{1, 0}}},
                    {.name = "right", .inputs = {{1, 1}}},
                    {.name = "slice of slice", .inputs = {{1, 1}}, .output_bytes = {10}, .view = true},
                    {.name = "end", .inputs = {{4, 0}}}});
  const LoweredGraph lowered{graph};
  const BufferId left = lowered.reads(OpId{2})[0], right = lowered.reads(OpId{3})[0],
                 end = lowered.reads(OpId{5})[0];
  EXPECT_EQ(lowered.bytes(left), 40);
  EXPECT_EQ(lowered.bytes(right), 60);
  EXPECT_EQ(lowered.bytes(end), 10);
  EXPECT_EQ(lowered.base(left), lowered.base(right));
  EXPECT_EQ(lowered.base(end), lowered.base(left));
  EXPECT_EQ(lowered.owner(end), OpId{0});
  EXPECT_EQ(lowered.held_bytes(lowered.base(end)), 100);
  EXPECT_EQ(lowered.end_owned(OpId{0}) - lowered.first_owned(OpId{0}), 4u);
}

TEST(Lowering, UpdatesWriteInPlaceAndUnreadOutputsAreKnown) {
  const OpGraph graph = sample_graph(
      {{.name = "w", .output_bytes = {100}, .type = "Parameter"},
       {.name = "grad", .output_bytes = {100, 8}},
       {.name = "step", .inputs = {{0, 0}, {1, 0}}, .output_bytes = {100}, .phase = Phase::kUpdate}});
  const LoweredGraph lowered{graph};
  EXPECT_EQ(lowered.resident_bytes(OpId{0}), 100);
  EXPECT_EQ(lowered.output_bytes(OpId{1}), 108);
  EXPECT_EQ(lowered.unread_bytes(OpId{1}), 8);
  EXPECT_EQ(lowered.output_bytes(OpId{2}), 0);
  EXPECT_FALSE(lowered.takes_time(OpId{0}));
}

TEST(Lowering, UpdatesThatWriteOverNothingCountWhereTheGraphAsks) {
  for (const bool counted : {false, true}) {
    OpGraphBuilder builder;
    if (counted) builder.set_meta_json(R"({"temporaries":true})");
    const auto add = [&](const char* name, const char* type, std::vector<EdgeSpec> inputs, Phase phase) {
      OpSpec op{.name = name, .type = type, .inputs = std::move(inputs), .outputs = {{DType::kU8, {100}}}};
      op.phase = phase;
      builder.add(std::move(op));
    };
    constexpr Phase kUpdate = Phase::kUpdate;
    add("w", "Parameter", {}, Phase::kForward);
    add("v", "OptimizerState", {}, kUpdate);
    add("gradient", "aten::mm", {{0, 0}}, Phase::kBackward);
    add("decay", "aten::mul", {{1, 0}}, kUpdate);
    add("squares", "aten::addcmul", {{3, 0}, {2, 0}, {2, 0}}, kUpdate);
    add("root", "aten::sqrt", {{4, 0}}, kUpdate);
    add("corrected", "aten::div", {{5, 0}}, kUpdate);
    add("step", "aten::addcdiv", {{0, 0}, {2, 0}, {6, 0}}, kUpdate);
    const OpGraph graph = std::move(builder).build().value();
    const LoweredGraph lowered{graph};
    for (std::uint32_t op = 3; op < 8; ++op) {
      const std::int64_t bytes = counted && graph.name(OpId{op}) == "root" ? 100 : 0;
      EXPECT_EQ(lowered.output_bytes(OpId{op}), bytes) << graph.name(OpId{op});
      EXPECT_EQ(lowered.held_bytes(lowered.buffer(graph.first_output(OpId{op}))), bytes);
    }
  }
}

TEST(Lowering, ResultsAreNotFreed) {
  OpGraphBuilder builder;
  const auto add = [&](const char* name, std::vector<EdgeSpec> inputs,
                       std::vector<std::int64_t> bytes) -> OpSpec& {
    OpSpec op{.name = name, .type = "Work", .inputs = std::move(inputs)};
    for (const std::int64_t each : bytes) op.outputs.push_back({DType::kU8, {each}});
    return builder[builder.add(std::move(op))];
  };
  add("first", {}, {100, 8}).results = {0};
  add("second", {{0, 0}}, {50});
  OpSpec& part = add("part", {{1, 0}}, {20});
  part.view = true, part.results = {0};
  add("last", {{1, 0}}, {30}).results = {0};
  const OpGraph graph = std::move(builder).build().value();
  const LoweredGraph lowered{graph};
  const auto of = [&](std::uint32_t op) { return lowered.buffer(graph.first_output(OpId{op})); };
  EXPECT_EQ(lowered.held_bytes(of(0)), 100);
  EXPECT_EQ(lowered.freed_bytes(of(0)), 0);
  EXPECT_EQ(lowered.unread_bytes(OpId{0}), 8) << "the other output";
  EXPECT_EQ(lowered.freed_bytes(of(1)), 0) << "a part of it is a result";
  EXPECT_EQ(lowered.unread_bytes(OpId{3}), 0) << "it has no reader, but is a result";
}

TEST(Lowering, ViewOfSeveralInputsWaitsForAllOfThem) {
  const OpGraph graph =
      sample_graph({{.name = "data", .output_bytes = {100}},
                    {.name = "write", .output_bytes = {10}},
                    {.name = "merge", .inputs = {{0, 0}, {1, 0}}, .output_bytes = {100}, .view = true},
                    {.name = "again", .inputs = {{2, 0}}, .output_bytes = {100}, .view = true},
                    {.name = "use", .inputs = {{3, 0}}}});
  const LoweredGraph lowered{graph};
  ASSERT_EQ(lowered.reads(OpId{4}).size(), 2u);
  EXPECT_EQ(lowered.owner(lowered.reads(OpId{4})[0]), OpId{0});
  EXPECT_EQ(lowered.owner(lowered.reads(OpId{4})[1]), OpId{1});
}

}  // namespace
}  // namespace emplace
