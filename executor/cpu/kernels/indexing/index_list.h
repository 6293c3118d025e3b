#pragma once
/// Indices as kernels use them: whatever their dtype and order, each within its range.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// -1 is the last, as everywhere; what is outside still then is the nearest inside, so that no index ever
/// reads or writes outside memory. @pre limit > 0.
inline std::int64_t within(std::int64_t index, std::int64_t limit) {
  index = index < 0 ? index + limit : index;
  index = index < 0 ? 0 : index;
  return index >= limit ? limit - 1 : index;
}

/// Immutable; load() from any thread.
class IndexList {
 public:
  /// None if the operand is of floating point or of too many dimensions in different orders.
  static std::optional<IndexList> make(const Operand& indices);

  std::int64_t size() const { return loop_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * sizeof(std::int64_t); }
  /// All indices in row-major order as they are, at the start of `room`, which has bytes().
  std::span<std::int64_t> load(const std::byte* indices, std::byte* room) const;

 private:
  StridedLoop loop_;  // Operand 0 is the list.
  LoadTile convert_ = nullptr;
};

}  // namespace emplace::cpu
