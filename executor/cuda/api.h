#pragma once
/// Everything of CUDA's libraries that we call, as tables of functions: the real ones, or those of a test
/// that records what is called (tests/executor/cuda/recording_api.h). Members have the libraries' own names.

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

// clang-format 14 moves these backslashes at every run.
// clang-format off
#define EMPLACE_CUDA_RUNTIME(X)                                                                     \
  X(GetDeviceCount)                                                                                 \
  X(DriverGetVersion)                                                                               \
  X(RuntimeGetVersion)                                                                              \
  X(DeviceGetAttribute)                                                                             \
  X(DeviceGetPCIBusId)                                                                              \
  X(SetDevice)                                                                                      \
  X(MemGetInfo)                                                                                     \
  X(Malloc)                                                                                         \
  X(Free)                                                                                           \
  X(MallocHost)                                                                                     \
  X(FreeHost)                                                                                       \
  X(MemcpyAsync)                                                                                    \
  X(MemcpyPeerAsync)                                                                                \
  X(MemsetAsync)                                                                                    \
  X(DeviceCanAccessPeer)                                                                            \
  X(DeviceEnablePeerAccess) X(StreamCreateWithFlags) X(StreamDestroy) X(StreamSynchronize)          \
      X(StreamWaitEvent) X(EventCreateWithFlags) X(EventDestroy) X(EventRecord) X(EventElapsedTime) \
          X(DeviceSynchronize) X(LaunchKernel) X(GetLastError) X(PeekAtLastError)
#define EMPLACE_CUDA_DRIVER(X) \
  X(DeviceGet)                 \
  X(DeviceGetDevResource)      \
  X(DevSmResourceSplitByCount) \
  X(DevResourceGenerateDesc)   \
  X(GreenCtxCreate) X(GreenCtxDestroy) X(CtxFromGreenCtx) X(GreenCtxStreamCreate) X(CtxSetCurrent)
#define EMPLACE_CUBLASLT(X)   \
  X(GetVersion)               \
  X(Create)                   \
  X(Destroy)                  \
  X(MatmulDescCreate)         \
  X(MatmulDescDestroy)        \
  X(MatmulDescSetAttribute)   \
  X(MatrixLayoutCreate)       \
  X(MatrixLayoutDestroy)      \
  X(MatrixLayoutSetAttribute) \
  X(MatmulPreferenceCreate)   \
  X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) X(Matmul)
#define EMPLACE_CUDNN(X)      \
  X(GetVersion)               \
  X(Create)                   \
  X(Destroy)                  \
  X(SetStream)                \
  X(BackendCreateDescriptor)  \
  X(BackendDestroyDescriptor) \
  X(BackendFinalize) X(BackendSetAttribute) X(BackendGetAttribute) X(BackendExecute)
// clang-format on

namespace emplace::cuda {

struct RuntimeApi {
#define X(name) decltype(&::cuda##name) name = nullptr;
  EMPLACE_CUDA_RUNTIME(X)
#undef X
};
/// Asked of the driver at run time: nothing links libcuda.
struct DriverApi {
#define X(name) decltype(&::cu##name) name = nullptr;
  EMPLACE_CUDA_DRIVER(X)
#undef X
};
struct CublasLtApi {
#define X(name) decltype(&::cublasLt##name) name = nullptr;
  EMPLACE_CUBLASLT(X)
#undef X
};
struct CudnnApi {
#define X(name) decltype(&::cudnn##name) name = nullptr;
  EMPLACE_CUDNN(X)
#undef X
};

/// A stretch of device memory that a task reads or writes.
struct MemoryUse {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};

/// Told around what is enqueued for one task, so that tools can name it. The default does nothing.
struct TaskObserver {
  virtual ~TaskObserver() = default;
  virtual void task_begins(std::string_view name, std::span<const MemoryUse> uses) = 0;
  virtual void task_ends() = 0;
};

struct CudaApi {
  RuntimeApi runtime;
  DriverApi driver;  ///< Members are null where the driver is too old, or absent.
  CublasLtApi blas;  ///< Null members: see `missing`.
  CudnnApi dnn;
  std::string missing;  ///< Which library could not be opened and why; empty if none.
  TaskObserver* observer = nullptr;
};

/// The real functions; cuBLASLt and cuDNN are opened once per process. Never fails: what is missing is said
/// in `missing`. Any thread.
const CudaApi& real_api();

/// Nothing, or why no GPU can be used here: "no CUDA device: …". kUnsupported.
Result<Unit> check_available(const CudaApi& api);

}  // namespace emplace::cuda
