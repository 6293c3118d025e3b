#pragma once
/// Runs one kernel on numbers: memory with strides, guards after every buffer, inputs that must stay
/// unchanged.

#include <initializer_list>
#include <string>
#include <vector>

#include "base/rng.h"
#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// A tensor's elements in row-major order, for any strides and dtype.
using Values = std::vector<double>;

Operand packed(std::vector<std::int64_t> shape, DType dtype = DType::kF32);
/// Like `shape`, but its dimension order[0] is the outermost in memory, order.back() the innermost; `gap`
/// elements are left out between neighbours of the innermost.
Operand permuted(std::vector<std::int64_t> shape, const std::vector<std::size_t>& order, std::int64_t gap = 0,
                 DType dtype = DType::kF32);
/// Like expand: stride 0 in these dimensions.
Operand expanded(Operand operand, std::initializer_list<std::size_t> dims);

Values normal_values(const Operand& operand, Rng& rng);
/// Integers in [low, high).
Values integer_values(const Operand& operand, Rng& rng, std::int64_t low, std::int64_t high);

/// Makes the kernel and runs it twice, on two sets of memory. Fails the test if it is refused, writes after
/// an output or the scratch, changes an input, or gives other bytes the second time. An operand of stride 0
/// takes the first of the values that share a place.
std::vector<Values> run_kernel(const Signature& signature, const std::vector<Values>& inputs);

/// Fails the test unless |value - wanted| <= absolute + relative |wanted| everywhere. NaN equals NaN.
void expect_near(const Values& values, const Values& wanted, double relative = 1e-5, double absolute = 1e-5);

/// The error of the refusal; fails the test if a kernel is made.
std::string refusal(const Signature& signature);

}  // namespace emplace::cpu
