#pragma once
/// What state holds before a step: numbers that depend on the seed and the op alone, so that every placement
/// of a graph computes with the same ones.

#include <cstddef>
#include <cstdint>

#include "graph/lowering.h"

namespace emplace {

/// Element i is made from u = uniform[0, 1) with 24 bits: the top bits of
///   splitmix64(splitmix64(seed << 32 | op) + i)
/// Floating point: Parameter of two or more dimensions (2u - 1) / sqrt(elements / first dimension); Parameter
/// of fewer (2u - 1) / 2 + 1 for a name ending in "weight", (2u - 1) / 10 else; Buffer 0.5 + u;
/// OptimizerState u / 1000; a Constant of one element 2; all else 2u - 1. Integers: floor(u · bound), where
/// bound is the number of rows or classes that the first reader indexes, else 2. Bool and u8: u >= 0.5.
class InitialValues {
 public:
  InitialValues(const LoweredGraph& lowered, std::uint64_t seed) : lowered_{lowered}, seed_{seed} {}
  /// Fills what a buffer of state holds, the first output of its op as above, others with zeros. @pre
  /// `memory` has the buffer's bytes. Pure; any thread.
  void fill(BufferId buffer, std::byte* memory) const;

 private:
  std::int64_t index_bound(OpId op) const;

  const LoweredGraph& lowered_;
  const std::uint64_t seed_;
};

}  // namespace emplace
