#pragma once
/// A tensor argument of a kernel, on any device.

#include <cstdint>
#include <vector>

#include "graph/op_graph.h"

namespace emplace {

/// A tensor argument; the kernel gets the pointer of element (0, 0, …).
struct Operand {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< [elements] Row-major for outputs; any for inputs, 0 repeats.

  std::int64_t elements() const;
  bool is_packed() const;  ///< True if row-major without gaps.
  bool operator==(const Operand&) const = default;
};

}  // namespace emplace
