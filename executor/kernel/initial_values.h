#pragma once
/// Initial values of state: numbers that depend only on the seed and the op, so that all placements of a
/// graph compute the same.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "executor/kernel/initial_element.h"
#include "graph/lowering.h"

namespace emplace {

/// Element i is derived from u = uniform[0, 1) with 24 bits: the top bits of
///   splitmix64(splitmix64(seed << 32 | op) + i)
/// Floating point: Parameter with two or more dimensions: (2u - 1) / sqrt(elements / first dimension);
/// Parameter with fewer: (2u - 1) / 2 + 1 for a name ending in "weight", else (2u - 1) / 10; Buffer: 0.5 + u;
/// OptimizerState: u / 1000; Constant with one element: 2; all others: 2u - 1. f16: 0. Integers: floor(u ·
/// bound), where bound is the smallest number of rows or classes that a reader indexes, else 2. Bool, u8 and
/// i8: u >= 0.5.
class InitialValues {
 public:
  /// Writes the first output of a state op and returns true, or returns false. Any thread.
  using Given = std::function<bool(OpId op, std::span<std::byte> memory)>;

  /// @param given  contents that replace those of the seed; null: none.
  InitialValues(const LoweredGraph& lowered, std::uint64_t seed, Given given = nullptr)
      : lowered_{lowered}, seed_{seed}, given_{std::move(given)} {}
  /// Fills a buffer of state: the first output of its op as above, others with zeros. @pre `memory` has the
  /// size of the buffer. Pure; any thread.
  void fill(BufferId buffer, std::byte* memory) const;
  /// Returns how fill() makes the elements of a buffer for which there is no Given.
  InitialFill fill_of(BufferId buffer) const;

 private:
  std::int64_t index_bound(OpId op) const;

  const LoweredGraph& lowered_;
  const std::uint64_t seed_;
  const Given given_;
};

}  // namespace emplace
