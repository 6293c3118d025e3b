// Goal: every type with a kernel is in the table of op kinds. Method: the tables of all families.
#include <gtest/gtest.h>

#include <string_view>

#include "executor/cpu/kernel.h"
#include "graph/op_kind.h"

namespace emplace::cpu {
namespace {

bool is_known(std::string_view type) {
  constexpr std::string_view kAten = "aten::";
  if (type.starts_with(kAten)) return find_kind(Vocabulary::kAten, type.substr(kAten.size())) != nullptr;
  return find_kind(Vocabulary::kOnnx, type) != nullptr || find_kind(Vocabulary::kTensorFlow, type) != nullptr;
}

TEST(KernelKinds, AllTypesWithAKernelAreInTheTable) {
  std::size_t kernels = 0;
  for (const auto family :
       {matmul_kernels(), convolution_kernels(), pooling_kernels(), normalisation_kernels(),
        softmax_kernels(), loss_kernels(), elementwise_kernels(), reduction_kernels(), movement_kernels(),
        box_kernels(), resize_kernels(), lookup_kernels(), scatter_kernels(), scatter_slices_kernels(),
        selection_kernels(), creation_kernels()}) {
    for (const KernelEntry& entry : family)
      for (const std::string_view type : words_in(entry.types)) {
        ++kernels;
        EXPECT_TRUE(is_known(type)) << type << " is missing in graph/op_kind.cc";
      }
  }
  EXPECT_GT(kernels, 100u);
}

}  // namespace
}  // namespace emplace::cpu
