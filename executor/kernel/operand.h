#pragma once
/// A tensor as every device's kernels see it.

#include <cstdint>
#include <vector>

#include "graph/op_graph.h"

namespace emplace {

/// A tensor as a kernel sees it: the pointer it gets is that of element (0, 0, …).
struct Operand {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< [elements] Row-major for outputs; any for inputs, 0 repeats.

  std::int64_t elements() const;
  bool is_packed() const;  ///< Row-major without holes.
  bool operator==(const Operand&) const = default;
};

}  // namespace emplace
