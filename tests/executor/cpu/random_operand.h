#pragma once
/// Operands as graphs have them: views in any order, with gaps, repeated; and the places of their elements.

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {

inline std::vector<std::int64_t> random_shape(Rng& rng, std::size_t most_dims, std::int64_t large = 70) {
  std::vector<std::int64_t> shape(rng.below(static_cast<std::uint32_t>(most_dims + 1)));
  for (auto& dim : shape) {
    dim = 1 + rng.below(rng.below(4) == 0 ? static_cast<std::uint32_t>(large) : 6u);
  }
  return shape;
}

/// Packed half of the time; else permuted, with gaps, sometimes with repeated dimensions.
inline Operand random_view(std::vector<std::int64_t> shape, Rng& rng, DType dtype = DType::kF32) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (rng.below(2) == 0) return packed(std::move(shape), dtype);
  rng.shuffle(order);
  Operand view = permuted(std::move(shape), order, rng.below(3) == 0 ? 1 : 0, dtype);
  for (auto& stride : view.strides) stride = rng.below(8) == 0 ? 0 : stride;
  return view;
}

/// Like `shape`, but some dimensions are 1 and leading ones may be absent: broadcast to `shape`.
inline Operand random_broadcast(std::vector<std::int64_t> shape, Rng& rng, DType dtype = DType::kF32) {
  for (auto& dim : shape) dim = rng.below(4) == 0 ? 1 : dim;
  while (!shape.empty() && rng.below(6) == 0) shape.erase(shape.begin());
  return random_view(std::move(shape), rng, dtype);
}

/// The values in memory: where dimensions repeat, all elements equal the first that shares their place.
inline Values shared_places(const Operand& operand, Values values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t rest = i, first = 0, step = 1;
    for (std::size_t d = operand.shape.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(operand.shape[d]);
      if (operand.strides[d] != 0) first += rest % size * step;
      rest /= size;
      step *= size;
    }
    values[i] = values[first];
  }
  return values;
}

/// Index into `operand` of element `i` of `shape`, by numpy's rules.
inline std::size_t broadcast_index(const Operand& operand, const std::vector<std::int64_t>& shape,
                                   std::size_t i) {
  std::size_t index = 0, step = 1;
  const std::size_t skip = shape.size() - operand.shape.size();
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto at = i % static_cast<std::size_t>(shape[d]);
    i /= static_cast<std::size_t>(shape[d]);
    if (d < skip) continue;
    if (operand.shape[d - skip] != 1) index += at * step;
    step *= static_cast<std::size_t>(operand.shape[d - skip]);
  }
  return index;
}

}  // namespace emplace::cpu
