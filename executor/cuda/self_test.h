#pragma once
#include "base/result.h"
#include "executor/cuda/api.h"

namespace emplace::cuda {

/// Computes a known sum on every GPU. Errors: kUnsupported without a GPU; kRunFailed if the sum is wrong;
/// those of Session.
Result<Unit> self_test(const CudaApi& api = real_api());

}  // namespace emplace::cuda
