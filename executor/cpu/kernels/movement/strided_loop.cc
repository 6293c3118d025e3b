#include "executor/cpu/kernels/movement/strided_loop.h"

#include <algorithm>

#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

/// Appends a dimension, or merges it with the last one. Returns false if there are too many.
bool append(StridedLoop& loop, std::int64_t extent, std::span<const std::int64_t> strides) {
  bool joins = loop.dims > 0;
  for (std::size_t k = 0; k < strides.size() && joins; ++k)
    joins = loop.stride[k][loop.dims - 1] == strides[k] * extent;
  if (!joins && loop.dims == StridedLoop::kMaxDims) return false;
  if (!joins) loop.extent[loop.dims++] = 1;
  loop.extent[loop.dims - 1] *= extent;
  for (std::size_t k = 0; k < strides.size(); ++k) loop.stride[k][loop.dims - 1] = strides[k];
  return true;
}

}  // namespace

std::int64_t StridedLoop::rows() const { return count_of(std::span{extent}.first(dims - 1)); }

void StridedLoop::move(std::size_t from, std::size_t to) {
  const auto rotate = [from, to](auto& list) {
    const auto at = [&list](std::size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) std::rotate(at(from), at(from + 1), at(to + 1));
    if (from > to) std::rotate(at(to), at(from), at(from + 1));
  };
  rotate(extent);
  for (auto& operand : stride) rotate(operand);
}

void StridedLoop::add_row() {
  dims = 2;
  move(0, 1);
  extent[0] = 1;
  for (auto& operand : stride) operand[0] = 0;
}

Result<StridedLoop> collapse(const Signature& signature, std::span<const std::int64_t> shape,
                             std::span<const std::vector<std::int64_t>> strides,
                             std::span<const std::int64_t> element_bytes) {
  StridedLoop loop;
  std::array<std::int64_t, StridedLoop::kMaxOperands> bytes{};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    for (std::size_t k = 0; k < strides.size(); ++k) bytes[k] = strides[k][d] * element_bytes[k];
    if (!append(loop, shape[d], std::span{bytes}.first(strides.size())))
      return too_many_dimensions(signature);
  }
  if (loop.dims == 0) append(loop, 1, element_bytes);  // One element: a packed row of one.
  return loop;
}

StridedLoop merged(const StridedLoop& loop) {
  StridedLoop out;
  for (std::size_t d = 0; d < loop.dims; ++d) {
    if (loop.extent[d] == 1 && loop.dims > 1) continue;
    std::array<std::int64_t, StridedLoop::kMaxOperands> strides{};
    for (std::size_t k = 0; k < strides.size(); ++k) strides[k] = loop.stride[k][d];
    append(out, loop.extent[d], strides);
  }
  return out.dims == 0 ? loop : out;
}

Error too_many_dimensions(const Signature& signature) {
  return unsupported(signature, "more than 8 dimensions remain after merging");
}

}  // namespace emplace::cpu
