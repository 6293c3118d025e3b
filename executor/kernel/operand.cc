#include "executor/kernel/operand.h"

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

std::int64_t Operand::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  return count;
}

bool Operand::is_packed() const { return elements() == 0 || has_no_holes(*this); }

}  // namespace emplace
