#pragma once
/// Kernels with random sizes, from a few elements to millions, and their inputs.

#include "base/rng.h"
#include "tests/executor/cpu/kernel_case.h"

namespace emplace::testing {

/// A case without outputs; its largest operand has up to `most` elements.
KernelCase random_case(Rng& rng, std::int64_t most);

}  // namespace emplace::testing
