#pragma once
/// Counts floating-point operations of ONNX ops from shapes; a multiply-add counts as two.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace emplace {

using OnnxShape = std::vector<std::int64_t>;

/// Uses the formulas of the traced training graphs (docs/reference/file_formats.md): matrix products 2 m n k,
/// convolutions 2 · outputs · input channels per group · kernel area, pooling its kernel area per output,
/// reductions 1 per input, element-wise ops a small constant per output, data movement and integer work 0.
///   inputs   shapes by argument position; null for an absent optional argument
///   attrs    the node's attributes as an object
///   floating whether the first output is of a floating-point type
/// Returns nothing for a type without a rule; names are ONNX's own or "com.microsoft::…". Data movement and
/// integer work have rules. A shape of the wrong rank gives 0; sums saturate at 2^60. Pure; any thread.
std::optional<std::int64_t> onnx_flops(std::string_view type, std::span<const OnnxShape* const> inputs,
                                       const OnnxShape& output, const nlohmann::json& attrs, bool floating);

}  // namespace emplace
