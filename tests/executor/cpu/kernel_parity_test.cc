// Goal: every kernel computes what PyTorch computes, touches only its own memory, does not depend on its
// previous contents, and may be shared by threads. Method: cases by PyTorch in float64
// (tests/parity/make_kernel_fixture.py) over every kind of op in the shared graphs, with views among the
// operands: the elements between those of a slice are NaN. Memory exactly as large as requested, between
// guards, filled with different garbage each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "graph/formats/graph_file.h"
#include "tests/executor/cpu/kernel_case.h"

namespace emplace {
namespace {

using testing::difference;
using testing::kernel_cases;
using testing::KernelCase;
using testing::KernelRun;
using testing::kNone;
using testing::run_kernel;

constexpr std::byte kNaNs{0xff}, kOther{0x5a};

class KernelParity : public ::testing::TestWithParam<const KernelCase*> {};

TEST_P(KernelParity, ComputesWhatPyTorchComputes) {
  const KernelCase& of = *GetParam();
  const auto kernel = cpu::make_kernel(of.signature);
  ASSERT_TRUE(kernel) << of.signature.type << ' ' << of.signature.attrs_json << ": "
                      << kernel.error().context;
  const KernelRun first = run_kernel(**kernel, of, kNaNs);
  EXPECT_EQ(first.complaint, "");
  EXPECT_EQ(difference(of, first.outputs), "");
  const KernelRun again = run_kernel(**kernel, of, kOther);
  EXPECT_EQ(again.complaint, "");
  EXPECT_EQ(again.outputs, first.outputs) << "equal inputs gave different outputs";

  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    if (!(*kernel)->may_overwrite(i)) continue;
    const Operand &in = of.signature.inputs[i], &out = of.signature.outputs[0];
    ASSERT_TRUE(in.is_packed() && in.shape == out.shape && in.dtype == out.dtype) << "input " << i;
    const KernelRun in_place = run_kernel(**kernel, of, kNaNs, i);
    EXPECT_EQ(in_place.complaint, "");
    EXPECT_EQ(in_place.outputs, first.outputs) << "over input " << i;
  }
}

std::vector<const KernelCase*> pointers_to_cases() {
  std::vector<const KernelCase*> pointers;
  for (const KernelCase& one : kernel_cases()) pointers.push_back(&one);
  return pointers;
}

INSTANTIATE_TEST_SUITE_P(Cases, KernelParity, ::testing::ValuesIn(pointers_to_cases()),
                         [](const auto& one) { return one.param->name; });

TEST(KernelFixture, HasACaseAndAKernelForEveryTypeInTheSharedGraphs) {
  std::set<std::string> tried;
  for (const KernelCase& one : kernel_cases()) tried.insert(one.signature.type);
  for (const char* folder : {"training", "onnx"}) {
    const auto kinds = testing::kinds_in_shared_graphs(folder);
    ASSERT_GT(kinds.size(), 20u);
    for (const std::string& kind : kinds) {
      EXPECT_TRUE(tried.contains(kind)) << kind << " has no case";
      EXPECT_TRUE(cpu::has_kernel(kind)) << kind << " has no kernel";
    }
  }
  EXPECT_FALSE(cpu::has_kernel("aten::no_such_op"));
}

TEST(KernelFixture, HasACaseForEveryTypeInTheGraphsOfTheTests) {
  std::set<std::string_view> tried;
  for (const KernelCase& one : kernel_cases()) tried.insert(one.signature.type);
  for (const char* name : {"cifar10_cnn-bs128.json", "mobilenet_v3_large-bs64.json.gz",
                           "resnet50-bs32.json.gz", "resnet50.onnx"}) {
    const auto graph = load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/" + name);
    ASSERT_TRUE(graph) << graph.error().context;
    for (std::uint32_t i = 0; i < graph->num_ops(); ++i) {
      const OpId op{i};
      if (graph->is_state(op) || graph->is_view(op)) continue;
      EXPECT_TRUE(tried.contains(graph->type_name(op))) << name << ": " << graph->type_name(op);
    }
  }
}

TEST(KernelFixture, KernelsAreThreadSafe) {
  for (const KernelCase& one : kernel_cases()) {
    const auto kernel = cpu::make_kernel(one.signature);
    EXPECT_TRUE(kernel) << one.name << ": " << kernel.error().context;
    if (!kernel) continue;
    KernelRun left, right;
    std::thread other{[&] { left = run_kernel(**kernel, one, kNaNs); }};
    right = run_kernel(**kernel, one, kOther);
    other.join();
    EXPECT_EQ(left.complaint + right.complaint, "") << one.name;
    EXPECT_EQ(left.outputs, right.outputs) << one.name;
  }
}

TEST(KernelErrors, UnknownTypeIsRefusedByName) {
  Signature signature = kernel_cases().front().signature;
  signature.type = "aten::no_such_op";
  const auto kernel = cpu::make_kernel(signature);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, Errc::kUnsupported);
  EXPECT_NE(kernel.error().context.find("aten::no_such_op"), std::string::npos) << kernel.error().context;
}

// Whatever a file contains, the maker of a kernel returns; it neither stops the process nor makes a kernel
// that reads other memory.
TEST(KernelErrors, SignatureWithoutOperandsIsRefused) {
  const std::set<std::string_view> fill{"aten::new_zeros", "aten::ones_like", "aten::empty_like",
                                        "aten::bernoulli"};
  for (const KernelCase& one : kernel_cases()) {
    if (fill.contains(one.signature.type)) continue;  // They read nothing, and fill their output.
    for (const bool of_inputs : {true, false}) {
      Signature signature = one.signature;
      (of_inputs ? signature.inputs : signature.outputs).clear();
      const auto kernel = cpu::make_kernel(signature);
      ASSERT_FALSE(kernel) << one.name << (of_inputs ? " without inputs" : " without outputs");
      EXPECT_EQ(kernel.error().code, Errc::kUnsupported) << one.name;
    }
  }
}

}  // namespace
}  // namespace emplace
