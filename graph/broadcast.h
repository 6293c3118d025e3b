#pragma once
/// Broadcasting of element-wise operands as in numpy, ONNX and TensorFlow.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace emplace {

/// Returns the broadcast shape: shapes are aligned at their last dimensions, and a dimension of 1 stretches.
/// Returns nothing if the shapes do not match.
inline std::optional<std::vector<std::int64_t>> broadcast(const std::vector<std::int64_t>& a,
                                                          const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> out(std::max(a.size(), b.size()), 1);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const std::int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - k] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace emplace
