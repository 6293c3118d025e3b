#pragma once
/// Arithmetic on sizes and flops from files: sums and products saturate at 2^60, so that nothing overflows.

#include <algorithm>
#include <cstdint>
#include <span>

namespace emplace::capped {

inline constexpr std::int64_t kMax = std::int64_t{1} << 60;

/// Saturating a + b. @pre both are at most kMax.
constexpr std::int64_t plus(std::int64_t a, std::int64_t b) { return std::min(kMax, a + b); }

/// Saturating a · b; a negative factor counts as 0.
constexpr std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a <= 0 || b <= 0) return 0;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMax ? kMax : product;
}

/// Product of the dimensions; 1 for a scalar.
constexpr std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n = times(n, dim);
  return n;
}

}  // namespace emplace::capped
