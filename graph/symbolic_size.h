#pragma once
/// Evaluates sizes that torch writes as formulas: "s77", "8*s0", "(((s53 - 1)//2)) + 1", "Max(1, s0)"; or as
/// trees: "Mul(Integer(8), Symbol('s0', positive=True, integer=True))".

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "graph/open_dims.h"

namespace emplace {

/// Returns the value of a formula; nothing if a name has no size, which `dims` then records as missing.
///   axis   position of the dimension, for names without a size of their own (--batch)
/// Supports + - * / // % **, parentheses, Max, Min, FloorDiv, CeilDiv, Mod, PythonMod, and in trees Add, Mul,
/// Pow, Integer and Symbol. Errors (kInvalid, without a place): any other function, a division by zero or
/// with a remainder, a malformed formula, more than 64 levels, values beyond 2^62. Thread: one per `dims`.
Result<std::optional<std::int64_t>> evaluate_size(std::string_view formula, std::size_t axis, DimUsage& dims);

}  // namespace emplace
