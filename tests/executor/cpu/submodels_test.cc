// Goal: the chain of sub-models that `export --to submodels` writes computes the bits of the whole model.
// Method: models of PyTorch and the ONNX zoo, placed at random, split, and each part run by the CPU executor
// as a model of its own; values pass from part to part by the names in the manifest. Weights are made by the
// executor's rule from the whole model, as the fixtures have none. scripts/verify_exports.sh does the same
// with ONNX Runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/rng.h"
#include "executor/cpu/step_run.h"
#include "graph/formats/graph_file.h"
#include "graph/tensor_layout.h"
#include "placement/export/placement_export.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cpu {
namespace {

using nlohmann::json;

constexpr std::int64_t kPartRoom = std::int64_t{256} << 20;  // [B] of each device.
constexpr std::uint64_t kPartSeed = 11;

using Contents = std::vector<std::byte>;
using Named = std::map<std::string, Contents>;

/// Rearranges elements of `size` bytes by each step of a layout.
Contents read_through(const TensorLayout& layout, Contents memory, std::size_t size) {
  for (const StridedLayout& step : layout.steps) {
    Contents packed;
    std::vector<std::int64_t> at(step.shape.size(), 0);
    for (std::int64_t left = step.elements(); left > 0; --left) {
      std::int64_t element = step.offset;
      for (std::size_t d = 0; d < at.size(); ++d) element += at[d] * step.strides[d];
      const auto* const from = memory.data() + static_cast<std::size_t>(element) * size;
      packed.insert(packed.end(), from, from + size);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < step.shape[d]) break;
        at[d] = 0;
      }
    }
    memory = std::move(packed);
  }
  return memory;
}

/// One step of a model on the CPU executor.
class OneStep {
 public:
  OneStep(const OpGraph& graph, const InitialValues::Given& given)
      : graph_{graph}, lowered_{graph}, values_{lowered_, kPartSeed, given} {}

  void run() {
    const auto kernels = bind_graph(lowered_, false);
    ASSERT_TRUE(kernels) << kernels.error().context;
    InPlaceWrites in_place{lowered_};
    for (const OpId op : lowered_.kernels()) {
      if (!kernels->kernel(op).kernel->may_overwrite(0)) in_place.keep_apart(op);
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) outputs_[index(graph_.output(op, k))];
    }
    const DeviceSet devices = testing::sample_devices(1, false, kPartRoom);
    const CostTable costs{graph_, devices};
    const TransferTable transfers{devices};
    const SystemClock clock;
    std::vector<DeviceMemory> memory;
    memory.push_back(DeviceMemory::make(kPartRoom).value());
    WorkerPool pool{1};
    const Machine machine{lowered_, *kernels, devices, costs, transfers, clock, memory, pool};
    const Placement placement(graph_.num_ops(), DeviceId{0});
    const TaskPlan plan{lowered_, 1, placement, TaskPlan::Rules::kReal, &in_place};
    const std::vector<std::int64_t> caps{kPartRoom};
    StepRun steps{machine, plan, caps};
    ASSERT_TRUE(steps.prepare(values_));
    const StepRun::Watch watch = [&](OpId op, std::size_t k, std::span<const std::byte> bytes) {
      outputs_.at(index(graph_.output(op, k))).assign(bytes.begin(), bytes.end());
    };
    ASSERT_TRUE(steps.step(&watch));
  }

  /// The elements of a tensor, in row-major order.
  Contents contents(TensorId tensor) const {
    const BufferId base = lowered_.base(lowered_.buffer(tensor));
    const TensorId whole = lowered_.tensor(base);
    Contents memory;
    if (graph_.is_state(graph_.producer(whole))) {
      memory.resize(static_cast<std::size_t>(graph_.bytes(whole)));
      values_.fill(base, memory.data());
    } else {
      memory = outputs_.at(index(whole));
    }
    if (tensor == whole) return memory;
    return read_through(layout_in(graph_, tensor, whole).value(), std::move(memory),
                        static_cast<std::size_t>(element_bytes(graph_.dtype(tensor))));
  }

 private:
  const OpGraph& graph_;
  const LoweredGraph lowered_;
  const InitialValues values_;
  std::map<std::size_t, Contents> outputs_;  // [tensors]
};

/// The values that the nodes of a model make, by name.
Named values_of(const Bytes& file, const OpGraph& graph, const OneStep& step) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromArray(file.data(), static_cast<int>(file.size())));
  const auto first =
      static_cast<std::uint32_t>(graph.num_ops()) - static_cast<std::uint32_t>(model.graph().node_size());
  Named values;
  for (int i = 0; i < model.graph().node_size(); ++i) {
    std::size_t k = 0;
    const OpId op{first + static_cast<std::uint32_t>(i)};
    for (const auto& name : model.graph().node(i).output())
      if (!name.empty() && k < graph.num_outputs(op)) values[name] = step.contents(graph.output(op, k++));
  }
  return values;
}

class SubmodelsOnCpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string file = GetParam();
    bytes_ = read_graph_file(std::filesystem::path{EMPLACE_FIXTURES} / file).value();
    graph_ = parse_graph(bytes_, file).value();
    folder_ = std::filesystem::path{::testing::TempDir()} /
              ("submodels_" + std::filesystem::path{file}.stem().stem().string());
    std::filesystem::create_directories(folder_);
    make_external_data();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The file that the model's weights would be in, without contents.
  void make_external_data() {
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromArray(bytes_.data(), static_cast<int>(bytes_.size())));
    std::map<std::string, std::uint64_t> sizes;
    for (const auto& tensor : model.graph().initializer()) {
      std::string location;
      std::uint64_t end = 0;
      for (const auto& entry : tensor.external_data()) {
        if (entry.key() == "location") location = entry.value();
        if (entry.key() != "location") end += std::stoull(entry.value());
      }
      if (!location.empty()) sizes[location] = std::max(sizes[location], end);
    }
    for (const auto& [name, size] : sizes) {
      std::ofstream{folder_ / name};
      std::filesystem::resize_file(folder_ / name, size);
    }
  }

  json exported(const Placement& placement, const std::vector<std::string>& devices) {
    const std::string output = (folder_ / "parts").string();
    const auto made = interop::export_placement("submodels", {.graph = graph_,
                                                              .devices = devices,
                                                              .placement = placement,
                                                              .graph_file = bytes_,
                                                              .output = output,
                                                              .graph_folder = folder_});
    EXPECT_TRUE(made.ok()) << made.error().context;
    return made.ok() ? json::parse(made->content) : json{};
  }

  Bytes bytes_;
  OpGraph graph_;
  std::filesystem::path folder_;
};

TEST_P(SubmodelsOnCpu, ChainComputesTheBitsOfTheWholeModel) {
  OneStep whole{graph_, nullptr};
  ASSERT_NO_FATAL_FAILURE(whole.run());
  Named expected = values_of(bytes_, graph_, whole), state;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
    if (graph_.is_state(OpId{i}))
      state[std::string{graph_.name(OpId{i})}] = whole.contents(graph_.output(OpId{i}, 0));

  Rng rng{3, Purpose::kTest};
  const json manifest =
      exported(testing::random_placement(rng, graph_.num_ops(), 3), {"cpu:0", "cpu:1", "cpu:2"});
  ASSERT_GT(manifest["parts"].size(), 3u);
  Named made = state;
  for (const json& part : manifest["parts"]) {
    const auto path = folder_ / "parts" / part["file"].get<std::string>();
    const Bytes file = read_file(path).value();
    const auto graph = parse_graph(file, path.filename().string());
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    OneStep step{*graph, [&](OpId op, std::span<std::byte> memory) {
                   const auto it = made.find(std::string{graph->name(op)});
                   EXPECT_NE(it, made.end()) << graph->name(op) << " of " << path;
                   if (it == made.end()) return false;
                   EXPECT_EQ(it->second.size(), memory.size()) << graph->name(op) << " of " << path;
                   if (it->second.size() != memory.size()) return false;
                   std::copy(it->second.begin(), it->second.end(), memory.begin());
                   return true;
                 }};
    ASSERT_NO_FATAL_FAILURE(step.run());
    const Named values = values_of(file, *graph, step);
    for (const json& name : part["outputs"]) {
      const auto text = name.get<std::string>();
      ASSERT_TRUE(values.at(text) == expected.at(text)) << text << " of " << path;
      made[text] = values.at(text);
    }
  }
  for (const json& name : manifest["outputs"])
    EXPECT_TRUE(made.contains(name.get<std::string>())) << name << " comes from no part";
}

INSTANTIATE_TEST_SUITE_P(Models, SubmodelsOnCpu,
                         ::testing::Values("graphs/light_squeezenet.onnx",
                                           "onnx/torch_rms_attention.onnx.zst", "onnx/mamba.onnx.zst",
                                           "onnx/shufflenet_v2_x0_5.onnx.zst",
                                           "onnx/regnet_y_400mf.onnx.zst"),
                         [](const auto& one) {
                           return std::filesystem::path{one.param}.stem().stem().string();
                         });

}  // namespace
}  // namespace emplace::cpu
