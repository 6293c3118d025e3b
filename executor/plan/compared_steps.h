#pragma once
/// Compares the outputs of two runs of a step.

#include <cstddef>
#include <functional>

#include "executor/real_executor.h"
#include "graph/lowering.h"

namespace emplace {

/// Outputs of synthetic ops, and values computed from them, are not comparable and are skipped. `same`:
/// whether output k of an op was the same in both runs; not called after the first difference.
Verification compare_steps(const LoweredGraph& lowered, const std::function<bool(OpId)>& is_synthetic,
                           const std::function<bool(OpId, std::size_t)>& same);

}  // namespace emplace
