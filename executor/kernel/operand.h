#pragma once
/// A tensor argument of a kernel, on any device.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/op_graph.h"

namespace emplace {

/// A tensor argument; the kernel gets the pointer of element (0, 0, …).
struct Operand {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< [elements] Row-major for outputs; any for inputs, 0 repeats.

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * element_bytes(dtype); }  ///< Size of a packed copy [B].
  bool is_packed() const;  ///< True if row-major without gaps.
  bool operator==(const Operand&) const = default;
};

std::int64_t count_of(std::span<const std::int64_t> shape);  ///< Number of elements.
/// Row-major strides without gaps.
std::vector<std::int64_t> packed_strides(std::span<const std::int64_t> shape);
/// A row-major operand without gaps.
Operand packed(DType dtype, std::vector<std::int64_t> shape);
/// Strides of `operand` broadcast to `shape` by numpy's rules (dimensions aligned at the end); 0 for
/// dimensions of size 1. Empty if the shapes do not match.
std::optional<std::vector<std::int64_t>> broadcast_strides(const Operand& operand,
                                                           std::span<const std::int64_t> shape);

}  // namespace emplace
