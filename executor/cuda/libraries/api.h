#pragma once
/// The functions used from CUDA's libraries, as tables of pointers: the real functions, or recording ones
/// in tests (tests/executor/cuda/recording_api.h). Members have the names of the libraries' functions.

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

// clang-format 14 moves these backslashes in every run.
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
  X(DeviceGetP2PAttribute)                                                                          \
  X(DeviceEnablePeerAccess) X(StreamCreateWithPriority) X(StreamDestroy) X(StreamSynchronize)          \
      X(StreamWaitEvent) X(EventCreateWithFlags) X(EventDestroy) X(EventRecord) X(EventElapsedTime) \
          X(DeviceSynchronize) X(LaunchKernel)                               \
              X(StreamBeginCapture) X(StreamEndCapture) X(GraphInstantiate) X(GraphLaunch)          \
              X(GraphExecDestroy) X(GraphDestroy) X(HostRegister) X(HostUnregister) X(LaunchHostFunc) X(GetLastError) X(PeekAtLastError)
#define EMPLACE_CUDA_DRIVER(X)        \
  X(DeviceGet, 2000)                  \
  X(DeviceGetDevResource, 12040)      \
  X(DevSmResourceSplitByCount, 12040) \
  X(DevResourceGenerateDesc, 12040)   \
  X(GreenCtxCreate, 12040)            \
  X(GreenCtxDestroy, 12040)           \
  X(CtxFromGreenCtx, 12040)           \
  X(GreenCtxStreamCreate, 12050)      \
  X(CtxSetCurrent, 4000)
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
/// Loaded from the driver at run time, so that nothing links libcuda. Each name has the CUDA version that
/// introduced its current form: a driver denies a function that is asked for by a lower version.
struct DriverApi {
#define X(name, version) decltype(&::cu##name) name = nullptr;
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

/// A range of device memory that a task reads or writes.
struct MemoryUse {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};

/// Called before and after the calls of one task are enqueued, so that tools can label them. The default
/// does nothing.
struct TaskObserver {
  virtual ~TaskObserver() = default;
  virtual void on_task_start(std::string_view name, std::span<const MemoryUse> uses) = 0;
  virtual void on_task_end() = 0;
};

struct CudaApi {
  RuntimeApi runtime;
  DriverApi driver;         ///< Members are null if the driver is missing or too old.
  CublasLtApi blas;         ///< Members may be null: see `missing`.
  CudnnApi dnn;             ///< All members are null if `missing_dnn` is not empty.
  std::string missing;      ///< What every graph needs and could not be opened, with the reason; empty: none.
  std::string missing_dnn;  ///< Why there is no cuDNN, which only convolutions need; empty: there is.
  TaskObserver* observer = nullptr;
};

/// The real functions. cuBLASLt and cuDNN are opened once per process. Never fails: problems are reported
/// in `missing` and `missing_dnn`. Any thread.
const CudaApi& real_api();

/// Checks for a usable GPU. Errors: kUnsupported, "no CUDA device: …".
Result<Unit> check_available(const CudaApi& api);

/// Example: "CUDA 13.0, cuBLASLt 130100, cuDNN 91900; unavailable: no CUDA device: …".
std::string library_versions(const CudaApi& api = real_api());

}  // namespace emplace::cuda
