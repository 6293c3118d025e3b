#pragma once
#include "base/result.h"

namespace emplace::cpu {

/// Computes a known product through the kernels. Errors: kRunFailed if the result is wrong, which means
/// that the library is incompatible with this processor.
Result<Unit> self_test();

}  // namespace emplace::cpu
