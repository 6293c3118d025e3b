// Goal: graphs of other tools are imported, placements are exported for other tools, and what is impossible
// is one line with exit status 2. Method: the built program as a process, its files and its JSON read as a
// script would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kDevices;
using testing::keys;
using testing::run;
using testing::shipped;
using testing::TemporaryFolder;

const std::string kImpala = shipped("tests/fixtures/third_party/tf-graphdef/impala_learner.pbtxt.gz");
const std::string kBert24 =
    shipped("tests/fixtures/third_party/dnn-partitioning/latency/bert24_inference.json");
const std::string kSqueezenet = shipped("tests/fixtures/graphs/light_squeezenet.onnx");
const std::string kResnet = shipped("tests/fixtures/graphs/resnet50-bs32.json.gz");

ordered_json read_json(const std::string& path) {
  std::ifstream file{path};
  return ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
}
/// The one line on standard error of a command that must fail as bad input.
std::string refused(const std::vector<std::string>& arguments) {
  const Finished done = run(arguments);
  EXPECT_EQ(done.status, 2) << done.out << done.err;
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  EXPECT_THAT(done.err, ::testing::StartsWith("error: "));
  return done.err;
}

TEST(Import, RecognisesEveryFormatAndReportsItsAssumptions) {
  const TemporaryFolder folder;
  for (const auto& [file, ops] : {std::pair{kImpala, 2124}, {kBert24, 32}, {kSqueezenet, 119}}) {
    const Finished done = run({"import", file, "-o", folder.at("g.json.gz"), "--json"});
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(ordered_json::parse(done.out)["ops"], ops) << file;
    EXPECT_EQ(done.err.find("while loops: 2") != std::string::npos, file == kImpala) << done.err;
    const Finished again = run({"import", folder.at("g.json.gz"), "-o", folder.at("h.epg"), "--json"});
    EXPECT_EQ(ordered_json::parse(again.out)["graph_sha256"], ordered_json::parse(done.out)["graph_sha256"]);
  }
}

TEST(Import, FromOverridesRecognition) {
  const TemporaryFolder folder;
  EXPECT_EQ(run({"import", kBert24, "--from", "dnn-partitioning", "-o", folder.at("g.json")}).status, 0);
  EXPECT_THAT(refused({"import", kBert24, "--from", "onnx", "-o", folder.at("h.json")}),
              HasSubstr("not an ONNX model"));
  EXPECT_THAT(refused({"import", kBert24, "--from", "dnn-partitoning", "-o", folder.at("h.json")}),
              AllOf(HasSubstr("'dnn-partitoning'"), HasSubstr("did you mean 'dnn-partitioning'?")));
  EXPECT_THAT(refused({"import", folder.at("none"), "--from", "onnx", "-o", folder.at("h.json")}),
              HasSubstr("none"));
  EXPECT_FALSE(std::filesystem::exists(folder.at("h.json")));
}

const std::string kBert = shipped("tests/fixtures/onnx/bert_dynamic_shapes.onnx.zst");
const std::string kResnet18 = shipped("tests/fixtures/onnx/resnet18_dynamic_batch.onnx.zst");
const std::string kLoop = shipped("tests/fixtures/onnx/scripted_loop.onnx.zst");

TEST(OpenDimensions, AreListedAndTakenFromTheCommandLine) {
  EXPECT_THAT(refused({"inspect", kBert}),
              AllOf(HasSubstr("'batch', 'sequence'"), HasSubstr("--shape batch=…,sequence=…")));
  EXPECT_THAT(refused({"inspect", kBert, "--shape", "batch=2"}), HasSubstr("open dimensions: 'sequence'"));
  EXPECT_THAT(refused({"inspect", kBert, "--shape", "batch=-1"}), HasSubstr("size from 0 to 2^31"));
  EXPECT_THAT(refused({"inspect", kBert, "--shape", "batch"}), HasSubstr("is not NAME=SIZE"));
  EXPECT_THAT(refused({"inspect", kResnet, "--batch", "8"}), HasSubstr("no open first dimension"));
  const auto flops = [](const std::vector<std::string>& sizes) {
    std::vector<std::string> arguments{"inspect", kBert, "--json"};
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    const auto json = ordered_json::parse(done.out);
    EXPECT_EQ(json["assumed"], ordered_json::array());
    EXPECT_EQ(json["uncounted"], ordered_json::array());
    return json["flops_by_type"]["MatMul"].get<std::int64_t>();
  };
  const std::int64_t one = flops({"--shape", "batch=1,sequence=32"});
  EXPECT_EQ(flops({"--shape", "batch=4", "--shape", "sequence=32"}), 4 * one);
  EXPECT_EQ(flops({"--batch", "4", "--shape", "sequence=32"}), 4 * one);
}

TEST(OpenDimensions, AreTakenByEveryCommandAndByAConfig) {
  const TemporaryFolder folder;
  const std::string placement = folder.at("p.json");
  const std::vector<std::vector<std::string>> commands{
      {"import", kResnet18, "-o", folder.at("g.epg")},
      {"inspect", kResnet18, "-d", kDevices},
      {"bound", kResnet18, "-d", kDevices},
      {"place", kResnet18, "-d", kDevices, "--method", "single-gpu", "-o", placement},
      {"compare", kResnet18, "-d", kDevices, "--methods", "single-gpu,contiguous"},
      {"evaluate", kResnet18, placement, "-d", kDevices},
      {"explain", placement, "--graph", kResnet18, "-d", kDevices},
      {"export", placement, "--graph", kResnet18, "--to", "onnx", "-o", folder.at("o.onnx")},
      {"run", shipped("configs/quickstart.toml"), "--set", "input.graph=" + kResnet18, "--episodes", "2",
       "--run-dir", folder.at("run")}};
  for (std::vector<std::string> command : commands) {
    const Finished open = run(command);
    EXPECT_EQ(open.status, 2) << command[0];
    EXPECT_THAT(open.err, HasSubstr("'batch'")) << command[0];
    if (command[0] == "run") {
      command.insert(command.end(), {"--set", "input.batch=4"});
    } else {
      command.insert(command.end(), {"--batch", "4"});
    }
    const Finished done = run(command);
    EXPECT_EQ(done.status, 0) << command[0] << ": " << done.err;
  }
}

TEST(Float32, IsTakenByEveryCommandThatReadsAGraph) {
  const TemporaryFolder folder;
  const std::string placement = folder.at("p.json"), imported = folder.at("g.json");
  const std::vector<std::vector<std::string>> commands{
      {"import", kSqueezenet, "-o", imported},
      {"inspect", kSqueezenet, "-d", "h100"},
      {"bound", kSqueezenet, "-d", "h100"},
      {"place", kSqueezenet, "-d", "h100", "--method", "single-gpu", "-o", placement},
      {"compare", kSqueezenet, "-d", "h100", "--methods", "single-gpu"},
      {"evaluate", kSqueezenet, placement, "-d", "h100"},
      {"explain", placement, "--graph", kSqueezenet, "-d", "h100"},
      {"export", placement, "--graph", kSqueezenet, "--to", "csv", "-o", folder.at("o.csv")},
      {"run", shipped("configs/quickstart.toml"), "--set", "input.graph=" + kSqueezenet, "--set",
       "run.starts=[\"scratch\"]", "--set", "input.devices=h100 x 2", "--episodes", "2", "--run-dir",
       folder.at("run")}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--float32", "tf64"});
    EXPECT_THAT(refused(command),
                HasSubstr("--float32: unknown float32 arithmetic 'tf64'; expected one of: ieee, tf32"));
    command.back() = "tf32";
    const Finished done = run(command);
    EXPECT_EQ(done.status, 0) << command[0] << ": " << done.err;
  }
  const auto tf32 = ordered_json::parse(R"({"convolutions": "tf32", "products": "tf32"})");
  EXPECT_EQ(read_json(imported)["meta"]["float32"], tf32);
  EXPECT_EQ(run({"evaluate", kSqueezenet, placement, "-d", "h100", "--float32", "ieee"}).status, 0)
      << "a placement of the same graph";

  // A run keeps it, and so does a branch, whose graph is the recorded one.
  EXPECT_EQ(run({"run", "--resume", "--run-dir", folder.at("run"), "--episodes", "4"}).status, 0);
  EXPECT_THAT(refused({"run", "--resume", "--run-dir", folder.at("run"), "--float32", "ieee"}),
              HasSubstr("was recorded with another input.float32"));
  EXPECT_EQ(
      run({"run", "--branch", folder.at("run"), "--run-dir", folder.at("branch"), "--episodes", "2"}).status,
      0);
  EXPECT_EQ(run({"import", folder.at("branch") + "/inputs/graph-0.epg", "-o", imported}).status, 0);
  EXPECT_EQ(read_json(imported)["meta"]["float32"], tf32);
  EXPECT_EQ(run({"run", "--resume", "--run-dir", folder.at("branch"), "--episodes", "4"}).status, 0);
}

TEST(Assumptions, ArePrintedAndInTheJson) {
  const Finished inspected = run({"inspect", kLoop, "--json"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_THAT(ordered_json::parse(inspected.out)["assumed"].dump(),
              HasSubstr("one iteration of each is counted"));
  EXPECT_THAT(inspected.err, HasSubstr("one iteration of each is counted"));
  const Finished placed = run({"place", kLoop, "-d", kDevices, "--method", "single-cpu", "--json"});
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_THAT(ordered_json::parse(placed.out)["assumed"].dump(),
              HasSubstr("one iteration of each is counted"));
}

class Export : public ::testing::Test {
 protected:
  /// Places `graph` at random and returns the file.
  std::string placed(const std::string& graph) const {
    const Finished done =
        run({"place", graph, "-d", kDevices, "--method", "random", "-o", folder_.at("p.json"), "--quiet"});
    EXPECT_EQ(done.status, 0) << done.err;
    return folder_.at("p.json");
  }
  ordered_json exported(const std::string& placement, const std::string& graph, const std::string& format,
                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"export", placement,          "-g",    graph, "--to", format,
                                       "-o",     folder_.at(format), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    return ordered_json::parse(done.out, nullptr, false);
  }
  const TemporaryFolder folder_;
};

TEST_F(Export, ReportsWhetherAFormatIsExact) {
  const std::string placement = placed(kSqueezenet);
  for (const std::string format : {"onnx", "tensorflow", "openvino", "dot", "csv"}) {
    const ordered_json result = exported(placement, kSqueezenet, format, {"-d", kDevices});
    EXPECT_THAT(keys(result), ElementsAre("placement", "format", "output", "exact", "ops", "moved_ops",
                                          "step_time_s", "applied_step_time_s"));
    EXPECT_EQ(result["exact"], true) << format;
    EXPECT_EQ(result["moved_ops"], 0);
    EXPECT_GT(result["step_time_s"].get<double>(), 0);
    EXPECT_EQ(result["step_time_s"], result["applied_step_time_s"]);
    EXPECT_GT(std::filesystem::file_size(folder_.at(format)), 1000u);
  }
  EXPECT_TRUE(exported(placement, kSqueezenet, "csv")["step_time_s"].is_null());
  // Importing the exported model gives its placement.
  const Finished back = run({"import", folder_.at("onnx"), "-o", folder_.at("back.epg"), "--json"});
  EXPECT_EQ(ordered_json::parse(back.out)["graph_sha256"], read_json(placement)["graph_sha256"]);
}

TEST_F(Export, LossyFormatsReportTheEffectivePlacement) {
  const std::string graph = shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json");
  std::ofstream{folder_.at("big.toml")}
      << "[[device]]\nname = \"cpu:0\"\nprofile = \"haswell18\"\n[[device]]\nname = \"gpu:0\"\n"
         "profile = \"k40\"\n[[link]]\nbetween = [\"*\", \"*\"]\nprofile = \"pcie3_x16\"\n";
  const std::string devices = folder_.at("big.toml");
  // Every op of a module is on its own device, which no device map can express.
  ordered_json placement = read_json(placed(graph));
  placement["devices"] = {"cpu:0", "gpu:0"};
  bool odd = false;
  std::ifstream file{graph};
  const ordered_json ops = ordered_json::parse(file)["ops"];
  for (const auto& op : ops) placement["ops"][op["name"].get<std::string>()] = "gpu:0";
  for (const auto& op : ops)
    if (!op.contains("colocate") && op["phase"] == "forward" && (odd = !odd))
      placement["ops"][op["name"].get<std::string>()] = "cpu:0";
  for (const auto& op : ops)
    if (op.contains("colocate"))
      placement["ops"][op["name"].get<std::string>()] =
          placement["ops"][ops[op["colocate"].get<std::size_t>()]["name"].get<std::string>()];
  std::ofstream{folder_.at("odd.json")} << placement.dump();
  const ordered_json result = exported(folder_.at("odd.json"), graph, "accelerate",
                                       {"-d", devices, "--applied", folder_.at("applied.json")});
  EXPECT_EQ(result["exact"], false);
  const ordered_json applied = read_json(folder_.at("applied.json"));
  int differ = 0;
  for (const auto& item : applied["ops"].items())
    differ += item.value() != placement["ops"][item.key()] ? 1 : 0;
  EXPECT_GT(differ, 0);
  EXPECT_EQ(result["moved_ops"], differ);
  for (const auto& [which, key] :
       {std::pair{"odd.json", "step_time_s"}, {"applied.json", "applied_step_time_s"}}) {
    const Finished measured = run({"evaluate", graph, folder_.at(which), "-d", devices, "--json"});
    ASSERT_EQ(measured.status, 0) << measured.err;
    EXPECT_EQ(ordered_json::parse(measured.out)["step_time_s"], result[key]) << which;
  }
  const Finished text = run({"export", folder_.at("odd.json"), "-g", graph, "--to", "accelerate", "-o",
                             folder_.at("m"), "-d", devices});
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("lossy, " + std::to_string(differ) + " of 91 ops moved"), HasSubstr(" -> ")));
}

TEST_F(Export, OptionsOfPlacementsAreRefusedForARun) {
  for (const char* option :
       {"--graph", "--devices", "--reserve", "--rules", "--stages", "--applied", "--modules"})
    EXPECT_THAT(
        refused({"export", folder_.path().string(), "--to", "csv", "-o", folder_.at("out"), option, "2"}),
        HasSubstr(std::string{option} + ": is not for a run"));
}

TEST_F(Export, UnexportablePlacementIsRefusedInOneLine) {
  const std::string placement = placed(kSqueezenet);
  const ordered_json whole = read_json(placement);
  const auto export_of = [&](const ordered_json& changed, const std::string& graph = kSqueezenet,
                             const std::vector<std::string>& more = {}) {
    std::ofstream{folder_.at("changed.json")} << changed.dump();
    std::vector<std::string> arguments{"export", folder_.at("changed.json"), "-g", graph, "--to", "csv",
                                       "-o",     folder_.at("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return refused(arguments);
  };
  const std::string first = whole["ops"].begin().key();
  ordered_json changed = whole;
  changed["ops"].erase(first);
  EXPECT_THAT(export_of(changed), HasSubstr("places 118 ops, the graph has 119"));
  changed["ops"]["no such op"] = "cpu:0";
  EXPECT_THAT(export_of(changed), HasSubstr("leaves out op '" + first + "'"));
  changed = whole;
  changed["ops"][first] = "tpu:7";
  EXPECT_THAT(export_of(changed), AllOf(HasSubstr("'tpu:7'"), HasSubstr(first)));
  EXPECT_THAT(export_of(changed, kSqueezenet, {"-d", kDevices}),
              AllOf(HasSubstr("'tpu:7'"), HasSubstr(first)));
  changed["ops"][first] = 3;
  EXPECT_THAT(export_of(changed), HasSubstr("has no device name"));
  EXPECT_THAT(export_of(whole, kBert24), HasSubstr("placement for another graph"));
  EXPECT_THAT(export_of({{"format", "other"}}), HasSubstr("is not a placement"));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("out")));
}

TEST_F(Export, SubmodelsAreAFolderWithAManifest) {
  const std::string placement = placed(kSqueezenet);
  const ordered_json result = exported(placement, kSqueezenet, "submodels", {"-d", kDevices});
  const ordered_json manifest = read_json(folder_.at("submodels") + "/manifest.json");
  EXPECT_EQ(manifest["format"], "emplace-submodels");
  EXPECT_EQ(result["parts"], manifest["parts"].size());
  EXPECT_EQ(result["exact"], result["moved_ops"] == 0);
  EXPECT_GT(result["applied_step_time_s"].get<double>(), 0);
  for (const auto& part : manifest["parts"])
    EXPECT_EQ(run({"inspect", folder_.at("submodels") + "/" + part["file"].get<std::string>()}).status, 0);
  // Missing weights cannot be divided, and a folder with other files is not emptied.
  const std::string transformer = shipped("tests/fixtures/onnx/torch_transformer.onnx.zst");
  EXPECT_THAT(refused({"export", placed(transformer), "-g", transformer, "--to", "submodels", "-o",
                       folder_.at("none")}),
              HasSubstr("put that file beside the model"));
  EXPECT_THAT(refused({"export", placed(kSqueezenet), "-g", kSqueezenet, "--to", "submodels", "-o",
                       shipped("configs")}),
              HasSubstr("is a folder with other files"));
}

TEST_F(Export, StagesOfARealModel) {
  const std::string transformer = shipped("tests/fixtures/onnx/llama.onnx.zst");
  const std::string placement = placed(transformer);
  for (const std::string format : {"pipelining", "vllm", "deepspeed"}) {
    const ordered_json result = exported(placement, transformer, format, {"-d", kDevices});
    EXPECT_EQ(result["exact"], false) << format;
    EXPECT_GT(result["moved_ops"].get<int>(), 0) << format;
    EXPECT_GE(result["parts"].get<int>(), 1) << format;
    EXPECT_GT(result["applied_step_time_s"].get<double>(), 0) << format;
  }
  std::ifstream file{folder_.at("vllm")};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_THAT(text, HasSubstr("VLLM_PP_LAYER_PARTITION="));
  EXPECT_THAT(read_json(folder_.at("deepspeed"))["layers"].dump(), HasSubstr("model.layers.1"));
}

TEST_F(Export, DeviceMapOfAnOnnxModelNeedsItsModules) {
  const std::string resnet = shipped("tests/fixtures/onnx/resnet18.onnx.zst");
  const std::string placement = placed(resnet);
  const std::vector<std::string> command{"export", placement,    "-g", resnet,
                                         "--to",   "accelerate", "-o", folder_.at("map.json")};
  EXPECT_THAT(refused(command), HasSubstr("--modules FILE"));
  const auto with_tree = [&](const std::string& text) {
    std::ofstream{folder_.at("modules.txt")} << text;
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--modules", folder_.at("modules.txt")});
    return arguments;
  };
  std::string tree = "conv1\nbn1\nrelu\nmaxpool\n";
  for (const std::string layer : {"layer1", "layer2", "layer3", "layer4"})
    for (const std::string block : {".0", ".1"})
      for (const char* name : {".conv1", ".bn1", ".relu", ".conv2", ".bn2", ".downsample.0", ".downsample.1"})
        tree += layer + block + name + "\n";
  tree += "avgpool\nfc\n";
  const Finished done = run(with_tree(tree));
  ASSERT_EQ(done.status, 0) << done.err;
  const ordered_json map = read_json(folder_.at("map.json"));
  EXPECT_TRUE(map.contains("bn1")) << "the exporter folded it away";
  EXPECT_THAT(refused(with_tree("conv1\nfc\n")), HasSubstr("--modules: has no module"));
  EXPECT_THAT(refused(with_tree("[3]")), HasSubstr("is not a list of module names"));
  EXPECT_THAT(refused(with_tree("")), HasSubstr("names no module"));
}

TEST_F(Export, InvalidOptionsAreRefusedInOneLine) {
  const std::string placement = placed(kSqueezenet);
  const auto with = [&](const std::string& format, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"export", placement, "--to", format, "-o", folder_.at("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return refused(arguments);
  };
  EXPECT_THAT(with("csv", {}), HasSubstr("--graph is not given"));
  EXPECT_THAT(with("opnvino", {"-g", kSqueezenet}), HasSubstr("did you mean 'openvino'?"));
  EXPECT_THAT(with("accelerate", {"-g", kSqueezenet, "--applied", folder_.at("a")}),
              HasSubstr("--devices is not given"));
  EXPECT_EQ(run({"import", kSqueezenet, "-o", folder_.at("g.json")}).status, 0);
  for (const std::string format : {"onnx", "submodels"})
    EXPECT_THAT(with(format, {"-g", folder_.at("g.json")}),
                AllOf(HasSubstr("--to " + format), HasSubstr(".onnx file")));
  EXPECT_THAT(with("csv", {"-g", kSqueezenet, "--modules", folder_.at("none")}), HasSubstr("none"));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("out")));
}

}  // namespace
}  // namespace emplace
