// Goal: models in TensorFlow's granularity are well-formed training graphs of the papers' size without
// superfluous ops. Method: properties of every op of small models, and the papers' counts for whole ones.

#include "graph/tape/tensorflow_tape.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string_view>

#include "tests/graph/model_samples.h"

namespace emplace::models {
namespace {

// Paper: Hierarchical 2018, section 3: 28,044, 46,600 and 83,712 ops; RNNLM 9,021.
TEST(TensorFlowModels, HaveTheSizeOfThePapersGraphs) {
  const auto ops = [](std::string_view model, ModelSizes sizes) {
    return static_cast<double>(made(model, sizes, kTensorFlowStep).num_ops());
  };
  const double two = ops("nmt", {.layers = 2}), four = ops("nmt", {.layers = 4});
  const double eight = ops("nmt", {.layers = 8});
  EXPECT_NEAR(two, 28'044, 0.05 * 28'044);
  EXPECT_NEAR(four, 46'600, 0.05 * 46'600);
  EXPECT_NEAR(eight, 83'712, 0.05 * 83'712);
  EXPECT_GE(eight, 80'000);
  EXPECT_NEAR((eight - four) / 4, 9278, 0.01 * 9278) << "what a layer costs, exactly even in the paper";
  EXPECT_NEAR(ops("rnnlm", {}), 9021, 0.05 * 9021);
  // Paper: ColocRL 2017, table 1, trained by Adam: RNNLM 8,943. The hidden size does not change the count.
  EXPECT_NEAR(ops("rnnlm", {.optimizer = Optimizer::kAdam}), 8943, 0.05 * 8943);
  EXPECT_EQ(ops("rnnlm", {.hidden = 4096}), ops("rnnlm", {}));
  EXPECT_EQ(ops("nmt", {.hidden = 2048}), two);
}

TEST(TensorFlowModels, HaveTheWorkAndStateOfTheTraces) {
  for (const auto& [model, sizes] : small_models()) {
    const Totals traced = totals_of(made(model, sizes, kTraced));
    const Totals built = totals_of(made(model, sizes, kTensorFlowStep));
    // One bias per gate instead of two, and Adam's powers; the other parameters are the same.
    const auto near = [](std::int64_t a, std::int64_t b, double share) {
      return std::abs(static_cast<double>(a - b)) <= share * static_cast<double>(b);
    };
    EXPECT_TRUE(near(built.parameter_bytes, traced.parameter_bytes, 0.005)) << model;
    EXPECT_TRUE(near(built.state_bytes, traced.state_bytes, 0.005)) << model;
    // At this batch size the updates of embeddings count: of rows here, of the whole table there.
    EXPECT_TRUE(near(built.flops, traced.flops, model == "nmt" || model == "rnnlm" ? 0.1 : 0.01)) << model;
  }
  EXPECT_NEAR(static_cast<double>(totals_of(made("nmt", {}, kTensorFlowStep)).flops), 1'122'458'870'567.0,
              0.005 * 1'122'458'870'567.0);
}

TEST(TensorFlowModels, HaveNoUnreadResults) {
  for (const auto& [model, sizes] : small_models()) {
    const OpGraph graph = made(model, sizes, kTensorFlowStep);
    std::size_t results = 0;
    for (const OpId op : ops_of(graph)) {
      bool read = false;
      for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
        read = read || !graph.consumers(graph.output(op, k)).empty();
      if (read || graph.phase(op) == Phase::kUpdate) continue;
      ++results;
      EXPECT_TRUE(graph.shape(graph.output(op, 0)).empty()) << graph.name(op) << " is no loss";
    }
    EXPECT_LE(results, 1u) << model;
    EXPECT_TRUE(graph.ids_are_topological());
  }
}

TEST(TensorFlowModels, ReadAndUpdateEveryVariableOnce) {
  for (const auto& [model, sizes] : small_models()) {
    const OpGraph graph = made(model, sizes, kTensorFlowStep);
    std::map<OpId, std::size_t> reads, updates;
    for (const OpId op : ops_of(graph)) {
      const std::string_view type = graph.type_name(op);
      const bool applies = type.starts_with("Apply") || type.starts_with("SparseApply") ||
                           type == "ScatterSub" || type == "AssignSub";
      if (type == "Parameter") {
        EXPECT_EQ(graph.attrs_json(op), R"({"op":"VariableV2"})");
        reads[op], updates[op];
      }
      if (type == "Identity" && graph.type_name(graph.producer(graph.inputs(op)[0])) == "Parameter") {
        ++reads[graph.producer(graph.inputs(op)[0])];
        EXPECT_TRUE(graph.name(op).ends_with("/read"));
      }
      if (applies) {
        const OpId variable = graph.producer(graph.inputs(op)[0]);
        EXPECT_EQ(graph.colocated_with(op), variable) << graph.name(op);
        EXPECT_EQ(graph.phase(op), Phase::kUpdate);
        if (graph.type_name(variable) == "Parameter") ++updates[variable];
      }
      if (type == "OptimizerState") {
        EXPECT_EQ(graph.type_name(graph.colocated_with(op)), "Parameter") << graph.name(op);
      }
    }
    ASSERT_FALSE(reads.empty());
    for (const auto& [variable, times] : reads) EXPECT_EQ(times, 1u) << graph.name(variable);
    for (const auto& [variable, times] : updates) EXPECT_EQ(times, 1u) << graph.name(variable);
  }
}

TEST(TensorFlowModels, DifferentiateWithShapesSumsAndReshapes) {
  const OpGraph graph = made("nmt", {.layers = 3, .batch = 4, .steps = 3}, kTensorFlowStep);
  std::map<std::string_view, std::size_t> count;
  for (const OpId op : ops_of(graph)) {
    const std::string_view type = graph.type_name(op);
    ++count[type];
    if (type == "BroadcastGradientArgs") {
      for (const TensorId dims : graph.inputs(op)) {
        const std::string_view from = graph.type_name(graph.producer(dims));
        EXPECT_TRUE(from == "Shape" || from == "Constant") << from;
      }
    }
    // A gradient has the shape of its tensor; views show no more elements than there are.
    if (type == "Reshape" || type == "Identity") {
      EXPECT_EQ(graph.bytes(graph.output(op, 0)), graph.bytes(graph.inputs(op)[0])) << graph.name(op);
      EXPECT_TRUE(graph.is_view(op));
    }
    if (type == "AddN") {
      EXPECT_GT(graph.inputs(op).size(), 1u);
      for (const TensorId part : graph.inputs(op))
        EXPECT_EQ(graph.bytes(part), graph.bytes(graph.output(op, 0)));
    }
    if (graph.phase(op) == Phase::kBackward) {
      EXPECT_TRUE(graph.name(op).starts_with("gradients/")) << graph.name(op);
      // Only the ends of the sequences have no scope, as in the traces.
      EXPECT_TRUE(!graph.group_name(op).empty() || type == "Pack" || type == "AddN") << graph.name(op);
    }
  }
  // Two cells of the encoder's first layer, one of each other, three of the decoder.
  const std::size_t cells = 4 + 3, steps = 3;
  EXPECT_EQ(count["Split"], cells * steps);
  EXPECT_EQ(count["Tanh"], cells * steps * 2 + steps * 2) << "and the attention's";
  EXPECT_GE(count["Shape"] + count["ShapeN"], count["BroadcastGradientArgs"]);
  EXPECT_EQ(count["GatherV2"], 2u);
  EXPECT_EQ(count["Unique"], 2u);
  EXPECT_EQ(count["SparseSoftmaxCrossEntropyWithLogits"], steps);
}

// Sums of gradients are with the gradients, not with the update: a layer's weight gradient is made where
// the layer runs.
TEST(TensorFlowModels, SumWeightGradientsInTheScopeOfTheLayer) {
  const OpGraph graph = made("nmt", {.batch = 4, .steps = 3}, kTensorFlowStep);
  std::size_t seen = 0;
  for (const OpId op : ops_of(graph)) {
    if (graph.type_name(op) != "ApplyAdam" || !graph.name(op).starts_with("train/update_dec.1.kernel/"))
      continue;
    const OpId sum = graph.producer(graph.inputs(op).back());
    EXPECT_EQ(graph.type_name(sum), "AddN");
    EXPECT_EQ(graph.inputs(sum).size(), 3u);
    EXPECT_EQ(graph.group_name(sum), "decoder/t02/l1/dec.1");
    EXPECT_EQ(graph.phase(sum), Phase::kBackward);
    ++seen;
  }
  EXPECT_EQ(seen, 1u);
}

TEST(TensorFlowTapes, SpreadAMeanAndBroadcastASum) {
  TensorFlowTape tape{Optimizer::kSgd};
  const Tensor x = tape.input("x", DType::kF32, {2, 5, 3});
  const Tensor weight = tape.parameter("w.weight", {3, 3}), bias = tape.parameter("b.bias", {2, 1, 3});
  const Tensor y = tape.add(tape.linear(x, weight), bias);  // Sums over the five.
  const Tensor label = tape.input("label", DType::kI64, {2});
  const Tensor loss = tape.cross_entropy(tape.flatten(y), label);
  const auto graph = tape.finish(loss, {"small", "", "{}"});
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  std::size_t sums = 0, divisions = 0;
  for (const OpId op : ops_of(*graph)) {
    if (graph->type_name(op) == "Sum" && !graph->is_view(op)) {
      ++sums;
      EXPECT_EQ(graph->flops(op), 2 * 5 * 3);
      EXPECT_EQ(graph->bytes(graph->output(op, 0)), 2 * 1 * 3 * 4);
    }
    if (graph->type_name(op) == "RealDiv") {
      ++divisions;
      EXPECT_EQ(graph->type_name(graph->producer(graph->inputs(op)[0])), "Tile");
      EXPECT_EQ(graph->bytes(graph->output(op, 0)), 2 * 4) << "one loss per row";
    }
  }
  EXPECT_EQ(sums, 1u);
  EXPECT_EQ(divisions, 1u);
}

}  // namespace
}  // namespace emplace::models
