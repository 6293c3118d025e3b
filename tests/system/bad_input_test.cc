// Goal: the answer to any bad file is one line, exit status 2, and no partial output.
// Method: small broken files, one fault each, given to the built program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kDevices;
using testing::kGraph;
using testing::run;
using testing::shipped;
using ::testing::StartsWith;
using testing::TemporaryFolder;

void expect_one_line(const Finished& done, const std::string& text) {
  EXPECT_EQ(done.status, 2) << text;
  EXPECT_FALSE(done.killed);
  EXPECT_THAT(done.out, IsEmpty());
  EXPECT_THAT(done.err, StartsWith("error: "));
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  EXPECT_EQ(
      std::count_if(done.err.begin(), done.err.end(), [](unsigned char c) { return c < 0x20 && c != '\n'; }),
      0)
      << done.err;
  EXPECT_THAT(done.err, HasSubstr(text));
}

std::string graph_of(const std::string& ops) {
  return R"({"format":"emplace-graph v1","name":"g","ops":[)" + ops + "]}";
}
std::string op(int id, const std::string& more = "", const std::string& name = "") {
  return R"({"id":)" + std::to_string(id) + R"(,"name":")" +
         (name.empty() ? "op" + std::to_string(id) : name) +
         R"(","type":"T","outputs":[{"dtype":"f32","shape":[2]}])" +
         (more.find("inputs") == std::string::npos ? R"(,"inputs":[])" : "") + more + "}";
}

TEST(BadGraphs, AreRefusedInOneLineAndLeaveNothing) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"hello", "graph.json"},
      {"{", "is not JSON"},
      {"[]", "graph.json"},
      {R"({"format":"emplace-graph v9","ops":[]})", "emplace-graph v1"},
      {graph_of(""), "graph.json"},
      {graph_of(op(0, R"(,"inputs":[[1,0]])") + "," + op(1, R"(,"inputs":[[0,0]])")), "op0"},
      {graph_of(op(0, R"(,"inputs":[[7,0]])")), "op0"},
      {graph_of(op(0) + "," + op(1, R"(,"inputs":[[0,3]])")), "op1"},
      {graph_of(op(0) + "," + op(0)), "id 0"},
      {graph_of(op(0, "", "a") + "," + op(1, "", "a")), "a"},
      {graph_of(R"({"id":0,"name":"x","type":"T","inputs":[],"outputs":[{"dtype":"f32","shape":[-1]}]})"),
       "x"},
      {graph_of(
           R"({"id":0,"name":"x","type":"T","inputs":[],"outputs":[{"dtype":"f32","shape":[4611686018427387904,8]}]})"),
       "x"},
      {graph_of(op(0, R"(,"colocate":9)")), "op0"},
      {graph_of(op(0, R"(,"colocate":1)") + "," + op(1, R"(,"colocate":0)")), "op"},
      {graph_of(op(0, R"(,"devices":[])")), "op0"},
      {graph_of(op(0, R"(,"measured_us":{"gpu":-1})")), "op0"},
      {graph_of(R"({"id":0,"name":"\u001b[2J\u0007","type":"T","flops":-1,"inputs":[],"outputs":[]})"),
       "\\x1b"},
  };
  for (const auto& [text, expected] : cases) {
    const TemporaryFolder folder;
    const std::string file = folder.file("graph.json", text);
    expect_one_line(run({"inspect", file}), expected);
    expect_one_line(run({"import", file, "-o", folder.at("out.epg")}), expected);
    EXPECT_FALSE(std::filesystem::exists(folder.at("out.epg"))) << text;
  }
}

TEST(BadGraphs, EscapeSequencesInNamesDoNotReachTheTerminal) {
  const TemporaryFolder folder;
  const std::string file = folder.file(
      "graph.json",
      R"({"format":"emplace-graph v1","name":"g\u001b[31m","ops":[{"id":0,"name":"\u001b]0;owned\u0007","type":"T\u001b[2J","flops":100,"inputs":[],"outputs":[]}]})");
  for (const auto& arguments :
       {std::vector<std::string>{"inspect", file, "-d", kDevices}, {"compare", file, "-d", kDevices}}) {
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(done.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(done.out.find('\x07'), std::string::npos);
  }
}

TEST(BadGraphs, TruncatedAndExplodingArchivesEndEarly) {
  const TemporaryFolder folder;
  const std::string text = graph_of(op(0));
  const Bytes packed = compress_gzip(std::as_bytes(std::span{text}));
  const std::string whole{reinterpret_cast<const char*>(packed.data()), packed.size()};
  expect_one_line(run({"inspect", folder.file("short.json.gz", whole.substr(0, whole.size() / 2))}),
                  "short.json.gz");

  std::string bomb;  // Members of 64 MiB of spaces, until they are more than a graph may be.
  const Bytes spaces(std::size_t{64} << 20, std::byte{' '});
  const Bytes member = compress_zstd(spaces);
  for (int i = 0; i < 40; ++i) bomb.append(reinterpret_cast<const char*>(member.data()), member.size());
  EXPECT_LT(bomb.size(), std::size_t{1} << 20);
  expect_one_line(run({"inspect", folder.file("bomb.json.zst", bomb)}), "bomb.json.zst");
}

TEST(BadDevices, AreRefusedInOneLineWithTheCure) {
  const std::string gpu = "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\n";
  std::string many;
  for (int i = 0; i < 257; ++i)
    many += "[[device]]\nname = \"gpu:" + std::to_string(i) + "\"\nprofile = \"k40\"\n";
  const std::string link = "[[link]]\nbetween = [\"*\", \"*\"]\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"device = 1 = 2", "devices.toml:1"},
      {"", "devices.toml"},
      {"[[device]]\nname = \"gpu:0\"\nprofile = \"k4O\"\n", "k40"},
      {gpu + "memroy = \"2GiB\"\n", "did you mean 'memory'?"},
      {gpu + "memory = \"2.5\"\n", "unit"},
      {gpu + "memory = \"2.5GHz\"\n", "unit"},
      {gpu + "[[device]]\nname = \"gpu:1\"\nprofile = \"k40\"\nhost = \"other\"\n",
       "link gpu:0 -> gpu:1: is missing; add a [[link]] between the two"},
      {gpu + "[[device]]\nname = \"gpu:1\"\nprofile = \"k40\"\n[[link]]\nfrom = \"gpu:0\"\nto = "
             "\"gpu:1\"\nprofile = "
             "\"pcie3_x16\"\n",
       "devices.toml: link gpu:1 -> gpu:0: is missing"},
      {gpu + gpu + link + "profile = \"pcie3_x16\"\n", "gpu:0"},
      {gpu + link + "bandwidth = \"0GB/s\"\nlatency = \"1us\"\n", "above zero"},
      {many + link + "profile = \"pcie3_x16\"\n", "256"},
  };
  for (const auto& [text, expected] : cases) {
    const TemporaryFolder folder;
    expect_one_line(run({"bound", kGraph, "-d", folder.file("devices.toml", text)}), expected);
  }
}

TEST(BadPlacements, AreRefusedInOneLineThatNamesTheFault) {
  const TemporaryFolder folder;
  const std::string placement = folder.at("p.json");
  ASSERT_EQ(run({"place", kGraph, "-d", kDevices, "-m", "expert", "-o", placement}).status, 0);
  const auto bytes = read_file(placement);
  ASSERT_TRUE(bytes.ok());
  const std::string good{reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  const auto with = [&](std::string from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{}", "p.json"},
      {good.substr(0, good.size() / 2), "is not JSON"},
      {with("emplace-placement", "emplace-graph"), "is not a placement"},
      {with("\": \"gpu:0\"", "\": \"gpu:9\""), "gpu:9"},
  };
  for (const auto& [text, expected] : cases)
    expect_one_line(run({"evaluate", kGraph, folder.file("p.json", text), "-d", kDevices}), expected);
  folder.file("p.json", good);
  expect_one_line(
      run({"evaluate", shipped("configs/graphs/nmt-2layer-bs64.json.gz"), placement, "-d", kDevices}),
      "is a placement for another graph");
}

// A run keeps its config as TOML, which is UTF-8: other paths are refused before anything is created.
TEST(BadPaths, NonUtf8PathsAreRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string odd = folder.at("bad\xff");
  std::filesystem::create_directory(odd);
  std::filesystem::copy_file(kGraph, odd + "/graph.json");
  const auto refused = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"run", "--run-dir", folder.at("run")};
    all.insert(all.end(), words.begin(), words.end());
    const Finished done = run(all);
    expect_one_line(done, "is not UTF-8");
    EXPECT_THAT(done.err, HasSubstr("bad\\xff"));
    EXPECT_FALSE(std::filesystem::exists(folder.at("run")));
  };
  refused({shipped("configs/quickstart.toml"), "--set", "input.graph=" + odd + "/graph.json"});
  const std::string config = "[input]\ngraph = \"graph.json\"\ndevices = \"" + kDevices + "\"\n";
  refused({folder.file("bad\xff/run.toml", config)});
  const std::string cluster = folder.file("bad\xff/cluster.toml", "[run]\nconfig = \"run.toml\"\n");
  refused({shipped("configs/quickstart.toml"), "--cluster", cluster});
}

// Any UTF-8 name can be kept, and is read back unchanged.
TEST(BadPaths, LineEndsAndQuotesAreAllowedInRunsAndResume) {
  const TemporaryFolder folder;
  const std::string graph = folder.at("a\nb\"c\\d\x1b[31m.json");
  std::filesystem::copy_file(kGraph, graph);
  const std::string directory = folder.at("run\n1");
  const std::vector<std::string> begin = testing::small_run(
      directory, {"--set", "input.graph=" + graph, "--set", "run.starts=[\"scratch\"]", "--episodes", "4"});
  const Finished first = run(begin);
  ASSERT_EQ(first.status, 0) << first.err;
  const Finished second = run({"run", "--resume", "--run-dir", directory, "--episodes", "8"});
  EXPECT_EQ(second.status, 0) << second.err;
}

TEST(BadOutputs, AreRefusedWithoutLeavingAFile) {
  const TemporaryFolder folder;
  expect_one_line(run({"import", kGraph, "-o", folder.at("graph.xml")}), "graph.xml");
  expect_one_line(run({"import", kGraph, "-o", folder.at("no/such/folder/g.json")}), "cannot be written");
  expect_one_line(run({"place", kGraph, "-d", kDevices, "-o", folder.at("no/p.json")}), "cannot be written");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace emplace
