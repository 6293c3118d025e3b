// Goal: a PipeDream profile becomes the layers that it measured, forward and backward, and a broken one is
// refused by its line. Method: a published profile against the same profile as emplace-graph, made by another
// program; profiles written by hand.
#include "lab/formats/pipedream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "graph/formats/graph_file.h"
#include "tests/graph/graph_text.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kPipeDreamFiles{EMPLACE_FIXTURES};

Result<OpGraph> read_pipedream(std::string_view text) { return read_text("graph.txt", text); }

std::string pipedream_error(std::string_view text) { return refusal_of("graph.txt", text); }

std::string layer(std::string_view name, std::string_view metrics = "",
                  std::string_view what = "ReLU(inplace)") {
  constexpr std::string_view kMetrics =
      "forward_compute_time=1.5, backward_compute_time=0.25, activation_size=64.000, parameter_size=8.000";
  return std::string{name} + " -- " + std::string{what} + " -- " +
         std::string{metrics.empty() ? kMetrics : metrics} + "\n";
}

TEST(Pipedream, PublishedProfileEqualsTheGraphOfAnotherProgram) {
  const OpGraph ours = load_graph(kPipeDreamFiles / "third_party/pipedream/alexnet.txt").value();
  const OpGraph theirs = load_graph(kPipeDreamFiles / "graphs/pipedream-alexnet.json").value();
  EXPECT_EQ(ours.name(), "alexnet");
  EXPECT_EQ(graph_sha256(ours).substr(0, 16), "d391efea238ba918");
  ASSERT_EQ(ours.num_ops(), theirs.num_ops());
  ASSERT_EQ(ours.num_edges(), theirs.num_edges());
  ASSERT_THAT(ours.measured_classes(), ElementsAre("gpu"));
  for (std::uint32_t i = 0; i < ours.num_ops(); ++i) {
    const OpId op{i};
    SCOPED_TRACE(ours.name(op));
    EXPECT_EQ(ours.name(op), theirs.name(op));
    EXPECT_EQ(ours.type_name(op), theirs.type_name(op));
    EXPECT_EQ(ours.phase(op), theirs.phase(op));
    EXPECT_DOUBLE_EQ(ours.measured_us(op, 0), theirs.measured_us(op, 0));
    EXPECT_EQ(ours.param_bytes(op), theirs.param_bytes(op));
    ASSERT_EQ(ours.num_outputs(op), 1u);
    EXPECT_EQ(ours.bytes(ours.first_output(op)), theirs.bytes(theirs.first_output(op)));
    EXPECT_THAT(ours.inputs(op), ::testing::ElementsAreArray(theirs.inputs(op)));
  }
  EXPECT_EQ(graph_sha256(ours), graph_sha256(theirs));
}

TEST(Pipedream, GradientsReadTheirLayerAndTheGradientsOfItsReaders) {
  const auto graph = read_pipedream(layer("b") +
                                    layer("a",
                                          "forward_compute_time=2, backward_compute_time=3, "
                                          "activation_size=[10.0; 20.0], parameter_size=0.0",
                                          "Conv2d(3, 64, kernel_size=(11, 11))") +
                                    "\ta -- b\n");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < graph->num_ops(); ++i) names.emplace_back(graph->name(OpId{i}));
  EXPECT_THAT(names, ElementsAre("a", "b", "b/grad", "a/grad"));
  EXPECT_EQ(graph->type_name(OpId{0}), "layer::Conv");
  EXPECT_EQ(graph->type_name(OpId{3}), "layer::Conv_backward");
  EXPECT_THAT(graph->inputs(OpId{3}), ElementsAre(TensorId{0}, TensorId{2}));
  EXPECT_EQ(graph->bytes(TensorId{0}), 30);
  EXPECT_EQ(graph->bytes(TensorId{2}), 30);  // It is as large as b's input.
  EXPECT_EQ(graph->bytes(TensorId{3}), 0);
  EXPECT_DOUBLE_EQ(graph->measured_us(OpId{3}, 0), 3000);
}

TEST(Pipedream, ReadsStagesAndWindowsLineEnds) {
  std::string text = layer("a");
  text.insert(text.size() - 1, " -- stage_id=3\r");
  const auto graph = read_pipedream(text);
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->attrs_json(OpId{0}), R"x({"stage":"3","text":"ReLU(inplace)"})x");
}

TEST(Pipedream, ErrorsNameTheLine) {
  EXPECT_THAT(pipedream_error(layer("a") + layer("a")),
              AllOf(HasSubstr("line 2"), HasSubstr("'a' appears twice")));
  EXPECT_THAT(pipedream_error(layer("a") + "\n\ta -- ghost\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("'ghost' is not a layer")));
  EXPECT_THAT(pipedream_error(layer("a") + "\ta\n"), HasSubstr("line 2: is not an edge"));
  EXPECT_THAT(pipedream_error(layer("a") + "hello\n"), HasSubstr("line 2: is neither a layer nor an edge"));
  EXPECT_THAT(pipedream_error(layer("a") + "\ta -- a\n"), HasSubstr("cycle"));
  EXPECT_THAT(pipedream_error(layer("a") + layer("b") + "\ta -- b\n\tb -- a\n"),
              AllOf(HasSubstr("cycle"), HasSubstr("'a'")));
  for (const char* bad : {"-1", "nan", "inf", "1e300", "", "x", "1 2", "[", "[1;", "[1; x]"}) {
    const std::string metrics = "forward_compute_time=" + std::string{bad} +
                                ", backward_compute_time=0, activation_size=1, parameter_size=1";
    EXPECT_THAT(pipedream_error(layer("a", metrics)), HasSubstr("line 1: forward_compute_time")) << bad;
  }
  EXPECT_THAT(pipedream_error(layer("a", "forward_compute_time=1")),
              HasSubstr("backward_compute_time is missing"));
}

TEST(Pipedream, ReadsOrRefusesEveryTruncationInOneLine) {
  const std::string whole = layer("a") + layer("b") + "\ta -- b\n";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto graph =
        parse_graph(std::as_bytes(std::span{whole.data(), size}), "cut", {.format = GraphFormat::kPipedream});
    if (graph) continue;
    EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << size;
  }
}

TEST(GraphFormat, MisspeltNameGetsTheNearest) {
  EXPECT_EQ(parse_format("onnx").value(), GraphFormat::kOnnx);
  EXPECT_EQ(parse_format("pipedream").value(), GraphFormat::kPipedream);
  EXPECT_EQ(parse_format("emplace").value(), GraphFormat::kEmplace);
  EXPECT_THAT(
      parse_format("pipdream").error().context,
      AllOf(HasSubstr("'pipdream'"), HasSubstr("did you mean 'pipedream'?"), HasSubstr("tf-graphdef")));
}

TEST(GraphFormat, WrongFormatIsRefusedInOneLine) {
  const std::string profile = layer("a");
  const auto bytes = std::as_bytes(std::span{profile.data(), profile.size()});
  EXPECT_EQ(recognise_format(bytes, "graph.json"), GraphFormat::kPipedream);
  for (const char* name : {"onnx", "tf-graphdef", "emplace"}) {
    const auto graph = parse_graph(bytes, "graph.txt", {.format = parse_format(name).value()});
    ASSERT_FALSE(graph.ok()) << name;
    EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace emplace
