// Goal: errors that stick end all calls, others do not, and each keeps its meaning.
#include "executor/cuda/libraries/session.h"

#include <gtest/gtest.h>

namespace emplace::cuda {
namespace {

int cleared = 0;
cudaError_t pending = cudaSuccess;

CudaApi quiet_api() {
  CudaApi api;
  api.runtime.GetLastError = [] { return ++cleared, std::exchange(pending, cudaSuccess); };
  api.runtime.PeekAtLastError = [] { return pending; };
  return api;
}

TEST(CudaSession, FullDeviceIsClearedAndTheSessionContinues) {
  const CudaApi api = quiet_api();
  Session session{api};
  cleared = 0;
  const auto full = session.check(cudaErrorMemoryAllocation, "cudaMalloc");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kOutOfMemory);
  EXPECT_NE(full.error().context.find("cudaMalloc: cudaErrorMemoryAllocation (2)"), std::string::npos)
      << full.error().context;
  EXPECT_EQ(cleared, 1);
  EXPECT_FALSE(session.poisoned());
  EXPECT_EQ(&session.api(), &api);
}

TEST(CudaSession, StickyErrorPoisonsIt) {
  for (const int code : {214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 806, 810, 999}) {
    const CudaApi api = quiet_api();
    Session session{api};
    cleared = 0;
    const auto failed = session.check(static_cast<cudaError_t>(code), "a kernel");
    ASSERT_FALSE(failed) << code;
    EXPECT_EQ(failed.error().code, Errc::kDeviceLost);
    EXPECT_TRUE(session.poisoned()) << code;
    EXPECT_EQ(session.sticky_error().context, failed.error().context);
    EXPECT_EQ(cleared, 0) << "no call after the sticky error";
    EXPECT_NE(session.api().runtime.GetLastError(), cudaSuccess) << "its replacement fails";
    EXPECT_EQ(cleared, 0);
    EXPECT_EQ(session.check(session.api().runtime.DeviceSynchronize(), "another").error().context,
              failed.error().context);
  }
}

TEST(CudaSession, FailureOfALibraryIsThatOfAFailedDevice) {
  const CudaApi api = quiet_api();
  {
    Session session{api};
    pending = cudaErrorIllegalAddress;
    EXPECT_FALSE(session.check(CUDNN_STATUS_EXECUTION_FAILED, "cudnnBackendExecute"));
    EXPECT_TRUE(session.poisoned());
  }
  Session session{api};
  pending = cudaSuccess;
  EXPECT_EQ(session.check(CUBLAS_STATUS_NOT_SUPPORTED, "x").error().code, Errc::kUnsupported);
  EXPECT_EQ(session.check(CUBLAS_STATUS_ALLOC_FAILED, "x").error().code, Errc::kOutOfMemory);
  EXPECT_EQ(session.check(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "x").error().code, Errc::kUnsupported);
  EXPECT_EQ(session.check(CUDNN_STATUS_BAD_PARAM, "x").error().code, Errc::kRunFailed);
  EXPECT_EQ(session.check(cudaErrorCooperativeLaunchTooLarge, "x").error().code, Errc::kUnsupported);
  EXPECT_TRUE(session.check(cudaSuccess, "x"));
  EXPECT_FALSE(session.poisoned());
}

}  // namespace
}  // namespace emplace::cuda
