#pragma once
/// Copies or fills a box of elements: the building block of all movement kernels.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu {

/// Position of a box in a tensor's memory [elements].
struct Box {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

/// Immutable. run(): any thread. The boxes must not overlap.
class CopyLoop {
 public:
  /// Errors: kUnsupported if more than 8 dimensions remain after merging.
  static Result<CopyLoop> make(const Signature& signature, std::span<const std::int64_t> shape,
                               const Box& target, const Box& source, std::int64_t element_bytes);
  /// Packs the elements of a view. Errors: as make().
  static Result<CopyLoop> packing(const Signature& signature, const Operand& view);
  /// Arguments: pointers to the first elements of the tensors.
  void run(std::byte* target, const std::byte* source) const;

 private:
  StridedLoop loop_;                                    // Operand 0 is the target. At least two dimensions.
  std::int64_t target_offset_ = 0, source_offset_ = 0;  // [B]
  bool transposed_ = false;
  LoadTile copy_ = nullptr;
};

/// Immutable. run(): any thread.
class FillLoop {
 public:
  /// `bits`: from scalar_bits(). Errors: kUnsupported if more than 8 dimensions remain.
  static Result<FillLoop> make(const Signature& signature, std::span<const std::int64_t> shape,
                               const Box& target, std::int64_t element_bytes, std::uint64_t bits);
  void run(std::byte* target) const;

 private:
  StridedLoop loop_;
  std::int64_t offset_ = 0, element_bytes_ = 0;  // [B]
  std::uint64_t bits_ = 0;
};

}  // namespace emplace::cpu
