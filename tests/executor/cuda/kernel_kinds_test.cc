// Goal: every type with a kernel is in the table of op kinds. Method: all types with a kernel.
#include <gtest/gtest.h>

#include <string_view>

#include "executor/cuda/kernels/kernel.h"
#include "graph/op_kind.h"

namespace emplace::cuda {
namespace {

bool is_known(std::string_view type) {
  constexpr std::string_view kAten = "aten::";
  // The executor's own copy of an operand that a library requires packed: no graph has it.
  if (type == "emplace::pack") return true;
  if (type.starts_with(kAten)) return find_kind(Vocabulary::kAten, type.substr(kAten.size())) != nullptr;
  return find_kind(Vocabulary::kOnnx, type) != nullptr || find_kind(Vocabulary::kTensorFlow, type) != nullptr;
}

TEST(KernelKinds, AllTypesWithAKernelAreInTheTable) {
  const auto types = kernel_types();
  EXPECT_GT(types.size(), 100u);
  for (const std::string_view type : types)
    EXPECT_TRUE(is_known(type)) << type << " is missing in graph/op_kind.cc";
}

}  // namespace
}  // namespace emplace::cuda
