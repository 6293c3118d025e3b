#include "executor/cuda/library_versions.h"

namespace emplace::cuda {

std::string library_versions(const CudaApi& api) {
  std::string text =
      "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  if (api.blas.GetVersion != nullptr) text += ", cuBLASLt " + std::to_string(api.blas.GetVersion());
  if (api.dnn.GetVersion != nullptr) text += ", cuDNN " + std::to_string(api.dnn.GetVersion());
  if (const auto there = check_available(api); !there) text += "; unavailable: " + there.error().context;
  return text;
}

}  // namespace emplace::cuda
