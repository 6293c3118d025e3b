// Goal: every format of a graph is the same graph, and every bad file gives one clear line. Method: real
// traced graphs, documents written by the test, and files that are truncated, inflated or corrupted.
#include "graph/formats/graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "graph/arithmetic.h"
#include "graph/order.h"
#include "tests/graph/large_graph.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::filesystem::path kGraphFiles = std::filesystem::path{EMPLACE_FIXTURES} / "graphs";
const std::filesystem::path kNmt =
    std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs/graphs/nmt-2layer-bs64.json.gz";

/// A folder that is removed with the test.
class GraphFile : public ::testing::Test {
 protected:
  GraphFile() {
    dir_ = std::filesystem::temp_directory_path() /
           ("graph_file_test." + std::to_string(::getpid()) + "." +
            ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir_);
  }
  ~GraphFile() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

std::string graph_file_error(std::string_view text) {
  const auto graph = parse_graph(bytes_of(text), "g.json");
  if (graph) return "accepted";
  EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << graph.error().context;
  return graph.error().context;
}

/// A document whose second op, on line 4, is `op`.
std::string document(std::string_view op) {
  return "{\"format\": \"emplace-graph v1\", \"name\": \"n\", \"ops\": [\n"
         "{\"id\":0,\"name\":\"first\",\"type\":\"Input\",\"inputs\":[],\"outputs\":[{\"dtype\":\"f32\","
         "\"shape\":[2]}]},\n\n" +
         std::string{op} + "\n]}\n";
}
/// A valid op, with a part replaced or added.
std::string op(std::string_view replaced = "", std::string_view with = "", std::string_view more = "") {
  std::string text =
      R"({"id":1,"name":"b","type":"Work","inputs":[[0,0]],"outputs":[{"dtype":"f32","shape":[2,3]}])" +
      std::string{more} + "}";
  if (!replaced.empty()) text.replace(text.find(replaced), replaced.size(), with);
  return text;
}

// --- Agreement ---

TEST_F(GraphFile, AllFormatsRoundTripWithOneHash) {
  for (const auto& source : {kGraphFiles / "cifar10_cnn-bs128.json", kGraphFiles / "pipedream-alexnet.json",
                             kGraphFiles / "alexnet.onnx"}) {
    const OpGraph graph = load_graph(source).value();
    for (const char* ending : {"json", "json.gz", "json.zst", "msgpack", "epg"}) {
      const auto path = dir_ / (std::string{"g."} + ending);
      ASSERT_TRUE(save_graph(graph, path).ok());
      const OpGraph again = load_graph(path).value();
      EXPECT_EQ(graph_sha256(again), graph_sha256(graph)) << path;
      EXPECT_EQ(again.name(), graph.name());
      EXPECT_EQ(again.source(), graph.source());
      EXPECT_EQ(again.meta_json(), graph.meta_json());
      EXPECT_EQ(again.num_edges(), graph.num_edges());
    }
  }
}

TEST_F(GraphFile, Float32IsInTheMetadataOfTheGraphAndOfItsCopies) {
  for (const char* name : {"cifar10_cnn-bs128.json", "alexnet.onnx"}) {
    const OpGraph plain = load_graph(kGraphFiles / name).value();
    EXPECT_THAT(plain.meta_json(), Not(HasSubstr("float32")));
    for (const Float32 use : {Float32::kIeee, Float32::kTf32}) {
      const OpGraph graph = load_graph(kGraphFiles / name, {.float32 = use}).value();
      const std::string word{word_of(use)};
      const std::string expected =
          R"("float32":{"convolutions":")" + word + R"(","products":")" + word + "\"}";
      EXPECT_THAT(graph.meta_json(), HasSubstr(expected));
      EXPECT_EQ(graph_sha256(graph), graph_sha256(plain)) << "placements stay placements of the graph";
      EXPECT_EQ(parse_graph(graph_msgpack(graph), "record").value().meta_json(), graph.meta_json());
      EXPECT_EQ(renumbered(graph, graph.topological_order()).meta_json(), graph.meta_json());
      // Another use replaces it.
      ASSERT_TRUE(save_graph(graph, dir_ / "g.json").ok());
      EXPECT_THAT(load_graph(dir_ / "g.json", {.float32 = Float32::kIeee})->meta_json(),
                  HasSubstr(R"("float32":{"convolutions":"ieee","products":"ieee"})"));
    }
  }
}

TEST_F(GraphFile, MessagePackFormOfATracedGraphHasItsHash) {
  const OpGraph text = load_graph(kGraphFiles / "cifar10_cnn-bs128.json").value();
  const OpGraph packed = load_graph(kGraphFiles / "cifar10_cnn-bs128.msgpack").value();
  EXPECT_EQ(graph_sha256(packed), graph_sha256(text));
  EXPECT_EQ(graph_sha256(text).size(), 64u);
}

TEST_F(GraphFile, AnyChangeOfAnOpChangesTheHash) {
  std::set<std::string> hashes;
  for (const std::string& variant :
       {op(), op("Work", "Walk"), op("[2,3]", "[3,2]"), op("", "", ",\"flops\":1"),
        op("", "", ",\"group\":\"x\""), op("", "", ",\"colocate\":0"), op("", "", ",\"phase\":\"backward\""),
        op("", "", ",\"measured_us\":{\"gpu\":1}"), op("", "", ",\"devices\":[\"gpu:0\"]"),
        op("", "", ",\"attrs\":{\"view\":true}")}) {
    hashes.insert(graph_sha256(parse_graph(bytes_of(document(variant)), "g").value()));
  }
  EXPECT_EQ(hashes.size(), 10u);
}

TEST_F(GraphFile, DefaultsAndKeyOrderDoNotChangeTheHash) {
  const auto hash = [](const std::string& text) {
    return graph_sha256(parse_graph(bytes_of(document(text)), "g").value());
  };
  EXPECT_EQ(hash(op("", "", R"(,"phase":"forward","flops":0,"attrs":{},"group":"")")), hash(op()));
  EXPECT_EQ(hash(op("", "", R"(,"attrs":{"b":1,"a":2})")), hash(op("", "", R"(,"attrs":{"a":2,"b":1})")));
}

TEST_F(GraphFile, QuickstartGraphHasTheCountsOfItsTable) {
  const OpGraph graph = load_graph(kNmt).value();
  EXPECT_EQ(graph.num_ops(), 13'581u);
  EXPECT_EQ(graph.num_edges(), 21'951u);
  EXPECT_EQ(graph.num_types(), 40u);
  EXPECT_TRUE(graph.ids_are_topological());
}

TEST_F(GraphFile, KeepsMeasuredTimes) {
  const OpGraph graph = load_graph(kGraphFiles / "pipedream-alexnet.json").value();
  ASSERT_EQ(graph.measured_classes().size(), 1u);
  double total = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (!graph.type_name(OpId{i}).starts_with("layer::Input")) total += graph.measured_us(OpId{i}, 0);
  }
  EXPECT_NEAR(total, 85'300, 100);
}

TEST_F(GraphFile, LoadsEightyFourThousandOps) {
  const OpGraph graph = testing::large_graph(83'712);
  const auto path = dir_ / "large.json.gz";
  ASSERT_TRUE(save_graph(graph, path).ok());
  const OpGraph again = load_graph(path).value();
  EXPECT_EQ(again.num_ops(), 83'712u);
  EXPECT_EQ(graph_sha256(again), graph_sha256(graph));
}

TEST_F(GraphFile, KeepsResults) {
  const auto built = [](std::vector<std::uint32_t> results) {
    OpGraphBuilder builder;
    OpSpec spec;
    spec.name = "c";
    spec.type = "Conv";
    spec.outputs = {{DType::kF32, {4}}, {DType::kF32, {4}}, {DType::kF32, {4}}};
    spec.results = std::move(results);
    builder.add(spec);
    return std::move(builder).build();
  };
  const OpGraph graph = built({0, 2}).value();
  ASSERT_TRUE(save_graph(graph, dir_ / "g.json").ok());
  const OpGraph again = load_graph(dir_ / "g.json").value();
  EXPECT_THAT(again.results(), ElementsAre(TensorId{0}, TensorId{2}));
  EXPECT_EQ(graph_sha256(again), graph_sha256(graph));
  EXPECT_NE(graph_sha256(again), graph_sha256(built({}).value()));
  EXPECT_THAT(built({3}).error().context, HasSubstr("returns output 3, but has 3"));
  EXPECT_THAT(built({1, 1}).error().context, HasSubstr("its results are not ascending"));
}

TEST_F(GraphFile, KeepsViewsAndConvolutionGroups) {
  OpGraphBuilder builder;
  OpSpec spec;
  spec.name = "c";
  spec.type = "Conv";
  spec.outputs = {{DType::kF32, {4}}};
  spec.view = true;
  spec.conv_groups = 32;
  builder.add(spec);
  const OpGraph graph = std::move(builder).build().value();
  ASSERT_TRUE(save_graph(graph, dir_ / "g.json").ok());
  const OpGraph again = load_graph(dir_ / "g.json").value();
  EXPECT_TRUE(again.is_view(OpId{0}));
  EXPECT_EQ(again.conv_groups(OpId{0}), 32);
  EXPECT_EQ(graph_sha256(again), graph_sha256(graph));
}

TEST_F(GraphFile, EveryShippedGraphLoads) {
  const char* root = std::getenv("EMPLACE_GRAPHS_DIR");
  if (root == nullptr) GTEST_SKIP() << "EMPLACE_GRAPHS_DIR does not name the folder of all graphs";
  std::size_t loaded = 0;
  for (const char* folder : {"training", "onnx", "measured", "msgpack"}) {
    for (const auto& entry : std::filesystem::directory_iterator{std::filesystem::path{root} / folder}) {
      const auto graph = load_graph(entry.path());
      EXPECT_TRUE(graph.ok()) << graph.error().context;
      ++loaded;
    }
  }
  EXPECT_GE(loaded, 51u);
}

// --- Bad input ---

TEST_F(GraphFile, FilesWithoutAGraphAreCalledWhatTheyAre) {
  const auto error = [](std::string_view where, std::string_view text) {
    const auto graph = parse_graph(std::as_bytes(std::span{text.data(), text.size()}), where);
    return graph ? std::string{"read"} : graph.error().context;
  };
  EXPECT_THAT(error("net.mlir", "module @jit_f {\n  func.func public @main() {"),
              AllOf(HasSubstr("is an MLIR module (StableHLO)"), HasSubstr("as_text(\"hlo\")")));
  EXPECT_THAT(error("net.bin", std::string_view{"ML\xEFR\1\2", 6}), HasSubstr("is an MLIR module"));
  EXPECT_THAT(error("net.gguf", std::string_view{"GGUF\3\0\0\0", 8}), HasSubstr("is a GGUF file: weights"));
  EXPECT_THAT(error("a.safetensors", std::string_view{"\x40\0\0\0\0\0\0\0{\"a\":", 13}),
              HasSubstr("is a safetensors file"));
  EXPECT_THAT(error("vit.onnx.data", "\x01\x02"), HasSubstr("read the .onnx file beside it"));
  EXPECT_THAT(error("unet.py", "import torch"),
              AllOf(HasSubstr("is a Python program"), HasSubstr("em.trace")));
}

TEST_F(GraphFile, ReportsWhereTextIsNotJson) {
  EXPECT_THAT(graph_file_error("{\"format\": \"emplace-graph v1\",\n oops}"),
              AllOf(StartsWith("g.json: is not JSON"), HasSubstr("line 2")));
  EXPECT_THAT(graph_file_error("hello"),
              AllOf(HasSubstr("is not a known format: expected one of "), HasSubstr(format_names())));
  EXPECT_THAT(graph_file_error(""), HasSubstr("is empty"));
  EXPECT_THAT(graph_file_error("   \n "), HasSubstr("is not a known format"));
  EXPECT_THAT(graph_file_error(document(op()).substr(0, 180)), HasSubstr("is not JSON"));
  EXPECT_THAT(graph_file_error(document(op()) + "x"), HasSubstr("is not JSON"));
}

TEST_F(GraphFile, RefusesOtherDocuments) {
  EXPECT_THAT(graph_file_error("{}"), HasSubstr("is not an emplace graph"));
  EXPECT_THAT(graph_file_error(R"({"format":"emplace-graph v9","ops":[]})"),
              HasSubstr("its `format` must be"));
  EXPECT_THAT(graph_file_error(R"({"ops":[{"layer":1}]})"), HasSubstr("is not an emplace graph"));
  EXPECT_THAT(graph_file_error(R"({"format":"emplace-graph v1"})"), HasSubstr("no list of ops"));
  EXPECT_THAT(graph_file_error(R"({"format":"emplace-graph v1","ops":3})"), HasSubstr("`ops` is not a list"));
  EXPECT_THAT(graph_file_error(R"({"format":"emplace-graph v1","ops":[],"ops":[]})"),
              HasSubstr("two lists of ops"));
  EXPECT_THAT(graph_file_error(R"({"format":"emplace-graph v1","name":5,"ops":[]})"),
              HasSubstr("name is not a string"));
  EXPECT_THAT(graph_file_error(R"({"format":"emplace-graph v1","ops":[]})"), HasSubstr("has no ops"));
}

TEST_F(GraphFile, AcceptsTheFormatAsTheLastKey) {
  const std::string text =
      R"({"meta":{"batch":1},"ops":[{"id":0,"name":"a","type":"T","inputs":[],"outputs":[]}],"format":"emplace-graph v1"})";
  const auto graph = parse_graph(bytes_of(text), "dir/net.json");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->name(), "net");
}

TEST_F(GraphFile, ErrorsNameFileLineAndOp) {
  EXPECT_EQ(graph_file_error(document(op("\"Work\"", "7"))), "g.json:4: op 1 'b': type is not a string");
}

TEST_F(GraphFile, RefusesEveryWrongField) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"17", "is not an object"},
      {op("\"id\":1,", ""), "has no id"},
      {op("\"id\":1", "\"id\":0"), "id 0 of an earlier op"},
      {op("\"id\":1", "\"id\":9"), "has the id 9; ids must be"},
      {op("\"id\":1", "\"id\":1.5"), "id is not a whole number"},
      {op("\"name\":\"b\",", ""), "has no name"},
      {op("\"name\":\"b\"", "\"name\":\"first\""), "same name as op 0"},
      {op("\"name\":\"b\"", "\"name\":\"\""), "has no name"},
      {op("\"type\":\"Work\",", ""), "has no type"},
      {op("\"inputs\":[[0,0]],", ""), "has no inputs"},
      {op("[[0,0]]", "{}"), "inputs is not a list"},
      {op("[[0,0]]", "[[0]]"), "[producer id, output index]"},
      {op("[[0,0]]", "[[0,-1]]"), "out of range"},
      {op("[[0,0]]", "[[4294967296,0]]"), "out of range"},
      {op("[[0,0]]", "[[0,1]]"), "reads output 1 of op 0 'first'"},
      {op("[[0,0]]", "[[2,0]]"), "op 2, which does not exist"},
      {op("[[0,0]]", "[[1,0]]"), "has a cycle of 1 ops: 'b'"},
      {op("\"f32\"", "\"f33\""), "dtype 'f33': is unknown"},
      {op("\"f32\"", "32"), "{dtype, shape}"},
      {op("\"shape\":[2,3]", "\"size\":1"), "{dtype, shape}"},
      {op("[2,3]", "[2,-3]"), "negative dimension -3"},
      {op("[2,3]", "[9223372036854775807,2]"), "1 PiB"},
      {op("[2,3]", "[9223372036854775808]"), "a dimension is too large"},
      {op("[2,3]", "[99999999999999999999999]"), "a dimension is not a whole number of 64 bits"},
      {op("[2,3]", "[\"N\"]"), "a dimension is not a whole number"},
      {op("", "", ",\"flops\":-1"), "flops"},
      {op("", "", ",\"flops\":18446744073709551615"), "flops is too large"},
      {op("", "", ",\"flops\":1e3"), "flops is not a whole number"},
      {op("", "", ",\"param_bytes\":-1"), "param_bytes"},
      {op("", "", ",\"attrs\":[]"), "attrs is not an object"},
      {op("", "", ",\"attrs\":{\"groups\":0}"), "attrs.groups"},
      {op("", "", ",\"phase\":\"sideways\""), "phase 'sideways': is unknown"},
      {op("", "", ",\"group\":1"), "group is not a string"},
      {op("", "", ",\"colocate\":9"), "colocate names op 9"},
      {op("", "", ",\"colocate\":1"), "cycle"},
      {op("", "", ",\"colocate\":-1"), "colocate is out of range"},
      {op("", "", ",\"devices\":[]"), "list of devices is empty"},
      {op("", "", ",\"devices\":[3]"), "not a list of names"},
      {op("", "", ",\"measured_us\":{\"gpu\":-1}"), "measured_us for 'gpu' is negative"},
      {op("", "", ",\"measured_us\":{\"gpu\":\"1\"}"), "measured_us of 'gpu' is not a number"},
      {op("", "", ",\"measured_us\":{\"gpu\":NaN}"), "is not JSON"},
      {op("", "", ",\"measured_us\":{\"gpu\":1e999}"), "is not JSON"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(graph_file_error(document(text)), AllOf(StartsWith("g.json:"), HasSubstr(expected))) << text;
  }
}

TEST_F(GraphFile, RefusesNanInMessagePack) {
  const OpGraph graph = load_graph(kGraphFiles / "pipedream-alexnet.json").value();
  ASSERT_TRUE(save_graph(graph, dir_ / "g.epg").ok());
  Bytes bytes = read_file(dir_ / "g.epg").value();
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  std::size_t at = text.find("measured_us");
  while (at != text.npos && text[at + 16] != '\xca' && text[at + 16] != '\xcb')
    at = text.find("measured_us", at + 1);
  ASSERT_NE(at, text.npos);
  bytes[at + 17] = std::byte{0x7f};
  bytes[at + 18] = std::byte{0xff};
  const auto again = parse_graph(bytes, "g.epg");
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().context, HasSubstr("negative or not a number"));
}

TEST_F(GraphFile, ShowsEscapeSequencesInNamesHarmlessly) {
  const std::string text =
      graph_file_error(document(op("\"name\":\"b\"", R"("name":"\u001b]0;owned\u0007")", ",\"flops\":-1")));
  EXPECT_THAT(text, AllOf(HasSubstr("\\x1b]0;owned\\x07"), Not(HasSubstr("\x1b"))));
}

TEST_F(GraphFile, RefusesDepthThatWouldExhaustTheStack) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(graph_file_error(document(op("", "", ",\"attrs\":{\"x\":" + deep))),
              HasSubstr("nested deeper than 64"));
  EXPECT_THAT(graph_file_error("{\"format\":\"emplace-graph v1\",\"x\":" + deep),
              HasSubstr("nested deeper than 64"));
  std::string packed = "\x81\xa1x";
  packed.append(1'000'000, '\x91');
  EXPECT_THAT(graph_file_error(packed), HasSubstr("nested deeper than 64"));
}

TEST_F(GraphFile, RefusesEveryTruncationOfMessagePack) {
  const Bytes whole = read_file(kGraphFiles / "cifar10_cnn-bs128.msgpack").value();
  for (std::size_t size = 1; size < whole.size(); size += 97) {
    EXPECT_FALSE(parse_graph(std::span{whole}.first(size), "cut").ok()) << size;
  }
}

TEST_F(GraphFile, CorruptedBytesAtMostFail) {
  const Bytes whole = read_file(kGraphFiles / "cifar10_cnn-bs128.msgpack").value();
  Rng rng{11, Purpose::kTest};
  std::size_t refused = 0;
  for (int round = 0; round < 300; ++round) {
    Bytes bent = whole;
    for (int k = 0; k < 4; ++k)
      bent[rng.below(static_cast<std::uint32_t>(bent.size()))] = std::byte(rng.below(256));
    refused += parse_graph(bent, "bent").ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 0u);
}

TEST_F(GraphFile, RefusesTruncatedAndDamagedArchives) {
  const std::string text = document(op());
  for (const auto& [name, packed] : {std::pair{"cut.json.gz", compress_gzip(bytes_of(text))},
                                     std::pair{"cut.json.zst", compress_zstd(bytes_of(text))}}) {
    const auto path = dir_ / name;
    ASSERT_TRUE(write_file(path, std::span{packed}.first(packed.size() - 9)).ok());
    const auto cut = load_graph(path);
    ASSERT_FALSE(cut.ok());
    EXPECT_THAT(cut.error().context, AllOf(HasSubstr(name), HasSubstr("truncated")));
    Bytes damaged = packed;
    damaged[damaged.size() / 2] ^= std::byte{0xff};
    damaged[damaged.size() / 2 + 1] ^= std::byte{0xff};
    ASSERT_TRUE(write_file(path, damaged).ok());
    EXPECT_FALSE(load_graph(path).ok());
  }
}

TEST_F(GraphFile, RefusesBombsBeforeTheyFillMemory) {
  const Bytes zeros(std::size_t{80} << 20, std::byte{' '});
  for (const auto& [name, packed] :
       {std::pair{"bomb.json.gz", compress_gzip(zeros)}, std::pair{"bomb.json.zst", compress_zstd(zeros)}}) {
    ASSERT_TRUE(write_file(dir_ / name, packed).ok());
    const auto graph = load_graph(dir_ / name);
    ASSERT_FALSE(graph.ok());
    EXPECT_THAT(graph.error().context, AllOf(HasSubstr(name), HasSubstr("unpacks to more than 64 MiB")));
  }
}

TEST_F(GraphFile, ReportsUnreadableAndUnwritableFiles) {
  EXPECT_EQ(load_graph(dir_ / "absent.json").error().code, Errc::kIo);
  EXPECT_EQ(load_graph(dir_).error().code, Errc::kIo);
  const OpGraph graph = load_graph(kGraphFiles / "cifar10_cnn-bs128.json").value();
  EXPECT_THAT(save_graph(graph, dir_ / "g.txt").error().context, HasSubstr("use .json"));
  EXPECT_EQ(save_graph(graph, dir_ / "absent" / "g.json").error().code, Errc::kIo);
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

}  // namespace
}  // namespace emplace
