// Goal: the descriptions of convolutions are valid for cuDNN. Method: its own library checks a node when it
// is finished, which needs no GPU.
#include <gtest/gtest.h>

#include "executor/cuda/library_kernels/cudnn_graph.h"

namespace emplace::cuda {
namespace {

std::array<std::int64_t, 4> packed(const std::array<std::int64_t, 4>& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

ConvolutionShape shape(ConvolutionKind kind, std::int64_t groups = 1) {
  ConvolutionShape s{.kind = kind, .x = {2, 8, 17, 19}, .w = {16, 8 / groups, 3, 5}, .y = {2, 16, 9, 19}};
  s.x_strides = packed(s.x), s.w_strides = packed(s.w), s.y_strides = packed(s.y);
  s.pad = s.pad_after = {1, 2};
  s.stride = {2, 1};
  s.groups = groups;
  return s;
}

class ConvGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    if (real_api().dnn.BackendFinalize == nullptr) GTEST_SKIP() << "no cuDNN: " << real_api().missing_dnn;
  }
  Session session{real_api()};
};

TEST_F(ConvGraph, AcceptsEveryKindWithoutAGpu) {
  for (const auto kind :
       {ConvolutionKind::kForward, ConvolutionKind::kInputGradient, ConvolutionKind::kFilterGradient})
    for (const std::int64_t groups : {1, 2, 8}) {
      const auto graph = ConvolutionGraph::describe(session, shape(kind, groups));
      EXPECT_TRUE(graph) << static_cast<int>(kind) << ' ' << groups << ": " << graph.error().context;
    }
}

TEST_F(ConvGraph, LibraryRefusesInvalidSizes) {
  ConvolutionShape wrong = shape(ConvolutionKind::kForward);
  wrong.y[2] += 1;
  wrong.y_strides = packed(wrong.y);
  const auto graph = ConvolutionGraph::describe(session, wrong);
  ASSERT_FALSE(graph);
  EXPECT_FALSE(session.poisoned());
}

TEST_F(ConvGraph, PlanNeedsADevice) {
  if (check_available(real_api())) GTEST_SKIP() << "there is a CUDA device here";
  cudnnHandle_t handle = nullptr;
  EXPECT_NE(real_api().dnn.Create(&handle), CUDNN_STATUS_SUCCESS);
  auto graph = ConvolutionGraph::describe(session, shape(ConvolutionKind::kForward));
  ASSERT_TRUE(graph);
  EXPECT_FALSE(graph.value().plan({.session = &session, .dnn = handle, .workspace = 1 << 20}));
}

}  // namespace
}  // namespace emplace::cuda
