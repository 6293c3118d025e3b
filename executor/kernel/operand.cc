#include "executor/kernel/operand.h"

#include <functional>
#include <numeric>

namespace emplace {
namespace {

/// Whether the strides are row-major; a dimension of size 1 may have any stride.
bool has_no_holes(const Operand& operand) {
  std::int64_t stride = 1;
  for (std::size_t d = operand.shape.size(); d-- > 0;) {
    if (operand.shape[d] != 1 && operand.strides[d] != stride) return false;
    stride *= operand.shape[d];
  }
  return true;
}

}  // namespace

std::int64_t Operand::elements() const { return count_of(shape); }

bool Operand::is_packed() const { return elements() == 0 || has_no_holes(*this); }

std::int64_t count_of(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
}

std::vector<std::int64_t> packed_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t next = 1;
  for (std::size_t d = shape.size(); d-- > 0; next *= shape[d]) strides[d] = next;
  return strides;
}

Operand packed(DType dtype, std::vector<std::int64_t> shape) {
  std::vector<std::int64_t> strides = packed_strides(shape);
  return {dtype, std::move(shape), std::move(strides)};
}

std::optional<std::vector<std::int64_t>> broadcast_strides(const Operand& operand,
                                                           std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  if (operand.shape.size() > shape.size()) return std::nullopt;
  const std::size_t skip = shape.size() - operand.shape.size();
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] == 1) continue;
    if (operand.shape[d] != shape[skip + d]) return std::nullopt;
    strides[skip + d] = operand.strides[d];
  }
  return strides;
}

}  // namespace emplace
