#pragma once
#include <string>

#include "executor/cuda/libraries/api.h"

namespace emplace::cuda {

/// Example: "CUDA 13.0, cuBLASLt 130100, cuDNN 91900; unavailable: no CUDA device: …".
std::string library_versions(const CudaApi& api = real_api());

}  // namespace emplace::cuda
