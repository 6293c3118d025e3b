#pragma once
/// One elementwise form over operands of one shape and arbitrary strides.

#include <array>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_form.h"
#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// Errors: kUnsupported: the dtype, a shape that does not broadcast, a missing operand.
Made make_elementwise(const Signature& signature, const ElementwiseForm& form);

/// The form of a type; null if it is not elementwise.
const ElementwiseForm* elementwise_form(std::string_view type);

/// Folds the binary `type` over all inputs: ((a + b) + c) + … Errors: as make_elementwise().
Made make_variadic(const Signature& signature, std::string_view type, bool mean = false);

}  // namespace emplace::cpu
