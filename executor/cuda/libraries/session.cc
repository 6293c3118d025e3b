#include "executor/cuda/libraries/session.h"

#include <fmt/core.h>

#include <utility>

namespace emplace::cuda {

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown:  // Typical for a GPU that fell off the bus.
      return true;
    default:
      return false;
  }
}

namespace {

/// Replaces a function that must not be called any more.
template <class Function>
struct Refusing;
template <class R, class... A>
struct Refusing<R (*)(A...)> {
  static R call(A...) { return static_cast<R>(1); }  // A failure status in every library.
};

CudaApi make_refusing_api() {
  CudaApi api;
#define X(name) api.runtime.name = &Refusing<decltype(api.runtime.name)>::call;
  EMPLACE_CUDA_RUNTIME(X)
#undef X
#define X(name, version) api.driver.name = &Refusing<decltype(api.driver.name)>::call;
  EMPLACE_CUDA_DRIVER(X)
#undef X
#define X(name) api.blas.name = &Refusing<decltype(api.blas.name)>::call;
  EMPLACE_CUBLASLT(X)
#undef X
#define X(name) api.dnn.name = &Refusing<decltype(api.dnn.name)>::call;
  EMPLACE_CUDNN(X)
#undef X
  return api;
}

}  // namespace

const CudaApi& Session::api() const {
  static const CudaApi refusing = make_refusing_api();
  return poisoned_ ? refusing : *api_;
}

Error Session::lose(const Error& why) {
  const MutexLock lock{mutex_};
  if (!poisoned_) why_ = Error{Errc::kDeviceLost, why.context}, poisoned_ = true;
  return why_;
}

Result<Unit> Session::check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return Unit{};
  if (poisoned_) return why_;
  std::string text = fmt::format("{}: {} ({}): {}", what, ::cudaGetErrorName(status),
                                 static_cast<int>(status), ::cudaGetErrorString(status));
  if (is_sticky(status)) return lose({Errc::kDeviceLost, std::move(text)});
  api().runtime.GetLastError();  // Clears the error; otherwise the next check would report it again.
  if (status == cudaErrorMemoryAllocation) return Error{Errc::kOutOfMemory, std::move(text)};
  if (status == cudaErrorCooperativeLaunchTooLarge || status == cudaErrorNoKernelImageForDevice ||
      status == cudaErrorNotSupported)
    return Error{Errc::kUnsupported, std::move(text)};
  return Error{Errc::kRunFailed, std::move(text)};
}

Result<Unit> Session::check(CUresult status, std::string_view what) {
  // Driver and runtime use the same error numbers where both define one.
  return check(static_cast<cudaError_t>(status), what);
}

Result<Unit> Session::library_failed(bool out_of_memory, bool unsupported, std::string text) {
  if (poisoned_) return why_;
  const cudaError_t device = api().runtime.PeekAtLastError();
  if (device != cudaSuccess && (is_sticky(device) || !out_of_memory)) return check(device, text);
  if (device != cudaSuccess) api().runtime.GetLastError();
  return Error{out_of_memory ? Errc::kOutOfMemory
               : unsupported ? Errc::kUnsupported
                             : Errc::kRunFailed,
               std::move(text)};
}

Result<Unit> Session::check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return Unit{};
  return library_failed(status == CUBLAS_STATUS_ALLOC_FAILED,
                        status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH,
                        fmt::format("{}: cuBLASLt status {}", what, static_cast<int>(status)));
}

Result<Unit> Session::check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return Unit{};
  return library_failed(status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                            status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                        CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED,
                        fmt::format("{}: cuDNN status {}", what, static_cast<int>(status)));
}

}  // namespace emplace::cuda
