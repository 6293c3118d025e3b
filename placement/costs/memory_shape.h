#pragma once
/// Kernels that the memory bounds: element-wise ops, norms, reductions, gathers, copies. For this room alone.

#include <cstdint>
#include <string_view>

#include "placement/costs/op_sizes.h"

namespace emplace::kernel_shapes {

/// What a type that is no product runs: found once per type of a graph.
struct MemoryType {
  KernelKind kind = KernelKind::kElementwise;
  bool backward = false;
  bool channels = false;      ///< Whether a norm is over all but the channels: it reads its data twice.
  bool planes = false;        ///< Whether a norm is over planes of a sample, or groups of them.
  bool inference = false;     ///< Whether a norm without outputs for its statistics has none to compute.
  bool may_reduce = false;    ///< Whether it is a reduction where the result is smaller.
  std::int8_t unread = -1;    ///< An input of which only the shape, or one element a row, is read; -1: none.
  bool writes_rows = false;   ///< Whether it updates rows of a table that it does not copy.
  std::uint8_t launches = 1;  ///< Kernels of one op, which the framework launches one after another.
};
MemoryType memory_type(std::string_view type, const OpRole& role);

/// Adds the kernel of an op of that type.
void add_memory_kernel(const OpSizes& op, const MemoryType& type, Kernels& kernels);
/// Adds a kernel that is known by its work and traffic alone.
void add_other(const OpSizes& op, Kernels& kernels);

}  // namespace emplace::kernel_shapes
