#include "executor/cpu/kernels/movement/strided_loop.h"

#include <algorithm>

namespace emplace::cpu {

std::int64_t StridedLoop::rows() const {
  std::int64_t count = 1;
  for (std::size_t d = 0; d + 1 < dims; ++d) count *= extent[d];
  return count;
}

void StridedLoop::move(std::size_t from, std::size_t to) {
  const auto rotate = [from, to](auto& list) {
    const auto at = [&list](std::size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) std::rotate(at(from), at(from + 1), at(to + 1));
    if (from > to) std::rotate(at(to), at(from), at(from + 1));
  };
  rotate(extent);
  for (auto& operand : stride) rotate(operand);
}

std::optional<StridedLoop> collapse(const std::vector<std::int64_t>& shape,
                                    std::span<const std::vector<std::int64_t>> strides,
                                    std::span<const std::int64_t> element_bytes) {
  StridedLoop loop;
  const std::size_t operands = strides.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool joins = loop.dims > 0;
    for (std::size_t k = 0; k < operands && joins; ++k) {
      joins = loop.stride[k][loop.dims - 1] == strides[k][d] * element_bytes[k] * shape[d];
    }
    if (joins) {
      loop.extent[loop.dims - 1] *= shape[d];
    } else {
      if (loop.dims == StridedLoop::kMaxDims) return std::nullopt;
      loop.extent[loop.dims++] = shape[d];
    }
    for (std::size_t k = 0; k < operands; ++k) {
      loop.stride[k][loop.dims - 1] = strides[k][d] * element_bytes[k];
    }
  }
  if (loop.dims == 0) {  // One element: a packed row of one.
    loop.dims = 1;
    loop.extent[0] = 1;
    for (std::size_t k = 0; k < operands; ++k) loop.stride[k][0] = element_bytes[k];
  }
  return loop;
}

StridedLoop merged(const StridedLoop& loop) {
  StridedLoop out;
  for (std::size_t d = 0; d < loop.dims; ++d) {
    if (loop.extent[d] == 1 && loop.dims > 1) continue;
    bool joins = out.dims > 0;
    for (std::size_t k = 0; k < StridedLoop::kMaxOperands && joins; ++k) {
      joins = out.stride[k][out.dims - 1] == loop.stride[k][d] * loop.extent[d];
    }
    if (joins) {
      out.extent[out.dims - 1] *= loop.extent[d];
    } else {
      out.extent[out.dims++] = loop.extent[d];
    }
    for (std::size_t k = 0; k < StridedLoop::kMaxOperands; ++k)
      out.stride[k][out.dims - 1] = loop.stride[k][d];
  }
  if (out.dims == 0) return loop;
  return out;
}

}  // namespace emplace::cpu
