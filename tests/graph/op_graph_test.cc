// Goal: the builder accepts valid graphs, and names the op that is wrong in any other. Method: graphs of a
// few ops by hand.
#include "graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

OpSpec bare_op(std::string name, std::vector<EdgeSpec> inputs = {}, std::size_t outputs = 1) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.type = "Work";
  spec.inputs = std::move(inputs);
  spec.outputs.assign(outputs, TensorSpec{DType::kF32, {2, 3}});
  return spec;
}

Result<OpGraph> build_graph(std::vector<OpSpec> ops) {
  OpGraphBuilder builder;
  for (OpSpec& spec : ops) builder.add(std::move(spec));
  return std::move(builder).build();
}

std::string build_error(std::vector<OpSpec> ops) {
  const auto graph = build_graph(std::move(ops));
  return graph ? "accepted" : graph.error().context;
}

TEST(OpGraph, KeepsRepeatedInputsAndListsEachConsumerOnce) {
  const OpGraph graph =
      build_graph({bare_op("a", {}, 2), bare_op("b", {{0, 1}, {0, 1}, {0, 0}}), bare_op("c", {{0, 1}})})
          .value();
  EXPECT_EQ(graph.num_edges(), 4u);
  EXPECT_THAT(graph.inputs(OpId{1}), ElementsAre(TensorId{1}, TensorId{1}, TensorId{0}));
  EXPECT_THAT(graph.consumers(TensorId{1}), ElementsAre(OpId{1}, OpId{2}));
  EXPECT_THAT(graph.consumers(TensorId{0}), ElementsAre(OpId{1}));
  EXPECT_EQ(graph.producer(TensorId{1}), OpId{0});
}

TEST(OpGraph, CountsBytesByElementSize) {
  OpSpec spec = bare_op("a", {}, 0);
  spec.outputs = {{DType::kBF16, {4, 5}}, {DType::kI64, {}}, {DType::kF32, {0, 7}}, {DType::kBool, {3}}};
  const OpGraph graph = build_graph({spec}).value();
  EXPECT_EQ(graph.bytes(TensorId{0}), 40);
  EXPECT_EQ(graph.bytes(TensorId{1}), 8);
  EXPECT_EQ(graph.bytes(TensorId{2}), 0);
  EXPECT_EQ(graph.bytes(TensorId{3}), 3);
}

TEST(OpGraph, OrdersIdsThatAreNotTopological) {
  const OpGraph graph =
      build_graph({bare_op("late", {{2, 0}}), bare_op("middle", {{2, 0}}), bare_op("early")}).value();
  EXPECT_FALSE(graph.ids_are_topological());
  EXPECT_THAT(graph.topological_order(), ElementsAre(OpId{2}, OpId{0}, OpId{1}));
}

TEST(OpGraph, UsesIdsAsTheOrderIfTheyAreTopological) {
  const OpGraph graph = build_graph({bare_op("a"), bare_op("b"), bare_op("c", {{0, 0}})}).value();
  EXPECT_TRUE(graph.ids_are_topological());
  EXPECT_THAT(graph.topological_order(), ElementsAre(OpId{0}, OpId{1}, OpId{2}));
}

TEST(OpGraph, NamesTheOpsOfACycle) {
  EXPECT_THAT(
      build_error({bare_op("start"), bare_op("x", {{0, 0}, {2, 0}}), bare_op("y", {{1, 0}}),
                   bare_op("end", {{2, 0}})}),
      AllOf(HasSubstr("cycle of 2 ops"), HasSubstr("'x'"), HasSubstr("'y'"), Not(HasSubstr("'end'"))));
  EXPECT_THAT(build_error({bare_op("self", {{0, 0}})}), HasSubstr("cycle of 1 ops: 'self'"));
}

TEST(OpGraph, NamesTheOpThatReadsAMissingOutput) {
  EXPECT_THAT(build_error({bare_op("a"), bare_op("reader", {{7, 0}})}),
              AllOf(HasSubstr("'reader'"), HasSubstr("op 7")));
  EXPECT_THAT(build_error({bare_op("a"), bare_op("reader", {{0, 3}})}),
              AllOf(HasSubstr("'reader'"), HasSubstr("output 3")));
}

TEST(OpGraph, RefusesAnEmptyGraphAndBadNames) {
  EXPECT_THAT(build_error({}), HasSubstr("no ops"));
  EXPECT_THAT(build_error({bare_op("")}), HasSubstr("has no name"));
  EXPECT_THAT(build_error({bare_op("twin"), bare_op("twin")}),
              AllOf(HasSubstr("op 1 'twin'"), HasSubstr("same name as op 0")));
}

// A graph's hash covers its names, and JSON cannot contain others.
TEST(OpGraph, RefusesNamesThatAreNotUtf8) {
  EXPECT_THAT(build_error({bare_op("norm\xb2.weight")}), HasSubstr("is not UTF-8"));
  OpSpec grouped = bare_op("a");
  grouped.group = "\xff";
  EXPECT_THAT(build_error({grouped}), HasSubstr("is not UTF-8"));
  EXPECT_EQ(build_error({bare_op("größe")}), "accepted");
}

TEST(OpGraph, ShowsEscapeSequencesInNamesHarmlessly) {
  const std::string text = build_error({bare_op("\x1b[2Jevil\n", {{9, 0}})});
  EXPECT_THAT(text, AllOf(HasSubstr("\\x1b[2Jevil\\n"), Not(HasSubstr("\x1b")), Not(HasSubstr("\n"))));
}

TEST(OpGraph, RefusesColocationWithAMissingOpOrInACircle) {
  OpSpec missing = bare_op("b");
  missing.colocate = OpId{5};
  EXPECT_THAT(build_error({bare_op("a"), missing}), AllOf(HasSubstr("'b'"), HasSubstr("op 5")));
  OpSpec one = bare_op("one"), two = bare_op("two");
  one.colocate = OpId{1};
  two.colocate = OpId{0};
  EXPECT_THAT(build_error({one, two}), AllOf(HasSubstr("cycle"), HasSubstr("'")));
  OpSpec chained = bare_op("three");
  chained.colocate = OpId{1};
  two.colocate = kNoOp;
  EXPECT_EQ(build_error({one, two, chained}), "accepted");
}

TEST(OpGraph, RefusesNumbersOutOfRange) {
  const auto with = [](const std::function<void(OpSpec&)>& change) {
    OpSpec spec = bare_op("bad");
    change(spec);
    return build_error({spec});
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THAT(with([](OpSpec& s) { s.flops = -1; }), AllOf(HasSubstr("'bad'"), HasSubstr("flops")));
  EXPECT_THAT(with([](OpSpec& s) { s.flops = kHuge; }), HasSubstr("flops"));
  EXPECT_THAT(with([](OpSpec& s) { s.param_bytes = -4; }), HasSubstr("param_bytes"));
  EXPECT_THAT(with([](OpSpec& s) { s.outputs[0].shape = {4, -1}; }), HasSubstr("negative dimension"));
  EXPECT_THAT(with([](OpSpec& s) { s.outputs[0].shape = {kHuge, kHuge}; }), HasSubstr("1 PiB"));
  EXPECT_THAT(with([](OpSpec& s) { s.conv_groups = 0; }), HasSubstr("groups"));
  EXPECT_THAT(with([](OpSpec& s) { s.has_allowed_devices = true; }), HasSubstr("list of devices is empty"));
  for (const double us : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(with([us](OpSpec& s) {
                  s.measured_us = {{"gpu", us}};
                }),
                AllOf(HasSubstr("measured_us"), HasSubstr("'gpu'")));
  }
}

TEST(OpGraph, RefusesTensorsThatTogetherOverflow) {
  std::vector<OpSpec> ops;
  for (int i = 0; i < 1100; ++i) {
    ops.push_back(bare_op("t" + std::to_string(i)));
    ops.back().outputs[0].shape = {std::int64_t{1} << 48};
  }
  EXPECT_THAT(build_error(std::move(ops)), HasSubstr("exceed 2^60 bytes"));
}

}  // namespace
}  // namespace emplace
