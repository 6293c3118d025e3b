#pragma once
/// Memory layouts of views: `t`, `transpose`, `slice`, `select`, `expand` and similar ops move no data, so a
/// kernel that reads a view reads another tensor's memory in another order.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Element (i0, i1, …) of the tensor is at `offset + Σ ik · strides[k]` elements from the start of the
/// memory.
struct StridedLayout {
  std::int64_t offset = 0;                   ///< Start [elements].
  std::vector<std::int64_t> shape, strides;  ///< [dims] A stride of 0 repeats.

  std::int64_t elements() const;
  /// Returns whether the layout is row-major and contiguous from the start of the memory.
  bool is_packed() const;
  bool operator==(const StridedLayout&) const = default;
};

/// The row-major contiguous layout of a shape.
StridedLayout packed_layout(std::vector<std::int64_t> shape);

/// Steps to read a tensor from another one's memory, usually one. A reshape of elements that are not in order
/// needs a packed copy in between: the first step reads the memory, each further step reads the packed result
/// of the previous one.
struct TensorLayout {
  std::vector<StridedLayout> steps;
  bool operator==(const TensorLayout&) const = default;
};

/// The layout of `tensor` in the memory of `base`; `tensor` is `base` or a view of it. Pure; any thread.
/// Errors: kInvalid if it is not a view of `base`; kUnsupported for an unknown kind of view.
Result<TensorLayout> layout_in(const OpGraph& graph, TensorId tensor, TensorId base);

}  // namespace emplace
