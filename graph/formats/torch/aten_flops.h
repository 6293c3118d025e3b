#pragma once
/// Counts floating-point operations of torch operators from shapes; a multiply-add counts as two.

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/formats/torch/aten_ops.h"
#include "graph/op_kind.h"

namespace emplace {

/// Uses the formula of `kind` (graph/op_kind.h), which is the kind of `type` or null. `outputs` are those of
/// the call. Integer work and data movement count as 0. Returns nothing if there is no rule. Shapes of the
/// wrong rank give 0; sums saturate at 2^60. Pure; any thread.
std::optional<std::int64_t> aten_flops(const OpKind* kind, std::string_view type, const AtenCall& call,
                                       const std::vector<TensorSpec>& outputs);

}  // namespace emplace
