#pragma once
/// Floating-point operations of ONNX ops, from shapes alone; a multiply-add counts as two.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace emplace {

using OnnxShape = std::vector<std::int64_t>;

/// The formulas are those of the traced training graphs (docs/reference/file_formats.md): matrix products 2 m
/// n k, convolutions 2 · outputs · input channels of a group · kernel area, pooling its kernel area per
/// output, reductions 1 per input, element-wise ops a small constant per output; movement and whole-number
/// work nothing.
///   inputs   by argument position, an absent optional argument has null
///   attrs    the node's attributes as an object
///   floating the first output is of a floating-point type
/// Nothing for a type without a rule, whose name is ONNX's own or "com.microsoft::…"; what moves data or
/// counts in whole numbers has one. A shape of the wrong rank gives 0; sums stop at 2^60. Pure; any thread.
std::optional<std::int64_t> onnx_flops(std::string_view type, std::span<const OnnxShape* const> inputs,
                                       const OnnxShape& output, const nlohmann::json& attrs, bool floating);

}  // namespace emplace
