#include "executor/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace emplace::cpu {
namespace {

/// Copies one row: `count` elements with distance `stride`.
template <class T>
void copy_row(const T* source, T* target, std::int64_t count, std::int64_t stride) {
  if (stride == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
    return;
  }
  if (stride == 0) {
    std::fill_n(target, count, *source);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * stride];
}

/// Copies the last two loops in square tiles that fit the cache. Column by column, a transposed matrix
/// would miss the cache on every element.
template <class T>
void copy_rows(const T* source, T* target, std::int64_t rows, std::int64_t row_stride, std::int64_t count,
               std::int64_t stride) {
  constexpr std::int64_t kSquare = 16;
  if (stride <= 1 || row_stride > stride) {
    for (std::int64_t r = 0; r < rows; ++r)
      copy_row(source + r * row_stride, target + r * count, count, stride);
    return;
  }
  for (std::int64_t r0 = 0; r0 < rows; r0 += kSquare) {
    const std::int64_t r1 = std::min(rows, r0 + kSquare);
    for (std::int64_t c0 = 0; c0 < count; c0 += kSquare) {
      const std::int64_t c1 = std::min(count, c0 + kSquare);
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) target[r * count + c] = source[r * row_stride + c * stride];
      }
    }
  }
}

template <class T>
struct Walk {
  template <class Loops>
  static T* run(const Loops& loops, std::size_t depth, const T* source, T* target) {
    const auto& outer = loops[depth];
    if (depth + 2 == loops.size()) {
      const auto& inner = loops[depth + 1];
      copy_rows(source, target, outer.count, outer.stride, inner.count, inner.stride);
      return target + outer.count * inner.count;
    }
    for (std::int64_t i = 0; i < outer.count; ++i) {
      target = run(loops, depth + 1, source + i * outer.stride, target);
    }
    return target;
  }
};

}  // namespace

StridedCopy::StridedCopy(const Operand& source)
    : element_bytes_{static_cast<std::size_t>(emplace::element_bytes(source.dtype))},
      bytes_{static_cast<std::size_t>(source.elements()) * element_bytes_} {
  for (std::size_t d = 0; d < source.shape.size(); ++d) {
    if (source.shape[d] == 1) continue;
    const Loop next{source.shape[d], source.strides[d]};
    if (!loops_.empty() && loops_.back().stride == next.count * next.stride) {
      loops_.back() = Loop{loops_.back().count * next.count, next.stride};
    } else {
      loops_.push_back(next);
    }
  }
  while (loops_.size() < 2) loops_.insert(loops_.begin(), Loop{});
}

void StridedCopy::run(const std::byte* source, std::byte* target) const {
  if (bytes_ == 0) return;
  const auto walk = [&]<class T>(T) {
    Walk<T>::run(loops_, 0, reinterpret_cast<const T*>(source), reinterpret_cast<T*>(target));
  };
  switch (element_bytes_) {
    case 1:
      return walk(std::uint8_t{});
    case 2:
      return walk(std::uint16_t{});
    case 4:
      return walk(std::uint32_t{});
    case 8:
      return walk(std::uint64_t{});
    default:
      EMPLACE_CHECK(false, "unknown element size");
  }
}

}  // namespace emplace::cpu
