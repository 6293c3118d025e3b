#pragma once
/// One elementwise form over operands of one shape and arbitrary strides.

#include <array>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_form.h"
#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// Errors: kUnsupported: the dtype, a shape that does not broadcast, a missing operand.
Result<std::unique_ptr<Kernel>> make_elementwise(const Signature& signature, const ElementwiseForm& form);

/// The form of a type; null if it is not elementwise.
const ElementwiseForm* elementwise_form(std::string_view type);

/// Folds the binary `type` over all inputs: ((a + b) + c) + … Errors: as make_elementwise().
Result<std::unique_ptr<Kernel>> make_variadic(const Signature& signature, std::string_view type,
                                              bool mean = false);

/// Strides of `operand` broadcast to `shape` by numpy's rules (dimensions aligned at the end). Empty if the
/// shapes do not match.
std::optional<std::vector<std::int64_t>> broadcast_strides(const Operand& operand,
                                                           const std::vector<std::int64_t>& shape);

}  // namespace emplace::cpu
