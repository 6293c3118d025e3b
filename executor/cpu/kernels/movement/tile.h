#pragma once
/// Copies small matrices between strided memory and packed rows; makes transposed operands cheap.

#include <cstddef>
#include <cstdint>

#include "graph/op_graph.h"

namespace emplace::cpu {

/// target(r, c) = source(r, c), r < rows, c < columns. Strides in bytes; each target row is packed.
using LoadTile = void (*)(const std::byte* source, std::int64_t row_stride, std::int64_t column_stride,
                          std::int64_t rows, std::int64_t columns, std::byte* target,
                          std::int64_t target_row_stride);

/// Copies elements unchanged. @pre element_bytes is 1, 2, 4 or 8.
LoadTile copy_tile(std::int64_t element_bytes);
/// Converts between dtypes as static_cast does. Null for f16 and bf16, and for targets other than the
/// compute dtypes f32, f64, i64 and i32.
LoadTile convert_tile(DType from, DType to);

/// The bytes of `value` as an element, in the low bytes of the word. Integers are truncated and clamped.
/// @pre The dtype is not f16 or bf16, unless the value is 0.
std::uint64_t scalar_bits(DType dtype, double value);

}  // namespace emplace::cpu
