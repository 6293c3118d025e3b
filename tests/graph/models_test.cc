// Goal: the papers' models equal torch's traces op for op where there are any, and follow their options.
// Method: fingerprints of the traces, recorded once; small models in every form.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "graph/formats/graph_file.h"
#include "graph/models/catalogue.h"
#include "tests/graph/model_samples.h"

namespace emplace::models {
namespace {

using ::testing::HasSubstr;

/// All that decides cost and place: types, inputs, output types and shapes, work, state, phases, colocation.
std::string fingerprint(const OpGraph& graph) {
  std::string text;
  for (const OpId op : ops_of(graph)) {
    text.append(graph.type_name(op)).append("/").append(phase_name(graph.phase(op)));
    text += (graph.is_view(op) ? "/view " : " ") + std::to_string(graph.flops(op)) + " " +
            std::to_string(graph.param_bytes(op)) + " " + std::to_string(graph.conv_groups(op));
    for (const TensorId input : graph.inputs(op)) text += " <" + std::to_string(index(input));
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      text.append(" >").append(dtype_name(graph.dtype(graph.output(op, k))));
      for (const std::int64_t size : graph.shape(graph.output(op, k))) text += "," + std::to_string(size);
    }
    if (graph.colocated_with(op) != kNoOp) text += " @" + std::to_string(index(graph.colocated_with(op)));
    text += "\n";
  }
  return sha256_hex(std::as_bytes(std::span{text})).substr(0, 16);
}

// ---- As torch traces them ----

/// A file of shared/graphs/training with its counts and its fingerprint.
struct Trace {
  const char* file;
  const char* model;
  ModelSizes sizes;
  std::size_t ops, edges;
  std::int64_t flops, parameter_bytes;
  const char* fingerprint;
};
const std::vector<Trace>& traces() {
  static const std::vector<Trace> kTraces{
      {"cifar10_cnn-bs128.json", "cifar10-cnn", {}, 91, 138, 24'071'166'100, 7'026'728, "129b8ab6b7d6f677"},
      {"resnet152-bs128.json",
       "resnet-152",
       {},
       3691,
       5656,
       8'879'283'851'552,
       240'771'232,
       "90e9ce7987663885"},
      {"inception_v3-bs32.json",
       "inception-v3",
       {},
       3866,
       5710,
       1'105'129'768'755,
       108'645'056,
       "d29631f69b1a4653"},
      {"inception_v3-bs1.json",
       "inception-v3",
       {.batch = 1},
       3745,
       5537,
       34'798'738'409,
       95'338'272,
       "8fffd5ee3e6c4852"},
      {"rnnlm-bs64.json", "rnnlm", {}, 4613, 7753, 1'345'739'017'143, 432'446'528, "6f43ba03a1e5a222"},
      {"nmt-2layer-bs64.json.gz",
       "nmt",
       {},
       13581,
       21951,
       1'122'458'870'567,
       552'866'816,
       "e07f5a8cbc930b9a"},
      {"nmt-4layer-bs64.json.gz",
       "nmt",
       {.layers = 4},
       21889,
       35859,
       1'638'231'286'567,
       687'215'616,
       "33ee59620a1fa001"},
      {"nasnet_a_cifar-bs32.json.gz",
       "nasnet",
       {},
       7541,
       11472,
       97'108'209'352,
       12'246'952,
       "9f1efe5855fd4a80"},
  };
  return kTraces;
}

TEST(TracedModels, EqualTheTracesOpForOp) {
  for (const Trace& trace : traces()) {
    const OpGraph graph = made(trace.model, trace.sizes, kTraced);
    EXPECT_EQ(graph.num_ops(), trace.ops) << trace.file;
    EXPECT_EQ(graph.num_edges(), trace.edges) << trace.file;
    EXPECT_EQ(totals_of(graph).flops, trace.flops) << trace.file;
    EXPECT_EQ(totals_of(graph).parameter_bytes, trace.parameter_bytes) << trace.file;
    EXPECT_EQ(fingerprint(graph), trace.fingerprint) << trace.file;
  }
}

// The values recorded above, compared with the files: those that are shipped, and all if EMPLACE_GRAPHS_DIR
// has them.
TEST(TracedModels, RecordedValuesAreThoseOfTheFiles) {
  std::vector<std::string> folders{EMPLACE_SOURCE_DIR "/tests/fixtures/graphs/",
                                   EMPLACE_SOURCE_DIR "/configs/graphs/"};
  if (const char* root = std::getenv("EMPLACE_GRAPHS_DIR"); root != nullptr)
    folders.push_back(std::string{root} + "/training/");
  std::size_t found = 0;
  for (const Trace& trace : traces()) {
    for (const std::string& folder : folders) {
      if (!std::filesystem::exists(folder + trace.file)) continue;
      const auto graph = load_graph(folder + trace.file);
      ASSERT_TRUE(graph.ok()) << graph.error().context;
      EXPECT_EQ(graph->num_edges(), trace.edges) << trace.file;
      EXPECT_EQ(totals_of(*graph).flops, trace.flops) << trace.file;
      EXPECT_EQ(totals_of(*graph).parameter_bytes, trace.parameter_bytes) << trace.file;
      EXPECT_EQ(fingerprint(*graph), trace.fingerprint) << trace.file;
      ++found;
    }
  }
  EXPECT_GE(found, 2u);
}

TEST(TracedModels, GrowWithTheirOptions) {
  const Totals small = totals_of(made("nmt", {.layers = 2, .batch = 8, .steps = 4}, kTraced));
  const Totals wide = totals_of(made("nmt", {.layers = 2, .batch = 16, .steps = 4}, kTraced));
  const Totals deep = totals_of(made("nmt", {.layers = 3, .batch = 8, .steps = 4}, kTraced));
  const Totals large = totals_of(made("nmt", {.layers = 2, .batch = 8, .steps = 8}, kTraced));
  EXPECT_EQ(wide.parameter_bytes, small.parameter_bytes);
  EXPECT_EQ(large.parameter_bytes, small.parameter_bytes);
  // One more LSTM layer in encoder and decoder, 1024 wide.
  EXPECT_EQ(deep.parameter_bytes - small.parameter_bytes, 2 * (2 * 4096 * 1024 + 2 * 4096) * 4);
  EXPECT_GT(wide.flops, small.flops);
  EXPECT_GT(large.flops, small.flops);
  EXPECT_GT(made("nasnet", {.layers = 7}, kTraced).num_ops(), 7541u);
}

// ---- Both ----

TEST(Models, TakeAnyOptimizerAndNameItUnlessItIsTheirOwn) {
  const std::string_view updates[] = {"ApplyGradientDescent", "ApplyMomentum", "ApplyRMSProp", "ApplyAdam"};
  for (const auto& [model, small] : small_models()) {
    const std::string own{made(model, small, kTensorFlowStep).name()};
    const Optimizer usual = find_model(model)->optimizer;
    ModelSizes sizes = small;
    for (const Optimizer optimizer :
         {Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kRmsProp, Optimizer::kAdam}) {
      sizes.optimizer = optimizer;
      const OpGraph graph = made(model, sizes, kTensorFlowStep);
      const std::string name{word_of(optimizer)};
      EXPECT_EQ(std::string{graph.name()}.find("-" + name) == std::string::npos, optimizer == usual) << model;
      EXPECT_EQ(graph.name() == own, optimizer == usual);
      EXPECT_THAT(std::string{graph.meta_json()}, HasSubstr("\"optimizer\":\"" + name + "\""));
      std::set<std::string_view> seen;
      for (const OpId op : ops_of(graph))
        for (const std::string_view type : updates)
          if (graph.type_name(op) == type) seen.insert(type);
      EXPECT_EQ(seen, std::set<std::string_view>{updates[static_cast<std::size_t>(optimizer)]}) << model;
    }
  }
}

TEST(Models, HaveLstmCellsOfTheRequestedHiddenSize) {
  const ModelSizes narrow{.batch = 4, .steps = 3, .hidden = 32}, wide{.batch = 4, .steps = 3, .hidden = 64};
  const auto bytes = [](std::string_view model, const ModelSizes& sizes) {
    return totals_of(made(model, sizes, kTraced)).parameter_bytes / 4;
  };
  // Two tables of the vocabulary and a bias; two layers of [x h] to four gates with two biases.
  EXPECT_EQ(bytes("rnnlm", narrow), 2 * 10'000 * 32 + 10'000 + 2 * (4 * 32 * 64 + 2 * 4 * 32));
  EXPECT_EQ(bytes("rnnlm", wide), 2 * 10'000 * 64 + 10'000 + 2 * (4 * 64 * 128 + 2 * 4 * 64));
  const OpGraph nmt = made("nmt", narrow, kTraced);
  EXPECT_EQ(nmt.name(), "nmt-2layer-3step-hidden32-bs4");
  EXPECT_THAT(std::string{nmt.meta_json()}, HasSubstr(R"("granularity":"aten","hidden":32,"kind")"));
  EXPECT_EQ(nmt.num_ops(), made("nmt", wide, kTraced).num_ops());
  const ModelSizes usual{.batch = 4, .steps = 3}, same{.batch = 4, .steps = 3, .hidden = 1024};
  EXPECT_EQ(graph_sha256(made("nmt", same, kTraced)), graph_sha256(made("nmt", usual, kTraced)));
}

// Only the second convolution has less work in parts: each part reads 64 / split channels.
//                                                                       Paper: Spotlight 2018, section 5.5
TEST(Models, SplitConvolutionsHaveTheWorkAndParametersOfTheirParts) {
  constexpr std::int64_t kBatch = 8, kPixels = 256, kWindow = 25;
  const auto parameters = [&](std::int64_t split) {
    const std::int64_t conv1 = 64 * (3 * kWindow + 1), conv2 = 64 * (64 / split * kWindow + 1);
    return conv1 + conv2 + 2 * 2 * 64 + 384 * (64 * 8 * 8 + 1) + 192 * (384 + 1) + 10 * (192 + 1);
  };
  const auto multiply_adds = [&](std::int64_t split) {
    return kBatch * kPixels * 64 * (64 / split) * kWindow;
  };
  for (const Granularity granularity : {Granularity::kAten, Granularity::kTensorFlow}) {
    for (const bool training : {false, true}) {
      const Recording recording{.granularity = granularity, .training = training};
      const Totals whole = totals_of(made("cifar10-cnn", {.batch = kBatch}, recording));
      for (const std::int64_t split : {1, 2, 4, 8, 16, 32, 64}) {
        const Totals parts = totals_of(made("cifar10-cnn", {.batch = kBatch, .split = split}, recording));
        EXPECT_EQ(parts.parameter_bytes, 4 * parameters(split));
        const std::int64_t passes =
            training ? 3
                     : 1;  // The passes compute the result, the gradient of the input and that of the weight.
        std::int64_t fewer = passes * 2 * (multiply_adds(1) - multiply_adds(split));
        if (training) fewer += 2 * (parameters(1) - parameters(split));  // The update has less work, too.
        EXPECT_EQ(whole.flops - parts.flops, fewer) << split;
      }
    }
  }
}

TEST(Models, SplitConvolutionsExchangeNothingUntilTheFullyConnectedLayers) {
  for (const Recording recording : {kTraced, kTensorFlowStep}) {
    const OpGraph graph = made("cifar10-cnn", {.batch = 4, .split = 4}, recording);
    // The branch of an op is in its scope; state has scopes such as "conv1.branch0".
    const auto branch = [&](OpId op) {
      const std::string_view scope = graph.group_name(op);
      const std::size_t at = scope.find("branch");
      return at == std::string_view::npos ? std::string_view{} : scope.substr(at, scope.find('.', at) - at);
    };
    std::map<std::string_view, std::size_t> ops;
    for (const OpId op : ops_of(graph)) {
      if (branch(op).empty()) continue;
      ++ops[branch(op)];
      for (const TensorId input : graph.inputs(op)) {
        const OpId from = graph.producer(input);
        EXPECT_TRUE(branch(from).empty() || branch(from) == branch(op))
            << graph.name(op) << " reads " << graph.name(from);
      }
    }
    EXPECT_EQ(ops.size(), 4u);
    for (const auto& [name, count] : ops) EXPECT_GE(count, 30u) << name;
    // Every op of the layers is in a branch.
    for (const OpId op : ops_of(graph))
      for (const char* layer : {"conv", "pool", "norm"})
        EXPECT_TRUE(graph.group_name(op).find(layer) == std::string_view::npos || !branch(op).empty())
            << graph.name(op);
  }
}

// The values were recorded before `split` existed.
TEST(Models, SplitOfOneIsTheWholeNetwork) {
  const std::vector<std::tuple<Granularity, bool, std::string>> whole{
      {Granularity::kAten, true, "eb61399fd1f2f0b7"},
      {Granularity::kAten, false, "6d3fe2dfafbba44d"},
      {Granularity::kTensorFlow, true, "0f01b2f6e64da80f"},
      {Granularity::kTensorFlow, false, "0421c4450a4745e5"}};
  for (const auto& [granularity, training, sha] : whole) {
    const Recording recording{.granularity = granularity, .training = training};
    EXPECT_EQ(graph_sha256(made("cifar10-cnn", {}, recording)).substr(0, 16), sha);
    EXPECT_EQ(graph_sha256(made("cifar10-cnn", {.split = 1}, recording)).substr(0, 16), sha);
  }
  const OpGraph parts = made("cifar10-cnn", {.split = 2}, kTensorFlowStep);
  EXPECT_EQ(parts.name(), "cifar10-cnn-split2-bs128-tensorflow");
  EXPECT_THAT(std::string{parts.meta_json()}, HasSubstr(R"("precision":"f32","split":2})"));
}

TEST(Models, WithoutTrainingAreForwardPassesOnly) {
  for (const auto& [model, sizes] : small_models()) {
    for (const Granularity granularity : {Granularity::kAten, Granularity::kTensorFlow}) {
      const OpGraph graph = made(model, sizes, {.granularity = granularity, .training = false});
      const OpGraph whole = made(model, sizes, {.granularity = granularity, .training = true});
      EXPECT_LT(graph.num_ops() * 2, whole.num_ops()) << graph.name();
      EXPECT_THAT(std::string{graph.meta_json()}, HasSubstr(R"("kind":"forward")"));
      for (const OpId op : ops_of(graph)) {
        EXPECT_EQ(graph.phase(op), Phase::kForward) << graph.name(op);
        EXPECT_NE(graph.type_name(op), "OptimizerState");
        EXPECT_NE(graph.type_name(op), "aten::bernoulli");
        EXPECT_NE(graph.type_name(op), "RandomUniform");
        EXPECT_NE(graph.name(op), "label");
        if (graph.type_name(op) != "Shape") continue;
        const OpId reader = graph.consumers(graph.output(op, 0))[0];
        EXPECT_EQ(graph.type_name(reader), "StridedSlice") << "a zero state's batch";
      }
    }
  }
}

TEST(Models, AreReproducibleAndRoundTrip) {
  std::set<std::string> hashes;
  for (const auto& [model, sizes] : small_models()) {
    for (const Granularity granularity : {Granularity::kAten, Granularity::kTensorFlow}) {
      const Recording recording{.granularity = granularity, .training = true};
      const OpGraph graph = made(model, sizes, recording);
      const std::string sha = graph_sha256(graph), file = ::testing::TempDir() + "model.json.gz";
      EXPECT_EQ(graph_sha256(made(model, sizes, recording)), sha);
      ASSERT_TRUE(save_graph(graph, file).ok());
      const auto loaded = load_graph(file);
      ASSERT_TRUE(loaded.ok()) << loaded.error().context;
      EXPECT_EQ(graph_sha256(*loaded), sha) << graph.name();
      hashes.insert(sha);
    }
  }
  EXPECT_EQ(hashes.size(), 12u);
}

TEST(Models, RefuseOptionsThatDoNotApply) {
  const auto refusal = [](std::string_view model, const ModelSizes& sizes) {
    const auto graph = model_graph(*find_model(model), sizes, kTraced);
    return graph.ok() ? std::string{} : graph.error().context;
  };
  EXPECT_EQ(refusal("cifar10-cnn", {.steps = 3}),
            "--steps: does not apply to cifar10-cnn; it takes --batch, --split, --optimizer");
  EXPECT_THAT(refusal("nasnet", {.hidden = 8}), HasSubstr("--hidden: does not apply to nasnet"));
  EXPECT_THAT(refusal("nmt", {.hidden = 7}), HasSubstr("--hidden '7': is odd"));
  EXPECT_THAT(refusal("rnnlm", {.hidden = 16'385}), HasSubstr("from 1 to 16384"));
  EXPECT_THAT(refusal("resnet-152", {.layers = 50}), HasSubstr("--layers: does not apply to resnet-152"));
  EXPECT_THAT(refusal("nmt", {.layers = 33}), HasSubstr("from 1 to 32"));
  EXPECT_THAT(refusal("nmt", {.batch = 0}), HasSubstr("--batch '0': is out of range"));
  EXPECT_THAT(refusal("rnnlm", {.steps = 100}), HasSubstr("from 1 to 99"));
  EXPECT_THAT(refusal("nmt", {.split = 2}), HasSubstr("--split: does not apply to nmt"));
  for (const std::int64_t split : {-1, 0, 65})
    EXPECT_THAT(refusal("cifar10-cnn", {.split = split}), HasSubstr("is out of range; use a whole number"));
  EXPECT_EQ(refusal("cifar10-cnn", {.split = 3}),
            "--split '3': does not divide the 64 channels of a convolution; use 1, 2, 4, 8, 16, 32 or 64");
  EXPECT_EQ(find_model("resnet"), nullptr);
  for (const ModelFacts& model : all_models()) EXPECT_EQ(find_model(model.name)->name, model.name);
}

}  // namespace
}  // namespace emplace::models
