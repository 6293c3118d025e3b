#pragma once
/// Converts index tensors of any dtype and strides to valid indices.

#include <cstddef>
#include <cstdint>
#include <span>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// Maps negative indices to the end (-1 is the last element) and clamps the result, so that no index
/// accesses memory out of bounds. @pre limit > 0.
inline std::int64_t within(std::int64_t index, std::int64_t limit) {
  index = index < 0 ? index + limit : index;
  index = index < 0 ? 0 : index;
  return index >= limit ? limit - 1 : index;
}

/// Immutable. load(): any thread.
class IndexList {
 public:
  /// Errors: kUnsupported if the input is of floating point or has too many unmergeable dimensions.
  static Result<IndexList> make(const Signature& signature, std::size_t input);

  std::int64_t size() const { return loop_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * sizeof(std::int64_t); }
  /// Loads all indices in row-major order, unmodified, to the start of `room` (bytes() bytes).
  std::span<std::int64_t> load(const std::byte* indices, std::byte* room) const;

 private:
  StridedLoop loop_;  // Operand 0 is the list.
  LoadTile convert_ = nullptr;
};

}  // namespace emplace::cpu
