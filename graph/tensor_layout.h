#pragma once
/// Where the elements of a view lie: `t`, `transpose`, `slice`, `select`, `expand` and their like move no
/// data, so a kernel that reads one reads another tensor's memory in another order.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// Element (i0, i1, …) of the tensor lies `offset + Σ ik · strides[k]` elements behind the start of the
/// memory.
struct StridedLayout {
  std::int64_t offset = 0;                   ///< [elements]
  std::vector<std::int64_t> shape, strides;  ///< [dims]; a stride of 0 repeats.

  std::int64_t elements() const;
  /// Row-major without holes from the start of the memory.
  bool is_packed() const;
  bool operator==(const StridedLayout&) const = default;
};

/// Row-major, no holes.
StridedLayout packed_layout(std::vector<std::int64_t> shape);

/// How a tensor is read out of another one's memory. Almost always one step. A reshape of what is not in
/// order needs a packed copy between: then the first step reads the memory, each next one the packed result
/// of the step before it.
struct TensorLayout {
  std::vector<StridedLayout> steps;
  bool operator==(const TensorLayout&) const = default;
};

/// How `tensor` is read from the memory of `base`, which it is or is a view of. Pure; any thread.
/// Errors: kInvalid if it is not a view of `base`; kUnsupported for a kind of view that is not known.
Result<TensorLayout> layout_in(const OpGraph& graph, TensorId tensor, TensorId base);

}  // namespace emplace
