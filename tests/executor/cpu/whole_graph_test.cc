// Goal: a whole training step on the CPU computes what PyTorch computes, every op of it, on one device and
// split over two. Method: steps traced from PyTorch, their results by tests/parity/run_graph.py in float64
// from the same state; some values of each output of each op. Increments of the optimiser must be right by
// themselves: the parameter is so much larger that a wrong gradient would not show.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "executor/cpu/step_run.h"
#include "graph/formats/graph_file.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cpu {
namespace {

using nlohmann::json;

constexpr std::int64_t kRoom = std::int64_t{256} << 20;  // [B] of each device.
// Tolerances: share of an output's largest magnitude; of a parameter's largest change, and of the parameter
// itself for rounding; and this multiple of PyTorch's own float32 error, for sums that should be zero.
constexpr double kOutput = 2e-5, kChange = 1e-4, kRounding = 2e-7, kTimesPyTorch = 8;

json read_results(const std::string& name) {
  const std::string path = std::string{EMPLACE_FIXTURES} + "/results/" + name + ".json.gz";
  const Bytes text = decompress(read_file(path).value(), path).value();
  return json::parse(reinterpret_cast<const char*>(text.data()),
                     reinterpret_cast<const char*>(text.data() + text.size()));
}

double element(DType dtype, std::span<const std::byte> bytes, std::size_t at) {
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes.data() + at * sizeof value, sizeof value);
    return static_cast<double>(value);
  };
  return dtype == DType::kF32 ? as(float{}) : dtype == DType::kI64 ? as(std::int64_t{}) : as(std::uint8_t{});
}

/// The first value of `row` that the bytes miss; empty if none.
std::string difference(const json& row, DType dtype, std::span<const std::byte> bytes, double tolerance) {
  for (std::size_t i = 0; i < row.at("at").size(); ++i) {
    const double wanted = row.at("values")[i];
    const double got = element(dtype, bytes, row.at("at")[i].get<std::size_t>());
    if (std::abs(got - wanted) <= tolerance) continue;
    return row.at("op").get<std::string>() + ", output " + row.at("output").dump() + ", element " +
           row.at("at")[i].dump() + " is " + std::to_string(got) + ", not " + std::to_string(wanted) +
           "; allowed are " + std::to_string(tolerance);
  }
  return {};
}

double tolerance_of(const json& row, DType dtype) {
  if (dtype != DType::kF32) return 0;
  const double largest = row.at("largest"), noise = kTimesPyTorch * row.at("float32_error").get<double>();
  if (!row.contains("largest_change")) return kOutput * largest + noise;
  return kChange * row.at("largest_change").get<double>() + kRounding * largest + noise;
}

class WholeGraph : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    results_ = read_results(GetParam());
    auto graph =
        load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/" + results_.at("graph").get<std::string>());
    ASSERT_TRUE(graph) << graph.error().context;
    graph_ = *std::move(graph);
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) op_of_[std::string{graph_.name(OpId{i})}] = OpId{i};
  }

  using Outputs = std::map<std::pair<std::uint32_t, std::size_t>, std::vector<std::byte>>;

  /// Every output of every kernel after one step of this placement.
  void run(const Placement& placement, std::size_t num_devices, Outputs& outputs) {
    const LoweredGraph lowered{graph_};
    const auto kernels = bind_graph(lowered, false);
    ASSERT_TRUE(kernels) << kernels.error().context;
    InPlaceWrites in_place{lowered};
    for (const OpId op : lowered.kernels()) {
      if (!kernels->kernel(op).kernel->may_overwrite(0)) in_place.keep_apart(op);
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) outputs[{index(op), k}];
    }
    const DeviceSet devices = testing::sample_devices(num_devices, true, kRoom);
    const CostTable costs{graph_, devices};
    const TransferTable transfers{devices};
    const SystemClock clock;
    std::vector<DeviceMemory> memory;
    for (std::size_t d = 0; d < num_devices; ++d) memory.push_back(DeviceMemory::make(kRoom).value());
    WorkerPool pool{num_devices};
    const Machine machine{lowered, *kernels, devices, costs, transfers, clock, memory, pool};
    const TaskPlan plan{lowered, num_devices, placement, TaskPlan::Rules::kReal, &in_place};
    const std::vector<std::int64_t> caps(num_devices, kRoom);
    StepRun steps{machine, plan, caps};
    ASSERT_TRUE(steps.prepare(InitialValues{lowered, results_.at("seed").get<std::uint64_t>()}));
    const StepRun::Watch watch = [&](OpId op, std::size_t k, std::span<const std::byte> bytes) {
      outputs.at({index(op), k}).assign(bytes.begin(), bytes.end());
    };
    ASSERT_TRUE(steps.step(&watch));
  }

  void expect_the_results(const Outputs& outputs) {
    std::size_t compared = 0;
    for (const json& row : results_.at("tensors")) {
      const OpId op = op_of_.at(row.at("op").get<std::string>());
      const auto k = row.at("output").get<std::size_t>();
      const DType dtype = graph_.dtype(graph_.output(op, k));
      const auto& bytes = outputs.at({index(op), k});
      ASSERT_EQ(bytes.size(), static_cast<std::size_t>(graph_.bytes(graph_.output(op, k)))) << row.at("op");
      const std::string found = difference(row, dtype, bytes, tolerance_of(row, dtype));
      ASSERT_EQ(found, "") << "the first of " << results_.at("tensors").size() << " after " << compared;
      ++compared;
    }
    EXPECT_EQ(compared, outputs.size()) << "every output of every op";
  }

  json results_;
  OpGraph graph_;
  std::map<std::string, OpId> op_of_;
};

TEST_P(WholeGraph, InitialStateEqualsPyTorchs) {
  const LoweredGraph lowered{graph_};
  const InitialValues values{lowered, results_.at("seed").get<std::uint64_t>()};
  ASSERT_GT(results_.at("state").size(), 10u);
  for (const json& row : results_.at("state")) {
    const OpId op = op_of_.at(row.at("op").get<std::string>());
    const TensorId tensor = graph_.output(op, 0);
    std::vector<std::byte> bytes(static_cast<std::size_t>(graph_.bytes(tensor)));
    values.fill(lowered.buffer(tensor), bytes.data());
    EXPECT_EQ(difference(row, graph_.dtype(tensor), bytes, 1e-7 * row.at("largest").get<double>()), "");
  }
}

TEST_P(WholeGraph, StepOnOneDeviceEqualsPyTorch) {
  Outputs outputs;
  ASSERT_NO_FATAL_FAILURE(run(Placement(graph_.num_ops(), DeviceId{0}), 1, outputs));
  expect_the_results(outputs);
}

TEST_P(WholeGraph, StepOverTwoDevicesEqualsPyTorch) {
  Placement placement(graph_.num_ops(), DeviceId{0});
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    const OpId home = graph_.colocated_with(OpId{i});
    placement[i] = home == kNoOp ? static_cast<DeviceId>(i % 2) : placement[index(home)];
  }
  Outputs outputs;
  ASSERT_NO_FATAL_FAILURE(run(placement, 2, outputs));
  expect_the_results(outputs);
}

INSTANTIATE_TEST_SUITE_P(Steps, WholeGraph,
                         ::testing::Values("cifar10_cnn-bs4", "rnnlm-bs2-hidden8-steps2", "nmt-tiny",
                                           "transformer-tiny", "bert-tiny", "vit-tiny", "unet-tiny",
                                           "mobilenet-tiny", "densenet-tiny", "nasnet-tiny"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace emplace::cpu
