// Goal: programs compute training steps: all their pointers, offsets, packed copies and their order are
// right, on one device and split over two. Method: programs run on the host, instruction by instruction, each
// call by its kernel's CPU twin, against PyTorch's numbers for every output of every op
// (tests/fixtures/results).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "executor/cpu/kernel.h"
#include "executor/cuda/program/operand_copies.h"
#include "executor/kernel/initial_values.h"
#include "graph/formats/graph_file.h"
#include "tests/executor/cuda/enqueued.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cuda {
namespace {

using nlohmann::json;
using testing::Enqueued;
using Outputs = std::map<std::pair<std::size_t, std::size_t>, std::vector<std::byte>>;  // (op, output)

constexpr std::int64_t kRoom = std::int64_t{256} << 20;  // [B] of each device.

class WholeStep : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = std::string{EMPLACE_FIXTURES} + "/results/" + GetParam() + ".json.gz";
    const Bytes text = decompress(read_file(path).value(), path).value();
    results_ = json::parse(reinterpret_cast<const char*>(text.data()),
                           reinterpret_cast<const char*>(text.data() + text.size()));
    auto graph =
        load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/" + results_.at("graph").get<std::string>());
    ASSERT_TRUE(graph) << graph.error().context;
    graph_ = *std::move(graph);
  }

  /// Runs a kernel on copies of its operands in free memory of the program; returns how many it ran.
  std::size_t run_on_copies(const Enqueued& enqueued, const Instruction& instruction) {
    const StepProgram& program = *enqueued.program;
    if (instruction.kind != Instruction::Kind::kKernel || instruction.num_calls != 1) return 0;
    const std::size_t d = instruction.stream / kStreamsPerDevice;
    const std::span<std::byte> room{(*enqueued.group)[d].memory() + program.reach_bytes(d), 64 << 20};
    const OperandCopies copies{program, instruction, room, 3};
    EXPECT_GT(copies.size(), 0u);
    const Call& call = program.calls(instruction)[0];
    const auto inside = [&](const std::byte* at) {
      return at >= room.data() && at < room.data() + room.size();
    };
    for (std::size_t number = 0; number < copies.size(); ++number) {
      for (const OperandCopies::Range& range : copies.ranges()) {
        std::byte* const to = copies.memory(range, number);
        EXPECT_TRUE(range.bytes == 0 || (inside(to) && inside(to + range.bytes - 1)));
        std::memset(to, 0x55, range.bytes);
        if (!range.scratch) std::memcpy(to, range.original, range.bytes);
      }
      const Pointers pointers = copies.pointers(number);
      for (const std::byte* const input : pointers.inputs) EXPECT_TRUE(inside(input));
      for (const std::byte* const output : pointers.outputs) EXPECT_TRUE(inside(output));
      call.kernel->run(pointers);
    }
    const OpId op{enqueued.plan->tasks()[instruction.task].what};
    std::vector<std::vector<std::byte>> results;  // Results of the call on the last copy.
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
      const std::byte* const at = copies.pointers(copies.size() - 1).outputs[k];
      results.emplace_back(at, at + graph_.bytes(graph_.output(op, k)));
    }
    call.kernel->run(program.pointers(call));
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k)
      EXPECT_EQ(std::memcmp(program.pointers(call).outputs[k], results[k].data(), results[k].size()), 0)
          << graph_.type_name(op) << ", output " << k;
    return copies.size();
  }

  /// One step by twins; the outputs of each op right after it.
  void run(const Placement& placement, std::size_t gpus, Outputs& outputs, bool with_cpu = false,
           Link link = {.bytes_per_s = 1e9, .latency_s = 1e-6}) {
    const DeviceSet devices = testing::sample_devices(gpus, with_cpu, kRoom, link);
    Enqueued enqueued{graph_, devices, placement, 1, true, 4096, cpu::make_kernel};
    const TaskPlan& plan = *enqueued.plan;
    const StepProgram& program = *enqueued.program;
    ASSERT_FALSE(program.out_of_memory());
    const InitialValues values{enqueued.lowered, results_.at("seed").get<std::uint64_t>()};
    for (std::uint32_t s = 0; s < plan.slots().size(); ++s)
      if (plan.slots()[s].resident && index(plan.slots()[s].buffer) != TaskPlan::kNone)
        values.fill(plan.slots()[s].buffer, program.memory(s));
    for (const Instruction& instruction : program.instructions()) {
      for (const Call& call : program.calls(instruction)) call.kernel->run(program.pointers(call));
      if (instruction.kind != Instruction::Kind::kKernel) {
        std::memcpy(instruction.to, instruction.from, static_cast<std::size_t>(instruction.bytes));
        continue;
      }
      const OpId op{plan.tasks()[instruction.task].what};
      ASSERT_FALSE(enqueued.kernels[0].kernel(op).synthetic) << graph_.type_name(op);
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
        const TensorId tensor = graph_.output(op, k);
        const std::byte* const at = program.memory(plan.home_slot(enqueued.lowered.buffer(tensor)));
        outputs[{index(op), k}].assign(at, at + graph_.bytes(tensor));
      }
    }
    EXPECT_EQ(enqueued.recording.complaint(), "");
  }

  /// Sums in another order than PyTorch's may differ by several times PyTorch's own float32 error.
  void expect_the_results(const Outputs& outputs) {
    std::map<std::string, OpId, std::less<>> op_of;
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) op_of[std::string{graph_.name(OpId{i})}] = OpId{i};
    std::size_t compared = 0;
    for (const json& row : results_.at("tensors")) {
      const OpId op = op_of.at(row.at("op").get<std::string>());
      const auto k = row.at("output").get<std::size_t>();
      const auto& bytes = outputs.at({index(op), k});
      const bool floats = graph_.dtype(graph_.output(op, k)) == DType::kF32;
      const double largest = row.at("largest"), noise = 8 * row.value("float32_error", 0.0);
      const double allowed = !floats ? 0
                             : row.contains("largest_change")
                                 ? 1e-4 * row.at("largest_change").get<double>() + 2e-7 * largest + noise
                                 : 3e-5 * largest + noise;
      for (std::size_t i = 0; i < row.at("at").size(); ++i) {
        const auto at = row.at("at")[i].get<std::size_t>();
        double got = 0;
        const auto as = [&](auto value) {
          std::memcpy(&value, bytes.data() + at * sizeof value, sizeof value);
          got = static_cast<double>(value);
        };
        floats ? as(float{}) : as(std::int64_t{});
        ASSERT_LE(std::abs(got - row.at("values")[i].get<double>()), allowed)
            << graph_.name(op) << ", output " << k << ", element " << at << ", a " << graph_.type_name(op);
      }
      ++compared;
    }
    EXPECT_EQ(compared, outputs.size());
  }

  json results_;
  OpGraph graph_;
};

TEST_P(WholeStep, OnOneDevice) {
  Outputs outputs;
  ASSERT_NO_FATAL_FAILURE(run(Placement(graph_.num_ops(), DeviceId{0}), 1, outputs));
  expect_the_results(outputs);
}

TEST_P(WholeStep, SplitOverTwoGpusAndACpu) {
  Rng rng{8, Purpose::kTest};
  Outputs outputs;
  ASSERT_NO_FATAL_FAILURE(run(testing::random_placement(rng, graph_.num_ops(), 3), 2, outputs, true));
  expect_the_results(outputs);
}

TEST_P(WholeStep, KernelsGiveTheSameOnCopiesOfTheirOperands) {
  const DeviceSet devices = testing::sample_devices(1, false, kRoom);
  Enqueued enqueued{graph_, devices, Placement(graph_.num_ops(), DeviceId{0}), 1, true};
  const TaskPlan& plan = *enqueued.plan;
  const InitialValues values{enqueued.lowered, results_.at("seed").get<std::uint64_t>()};
  for (std::uint32_t s = 0; s < plan.slots().size(); ++s)
    if (plan.slots()[s].resident && index(plan.slots()[s].buffer) != TaskPlan::kNone)
      values.fill(plan.slots()[s].buffer, enqueued.program->memory(s));
  std::size_t ran = 0;
  for (const Instruction& instruction : enqueued.program->instructions()) {
    const std::size_t on_copies = run_on_copies(enqueued, instruction);
    ran += on_copies;
    if (on_copies > 0) continue;
    for (const Call& call : enqueued.program->calls(instruction))
      call.kernel->run(enqueued.program->pointers(call));
  }
  EXPECT_GT(ran, enqueued.program->instructions().size()) << "most kernels have a single call";
}

TEST_P(WholeStep, SplitOverTwo) {
  Rng rng{7, Purpose::kTest};
  Outputs outputs;
  ASSERT_NO_FATAL_FAILURE(run(testing::random_placement(rng, graph_.num_ops(), 2), 2, outputs));
  expect_the_results(outputs);
}

TEST_P(WholeStep, SplitOverTwoWithShapedLinks) {
  Rng rng{7, Purpose::kTest};
  Outputs outputs;
  ASSERT_NO_FATAL_FAILURE(run(testing::random_placement(rng, graph_.num_ops(), 2), 2, outputs, false,
                              {.bytes_per_s = 1e9, .latency_s = 1e-6, .shaped = true}));
  expect_the_results(outputs);
}

INSTANTIATE_TEST_SUITE_P(Graphs, WholeStep,
                         ::testing::Values("cifar10_cnn-bs4", "rnnlm-bs2-hidden8-steps2", "nmt-tiny",
                                           "transformer-tiny", "bert-tiny", "vit-tiny", "unet-tiny",
                                           "mobilenet-tiny", "densenet-tiny", "nasnet-tiny"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace emplace::cuda
