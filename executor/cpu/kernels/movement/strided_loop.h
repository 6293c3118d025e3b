#pragma once
/// Walking over several tensors of one shape that lie in memory each in its own way.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace emplace::cpu {

/// Dimensions that are left after those of one element are dropped and those that lie behind one another in
/// every operand are merged. Strides are in bytes; a stride of 0 repeats.
struct StridedLoop {
  static constexpr std::size_t kMostDims = 8, kMostOperands = 4;

  std::size_t dims = 0;  ///< At least 1.
  std::array<std::int64_t, kMostDims> extent{};
  std::array<std::array<std::int64_t, kMostDims>, kMostOperands> stride{};  ///< [B] [operands][dims]

  std::int64_t inner() const { return extent[dims - 1]; }
  std::int64_t inner_stride(std::size_t operand) const { return stride[operand][dims - 1]; }
  /// All dimensions but the last; 0 if any is empty.
  std::int64_t rows() const;
  std::int64_t elements() const { return rows() * inner(); }
  /// Moves dimension `from` to place `to`.
  void move(std::size_t from, std::size_t to);
};

/// The loop over `shape`; strides in elements, one list of dims per operand, and each one's element size [B].
/// None if more than kMostDims dimensions are left.
std::optional<StridedLoop> collapse(const std::vector<std::int64_t>& shape,
                                    std::span<const std::vector<std::int64_t>> strides,
                                    std::span<const std::int64_t> element_bytes);
/// As collapse() over the loop itself: after its dimensions were moved.
StridedLoop merged(const StridedLoop& loop);

/// Counts through the first `dims` dimensions of a loop and keeps each operand's byte offset; no division.
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
  std::array<std::int64_t, StridedLoop::kMostDims> at_{};
  std::array<std::int64_t, Operands> offset_{};
};

}  // namespace emplace::cpu
