#pragma once
/// Arithmetic without denormal numbers, which take many times as long as others.

#include <xmmintrin.h>

namespace emplace {

/// While it exists, arithmetic of its thread takes denormal numbers for 0, as operands and as results.
/// Thread: that which made it. x86 alone.
class FlushDenormals {
 public:
  FlushDenormals() : before_{_mm_getcsr()} { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
};

}  // namespace emplace
