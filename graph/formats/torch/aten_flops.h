#pragma once
/// Floating-point operations of torch operators, from shapes alone; a multiply-add counts as two.

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/formats/torch/aten_ops.h"
#include "graph/op_kind.h"

namespace emplace {

/// By the formula of `kind` (graph/op_kind.h), the kind of `type` or null. `outputs` are the call's.
/// Work on whole numbers, and movement, count nothing. Nothing if no rule is known. Shapes of a wrong rank
/// give 0; sums stop at 2^60. Pure; any thread.
std::optional<std::int64_t> aten_flops(const OpKind* kind, std::string_view type, const AtenCall& call,
                                       const std::vector<TensorSpec>& outputs);

}  // namespace emplace
