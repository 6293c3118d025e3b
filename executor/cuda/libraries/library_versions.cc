#include "executor/cuda/libraries/library_versions.h"

#include <fmt/core.h>
namespace emplace::cuda {

std::string library_versions(const CudaApi& api) {
  std::string text = fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (api.blas.GetVersion != nullptr) text += fmt::format(", cuBLASLt {}", api.blas.GetVersion());
  if (api.dnn.GetVersion != nullptr) text += fmt::format(", cuDNN {}", api.dnn.GetVersion());
  if (!api.missing_dnn.empty()) text += ", no cuDNN: " + api.missing_dnn;
  if (const auto there = check_available(api); !there) text += "; unavailable: " + there.error().context;
  return text;
}

}  // namespace emplace::cuda
