#pragma once
/// Iterates over several tensors of one shape with arbitrary strides.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "executor/kernel/signature.h"

namespace emplace::cpu {

/// The merged dimensions: size-1 dimensions are dropped, and dimensions that are contiguous in every
/// operand are merged. Strides are in bytes; stride 0 repeats an element.
struct StridedLoop {
  static constexpr std::size_t kMaxDims = 8, kMaxOperands = 4;

  std::size_t dims = 0;  ///< At least 1.
  std::array<std::int64_t, kMaxDims> extent{};
  std::array<std::array<std::int64_t, kMaxDims>, kMaxOperands> stride{};  ///< [B] [operands][dims]

  std::int64_t inner() const { return extent[dims - 1]; }
  std::int64_t inner_stride(std::size_t operand) const { return stride[operand][dims - 1]; }
  /// Product of all dimensions but the last; 0 if any is empty.
  std::int64_t rows() const;
  std::int64_t elements() const { return rows() * inner(); }
  /// Moves dimension `from` to position `to`.
  void move(std::size_t from, std::size_t to);
  /// Makes a matrix with one row of a loop with one dimension.
  void add_row();
};

/// The loop over `shape`. Input: strides in elements, one list of dims per operand, and the element size of
/// each operand [B]. Errors: kUnsupported if more than kMaxDims dimensions remain.
Result<StridedLoop> collapse(const Signature& signature, std::span<const std::int64_t> shape,
                             std::span<const std::vector<std::int64_t>> strides,
                             std::span<const std::int64_t> element_bytes);
/// Merges the dimensions of a loop again after they were reordered.
StridedLoop merged(const StridedLoop& loop);
Error too_many_dimensions(const Signature& signature);

/// Iterates over the first `dims` dimensions of a loop and tracks the byte offset of each operand, without
/// division.
template <std::size_t Operands>
class Odometer {
 public:
  Odometer(const StridedLoop& loop, std::size_t dims) : loop_{loop}, dims_{dims} {}

  std::int64_t offset(std::size_t operand) const { return offset_[operand]; }
  void step() {
    for (std::size_t d = dims_; d-- > 0;) {
      for (std::size_t k = 0; k < Operands; ++k) offset_[k] += loop_.stride[k][d];
      if (++at_[d] < loop_.extent[d]) return;
      at_[d] = 0;
      for (std::size_t k = 0; k < Operands; ++k) offset_[k] -= loop_.stride[k][d] * loop_.extent[d];
    }
  }

 private:
  const StridedLoop& loop_;
  std::size_t dims_;
  std::array<std::int64_t, StridedLoop::kMaxDims> at_{};
  std::array<std::int64_t, Operands> offset_{};
};

}  // namespace emplace::cpu
