#pragma once
/// A box of elements moved from one place to another, or filled: what every kernel that moves data is made
/// of.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// Where a box lies in a tensor's memory. [elements]
struct Box {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

/// Immutable; run() from any thread. The boxes do not overlap.
class CopyLoop {
 public:
  /// None if more than 8 dimensions are left that lie in different orders.
  static std::optional<CopyLoop> make(const std::vector<std::int64_t>& shape, const Box& target,
                                      const Box& source, std::int64_t element_bytes);
  /// Pointers to the tensors' first elements.
  void run(std::byte* target, const std::byte* source) const;

 private:
  StridedLoop loop_;                                    // Operand 0 is the target. At least two dimensions.
  std::int64_t target_offset_ = 0, source_offset_ = 0;  // [B]
  bool transposed_ = false;
  LoadTile copy_ = nullptr;
};

/// Immutable; run() from any thread.
class FillLoop {
 public:
  /// `bits` as scalar_bits gives them. None as above.
  static std::optional<FillLoop> make(const std::vector<std::int64_t>& shape, const Box& target,
                                      std::int64_t element_bytes, std::uint64_t bits);
  void run(std::byte* target) const;

 private:
  StridedLoop loop_;
  std::int64_t offset_ = 0, element_bytes_ = 0;  // [B]
  std::uint64_t bits_ = 0;
};

}  // namespace emplace::cpu
