#pragma once
#include "base/result.h"
#include "executor/cuda/api.h"

namespace emplace::cuda {

/// Computes a sum whose answer is known on every GPU. Errors: kUnsupported without one; kRunFailed if it is
/// wrong; of Session.
Result<Unit> self_test(const CudaApi& api = real_api());

}  // namespace emplace::cuda
