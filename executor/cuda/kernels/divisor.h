#pragma once
/// Division of indices by a divisor that is known before the launch: a GPU divides 64-bit integers in a
/// subroutine of about a hundred instructions, and multiplies them in a few.

#include <cstdint>

#include "executor/kernel/host_device.h"

namespace emplace::cuda {

/// Exact for all indices and divisors from 1 on: the multiplier of Granlund and Montgomery, "Division by
/// invariant integers using multiplication" (1994), figure 4.1. A divisor below 1 counts as 1.
class Divisor {
  __extension__ typedef unsigned __int128 Wide;

 public:
  Divisor() : Divisor{1} {}
  explicit Divisor(std::int64_t divisor) : divisor_{divisor < 1 ? 1 : divisor} {
    const auto d = static_cast<Wide>(divisor_);
    int bits = 0;  // The least number with 2^bits >= d.
    while ((static_cast<Wide>(1) << bits) < d) ++bits;
    const auto power = static_cast<Wide>(1) << bits;
    multiplier_ = static_cast<std::uint64_t>(((power - d) << 64) / d + 1);
    first_ = bits > 0 ? 1 : 0, second_ = bits > 0 ? bits - 1 : 0;
  }

  EMPLACE_HD std::int64_t value() const { return divisor_; }
  /// index / divisor. @pre index >= 0
  EMPLACE_HD std::int64_t quotient(std::int64_t index) const {
    const auto n = static_cast<std::uint64_t>(index);
#ifdef __CUDA_ARCH__
    const std::uint64_t high = __umul64hi(multiplier_, n);
#else
    const auto high = static_cast<std::uint64_t>((static_cast<Wide>(multiplier_) * n) >> 64);
#endif
    return static_cast<std::int64_t>((high + ((n - high) >> first_)) >> second_);
  }
  /// index / divisor, and `rest` = index % divisor.
  EMPLACE_HD std::int64_t divide(std::int64_t index, std::int64_t& rest) const {
    const std::int64_t whole = quotient(index);
    rest = index - whole * divisor_;
    return whole;
  }
  EMPLACE_HD std::int64_t rest(std::int64_t index) const { return index - quotient(index) * divisor_; }

 private:
  std::int64_t divisor_;
  std::uint64_t multiplier_ = 0;
  int first_ = 0, second_ = 0;
};

}  // namespace emplace::cuda
