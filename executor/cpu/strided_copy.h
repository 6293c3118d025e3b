#pragma once
/// Packs the elements of a view, for kernels whose fast path needs packed inputs.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// Immutable. run(): any thread.
class StridedCopy {
 public:
  explicit StridedCopy(const Operand& source);
  std::size_t bytes() const { return bytes_; }  ///< Size of the packed tensor [B].
  /// `source` points to element (0, 0, …); `target` has bytes() bytes.
  void run(const std::byte* source, std::byte* target) const;

 private:
  struct Loop {
    std::int64_t count = 1, stride = 0;  ///< Count and stride in the source [elements].
  };
  std::vector<Loop> loops_;  // Outermost first; contiguous loops are merged.
  std::size_t element_bytes_ = 0, bytes_ = 0;
};

}  // namespace emplace::cpu
