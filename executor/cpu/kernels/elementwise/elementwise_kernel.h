#pragma once
/// One elementwise form over operands of one shape that lie in memory each in its own way.

#include <array>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_form.h"
#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// Errors: kUnsupported: a dtype, a shape that does not broadcast, a missing operand.
Result<std::unique_ptr<Kernel>> make_elementwise(const Signature& signature, const ElementwiseForm& form);

/// The form of a type; null if it is not elementwise.
const ElementwiseForm* elementwise_form(std::string_view type);

/// `type`, of two operands, over all inputs from the first on: ((a + b) + c) + …   Errors: as above.
Result<std::unique_ptr<Kernel>> make_variadic(const Signature& signature, std::string_view type,
                                              bool mean = false);

/// Strides of `operand` seen as `shape`: numpy's rules, dimensions aligned at the end. None if they do not
/// fit.
std::optional<std::vector<std::int64_t>> broadcast_strides(const Operand& operand,
                                                           const std::vector<std::int64_t>& shape);

}  // namespace emplace::cpu
