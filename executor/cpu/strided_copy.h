#pragma once
/// A view's elements into a packed tensor: what a kernel does with inputs that its fast path does not take.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// Immutable; run() from any thread.
class StridedCopy {
 public:
  explicit StridedCopy(const Operand& source);
  std::size_t bytes() const { return bytes_; }  ///< Of the packed tensor.
  /// `source` points to element (0, 0, …); `target` has bytes() bytes.
  void run(const std::byte* source, std::byte* target) const;

 private:
  struct Loop {
    std::int64_t count = 1, stride = 0;  ///< [elements] in the source
  };
  std::vector<Loop> loops_;  // Outermost first; neighbours that lie behind one another are one loop.
  std::size_t element_bytes_ = 0, bytes_ = 0;
};

}  // namespace emplace::cpu
