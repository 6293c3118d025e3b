#include "executor/cuda/libraries/api.h"

#include <cudaTypedefs.h>
#include <cudnn_version.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <string>
#include <type_traits>

namespace emplace::cuda {
namespace {

/// Opens a library from the loader's path, else from the toolkit of the build.
void* open_library(const std::string& name, std::string& missing) {
  if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  std::string reason = ::dlerror();
  const std::string path = std::string{EMPLACE_CUDA_LIBRARY_DIR} + "/" + name;
  if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  missing += (missing.empty() ? "" : "; ") + reason;
  return nullptr;
}

template <class Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  if (library == nullptr) return;
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) missing += (missing.empty() ? "" : "; ") + std::string{name} + " is missing";
}

// The header has a typedef for each function and version. A version that introduced no form of the function
// names none.
#define X(name, version)                                                          \
  static_assert(std::is_same_v<decltype(&::cu##name), PFN_cu##name##_v##version>, \
                "another version introduced the current form of cu" #name);
EMPLACE_CUDA_DRIVER(X)
#undef X

template <class Function>
void ask_driver(const char* name, unsigned version, Function& function) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status =
      ::cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
  if (status == cudaSuccess && found == cudaDriverEntryPointSuccess)
    function = reinterpret_cast<Function>(entry);
}

class NvtxObserver final : public TaskObserver {
 public:
  void on_task_start(std::string_view name, std::span<const MemoryUse>) override {
    ::nvtxRangePushA(std::string{name}.c_str());
  }
  void on_task_end() override { ::nvtxRangePop(); }
};

/// Labels the calls of each task for an attached profiler with NVTX ranges "OP|TYPE|device N"; null without
/// a profiler.
TaskObserver* nvtx_observer() {
  static NvtxObserver observer;
  // The variable names the library of a tool.
  return std::getenv("NVTX_INJECTION64_PATH") == nullptr ? nullptr : &observer;
}

CudaApi make_real_api() {
  CudaApi api;
#define X(name) api.runtime.name = &::cuda##name;
  EMPLACE_CUDA_RUNTIME(X)
#undef X
#define X(name, version) ask_driver("cu" #name, version, api.driver.name);
  EMPLACE_CUDA_DRIVER(X)
#undef X
  void* const blas = open_library(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), api.missing);
#define X(name) find(blas, "cublasLt" #name, api.blas.name, api.missing);
  EMPLACE_CUBLASLT(X)
#undef X
  void* const dnn = open_library(fmt::format("libcudnn.so.{}", CUDNN_MAJOR), api.missing_dnn);
#define X(name) find(dnn, "cudnn" #name, api.dnn.name, api.missing_dnn);
  EMPLACE_CUDNN(X)
#undef X
  if (!api.missing_dnn.empty()) api.dnn = {};
  api.observer = nvtx_observer();
  return api;
}

}  // namespace

const CudaApi& real_api() {
  static const CudaApi api = make_real_api();
  return api;
}

Result<Unit> check_available(const CudaApi& api) {
  int count = 0;
  const cudaError_t status = api.runtime.GetDeviceCount(&count);
  const auto unavailable = [](const std::string& why) {
    return Error{Errc::kUnsupported, "no CUDA device: " + why};
  };
  if (status == cudaErrorInsufficientDriver)
    return unavailable(fmt::format("no NVIDIA driver, or a driver older than required by CUDA {}.{}",
                                   CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
  if (status != cudaSuccess) return unavailable(::cudaGetErrorString(status));
  if (count == 0) return unavailable("the driver reports no GPU");
  if (!api.missing.empty()) return unavailable(api.missing + "; add the folder to LD_LIBRARY_PATH");
  return Unit{};
}

std::string library_versions(const CudaApi& api) {
  std::string text = fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (api.blas.GetVersion != nullptr) text += fmt::format(", cuBLASLt {}", api.blas.GetVersion());
  if (api.dnn.GetVersion != nullptr) text += fmt::format(", cuDNN {}", api.dnn.GetVersion());
  if (!api.missing_dnn.empty()) text += ", no cuDNN: " + api.missing_dnn;
  if (const auto there = check_available(api); !there) text += "; unavailable: " + there.error().context;
  return text;
}

}  // namespace emplace::cuda
