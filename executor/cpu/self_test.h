#pragma once
#include "base/result.h"

namespace emplace::cpu {

/// Computes a product whose answer is known, through the kernels. Errors: kRunFailed if it is wrong: this
/// processor and this library do not go together.
Result<Unit> self_test();

}  // namespace emplace::cpu
