#pragma once
/// Index arithmetic shared by host and device: element i of a tensor → its offset in each operand.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/kernel/host_device.h"

namespace emplace::cuda {

inline constexpr int kMaxDims = 6;

/// A row-major walk over `shape` with the offset in each of N operands. Dimensions that are contiguous in
/// all operands are merged, so packed operands have one dimension.
template <int N>
struct Walk {
  int dims = 0;
  std::int64_t elements = 1;
  std::int64_t shape[kMaxDims]{};
  std::int64_t stride[N][kMaxDims]{};

  EMPLACE_HD void offsets(std::int64_t i, std::int64_t (&out)[N]) const {
    for (int n = 0; n < N; ++n) out[n] = 0;
    if (elements <= INT32_MAX) {  // 32-bit division is several times faster.
      std::uint32_t rest = static_cast<std::uint32_t>(i);
      for (int d = dims - 1; d > 0; --d) {
        const std::uint32_t size = static_cast<std::uint32_t>(shape[d]), above = rest / size;
        for (int n = 0; n < N; ++n) out[n] += (rest - above * size) * stride[n][d];
        rest = above;
      }
      if (dims > 0)
        for (int n = 0; n < N; ++n) out[n] += rest * stride[n][0];
      return;
    }
    for (int d = dims - 1; d > 0; --d) {
      const std::int64_t above = i / shape[d];
      for (int n = 0; n < N; ++n) out[n] += (i - above * shape[d]) * stride[n][d];
      i = above;
    }
    if (dims > 0)
      for (int n = 0; n < N; ++n) out[n] += i * stride[n][0];
  }
};

/// `strides` [N][dims], in elements. Returns false if more than kMaxDims dimensions remain.
template <int N>
bool make_walk(std::span<const std::int64_t> shape, const std::vector<std::int64_t> (&strides)[N],
               Walk<N>& walk) {
  walk = {};
  for (std::size_t d = 0; d < shape.size(); ++d) walk.elements *= shape[d];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool joins = walk.dims > 0;
    for (int n = 0; n < N && joins; ++n) joins = walk.stride[n][walk.dims - 1] == strides[n][d] * shape[d];
    if (!joins && walk.dims == kMaxDims) return false;
    const int at = joins ? walk.dims - 1 : walk.dims++;
    walk.shape[at] = joins ? walk.shape[at] * shape[d] : shape[d];
    for (int n = 0; n < N; ++n) walk.stride[n][at] = strides[n][d];
  }
  return true;
}

}  // namespace emplace::cuda
