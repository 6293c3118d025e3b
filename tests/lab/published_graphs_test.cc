// Goal: DOPPLER's and Piper's graphs keep their times and bytes, and a broken one is refused by its line or
// node. Method: small graphs by hand, in the forms that their authors publish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "graph/formats/graph_file.h"
#include "lab/formats/doppler.h"
#include "lab/formats/piper.h"
#include "tests/graph/graph_text.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kPublishedFiles = std::filesystem::path{EMPLACE_FIXTURES} / "formats";

std::string published_error(std::string_view text, GraphFormat format) {
  return refusal_of("file", text, {.format = format});
}

TEST(Doppler, NodesHaveTheTimesAndBytesOfItsSimulator) {
  const OpGraph graph = load_graph(kPublishedFiles / "doppler.txt").value();
  ASSERT_EQ(graph.num_ops(), 4u);
  EXPECT_EQ(graph.num_edges(), 4u);  // One edge appears twice.
  EXPECT_THAT(graph.measured_classes(), ElementsAre("gpu"));
  EXPECT_EQ(graph.name(OpId{0}), "node0");
  EXPECT_EQ(graph.type_name(OpId{0}), "node::einsummable");
  EXPECT_DOUBLE_EQ(graph.measured_us(OpId{0}, 0), 1e8);
  EXPECT_EQ(graph.bytes(graph.first_output(OpId{0})), 4'000'000'000'000);
  EXPECT_EQ(graph.type_name(OpId{3}), "node");
  EXPECT_EQ(graph_sha256(graph).substr(0, 16), "df28a37a00bf2391");
}

TEST(Doppler, ErrorsNameTheLine) {
  const auto error = [](std::string_view text) { return published_error(text, GraphFormat::kDoppler); };
  const std::string head = "3\n0,\n0,\n1,\n";
  EXPECT_EQ(error(head + "1,2\n3,4,formation"), "accepted");
  EXPECT_THAT(error(head + "1,2\n"), HasSubstr("line 1: declares 3 nodes, but the file has 2"));
  EXPECT_THAT(error(head + "1,2\n3\n"), HasSubstr("line 6: is not a node"));
  EXPECT_THAT(error(head + "1,2\n3,4,a b\n"), HasSubstr("line 6: is not a node"));
  EXPECT_THAT(error(head + "1,2\n3,9999999999999999\n"), HasSubstr("line 6"));
  EXPECT_THAT(error(head + "1,2\n3,-4\n"), HasSubstr("line 6"));
  EXPECT_THAT(error("3\n0,\n0, 1\n1,\n1,2\n3,4\n"), HasSubstr("1 readers for 2 producers"));
  EXPECT_THAT(error("3\n0,\n0,\n7,\n1,2\n3,4\n"), HasSubstr("line 4: names node 7"));
  EXPECT_THAT(error("2\n\n0,1\n1,0\n1,2\n3,4\n"), HasSubstr("cycle"));
  EXPECT_THAT(error("x\n"), HasSubstr("line 1: is not a list of numbers"));
  EXPECT_THAT(error("0\n\n\n\n"), HasSubstr("no op"));
  for (std::size_t size = 1; size < head.size(); ++size) error(head.substr(0, size));
}

TEST(Piper, NodesHaveTheirPlainVariants) {
  const OpGraph graph = load_graph(kPublishedFiles / "piper.json").value();
  ASSERT_EQ(graph.num_ops(), 3u);
  EXPECT_EQ(graph.name(OpId{0}), "embedding#7");
  EXPECT_DOUBLE_EQ(graph.measured_us(OpId{0}, 0), 500);
  EXPECT_EQ(graph.param_bytes(OpId{0}), 1024 + 4096);
  ASSERT_EQ(graph.num_outputs(OpId{0}), 2u);  // The outputs have two sizes.
  EXPECT_EQ(graph.bytes(graph.output(OpId{0}, 1)), 64);
  EXPECT_DOUBLE_EQ(graph.measured_us(OpId{1}, 0), 2000);
  EXPECT_THAT(graph.meta_json(), HasSubstr(R"("devices":4)"));
  EXPECT_THAT(graph_notes(graph), ElementsAre(HasSubstr("2 variants")));
  EXPECT_EQ(graph_sha256(graph).substr(0, 16), "ffbb461c66549ee2");
}

TEST(Piper, ErrorsNameTheNode) {
  const auto error = [](std::string_view text) { return published_error(text, GraphFormat::kPiper); };
  const std::string variant =
      R"({"id":"vanilla","timePerSample":1,"parameterSize":1,"memoryUsageA":1,"memoryUsageB":1})";
  const auto node = [&](std::string_view id, std::string_view all) {
    return R"({"id":)" + std::string{id} + R"(,"TMPCs":)" + std::string{all} + "}";
  };
  const auto file = [](std::string_view nodes, std::string_view edges) {
    return R"({"nodes":[)" + std::string{nodes} + R"(],"edges":[)" + std::string{edges} + "]}";
  };
  const std::string good = node("1", R"({"1":[)" + variant + "]}");
  EXPECT_EQ(error(file(good, "")), "accepted");
  EXPECT_THAT(error(file(good + "," + good, "")), HasSubstr("node 1: has the duplicate id 1"));
  EXPECT_THAT(error(file(node("1", R"({"2":[]})"), "")), HasSubstr("no variant of tensor-parallel degree 1"));
  EXPECT_THAT(error(file(node("1", "[]"), "")), HasSubstr("no variant"));
  EXPECT_THAT(error(file(node("1", R"({"1":[7]})"), "")), HasSubstr("is not an object"));
  EXPECT_THAT(error(file(node("1", R"({"1":[{}]})"), "")), HasSubstr("node 0: has no timePerSample"));
  EXPECT_THAT(error(file(node("1.5", R"({"1":[)" + variant + "]}"), "")), HasSubstr("is not a whole number"));
  EXPECT_THAT(error(file(good, R"({"sourceId":1,"destId":2,"communicationCost":1})")),
              HasSubstr("edge 0: names node 2"));
  EXPECT_THAT(error(file(good, R"({"sourceId":1,"destId":1,"communicationCost":1})")), HasSubstr("cycle"));
  EXPECT_THAT(error(file(good, R"({"sourceId":1,"destId":1,"communicationCost":-1})")),
              HasSubstr("is not a number from 0"));
  EXPECT_THAT(error(R"({"TMPCs":1})"), HasSubstr("no list of nodes"));
  EXPECT_THAT(error("{"), HasSubstr("is not JSON"));
}

TEST(PublishedGraphs, AreRecognisedByTheirContent) {
  const auto format = [](std::string_view text) {
    return recognise_format(std::as_bytes(std::span{text.data(), text.size()}), "file");
  };
  EXPECT_EQ(format("3\n0,\n0, \n1,\n1,2\n"), GraphFormat::kDoppler);
  EXPECT_EQ(format(R"({"nodes": [{"id": 0, "TMPCs": {}}]})"), GraphFormat::kPiper);
  EXPECT_EQ(format("// a comment\nHloModule m\n"), GraphFormat::kHlo);
  EXPECT_EQ(format("class <lambda>(torch.nn.Module):\n    def forward(self, a):\n"), GraphFormat::kFx);
  EXPECT_EQ(format("PK\3\4"), GraphFormat::kPt2);
  EXPECT_EQ(format("3\n"), GraphFormat::kEmplace);
}

}  // namespace
}  // namespace emplace
