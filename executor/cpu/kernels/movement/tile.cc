#include "executor/cpu/kernels/movement/tile.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {
namespace {

template <class T>
const T& at(const std::byte* memory, std::int64_t offset) {
  return *reinterpret_cast<const T*>(memory + offset);
}
template <class T>
T& at(std::byte* memory, std::int64_t offset) {
  return *reinterpret_cast<T*>(memory + offset);
}

/// Target row c (8 floats) is source column c: 8 source rows become 8 target columns.
void transpose_8x8(const std::byte* source, std::int64_t source_stride, std::byte* target,
                   std::int64_t target_stride) {
  __m256 row[8], pair[8], quad[8];
  for (int i = 0; i < 8; ++i) row[i] = _mm256_loadu_ps(&at<float>(source, i * source_stride));
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(&at<float>(target, i * target_stride),
                     _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
    _mm256_storeu_ps(&at<float>(target, (i + 4) * target_stride),
                     _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
  }
}

template <class T>
void copy_strided(const std::byte* source, std::int64_t row_stride, std::int64_t column_stride,
                  std::int64_t rows, std::int64_t columns, std::byte* target, std::int64_t target_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* to = &at<T>(target, r * target_stride);
    const std::byte* from = source + r * row_stride;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = at<T>(from, c * column_stride);
  }
}

template <class T>
void copy(const std::byte* source, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
          std::int64_t columns, std::byte* target, std::int64_t target_stride) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  if (columns == 1) {
    for (std::int64_t r = 0; r < rows; ++r) at<T>(target, r * target_stride) = at<T>(source, r * row_stride);
    return;
  }
  if (column_stride == kSize) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(target + r * target_stride, source + r * row_stride,
                  static_cast<std::size_t>(columns) * sizeof(T));
    }
    return;
  }
  if (column_stride == 0) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill_n(&at<T>(target, r * target_stride), columns, at<T>(source, r * row_stride));
    }
    return;
  }
  std::int64_t done_rows = 0, done_columns = 0;
  if constexpr (sizeof(T) == 4) {
    if (row_stride == kSize) {  // Source rows are contiguous along target columns.
      done_rows = rows / 8 * 8;
      done_columns = columns / 8 * 8;
      // A cache line of the source holds 16 elements: both halves are used while it is cached.
      for (std::int64_t c = 0; c < done_columns; c += 8) {
        for (std::int64_t r = 0; r < done_rows; r += 8) {
          transpose_8x8(source + c * column_stride + r * kSize, column_stride,
                        target + r * target_stride + c * kSize, target_stride);
        }
      }
    }
  }
  copy_strided<T>(source + done_columns * column_stride, row_stride, column_stride, done_rows,
                  columns - done_columns, target + done_columns * kSize, target_stride);
  copy_strided<T>(source + done_rows * row_stride, row_stride, column_stride, rows - done_rows, columns,
                  target + done_rows * target_stride, target_stride);
}

template <class From, class To>
void convert(const std::byte* source, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
             std::int64_t columns, std::byte* target, std::int64_t target_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    To* to = &at<To>(target, r * target_stride);
    const std::byte* from = source + r * row_stride;
    if (column_stride == static_cast<std::int64_t>(sizeof(From))) {
      const From* packed = &at<From>(from, 0);
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): the elements of i8 are numbers.
      for (std::int64_t c = 0; c < columns; ++c) to[c] = static_cast<To>(packed[c]);
    } else {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): the elements of i8 are numbers.
      for (std::int64_t c = 0; c < columns; ++c) to[c] = static_cast<To>(at<From>(from, c * column_stride));
    }
  }
}

/// As visit_dtype(), for all dtypes but f16 and bf16; booleans are bytes.
template <class Value, class Visit>
Value visit_element(DType dtype, Value otherwise, Visit visit) {
  if (dtype == DType::kU8 || dtype == DType::kBool) return visit(std::uint8_t{});
  if (dtype == DType::kI8) return visit(std::int8_t{});
  if (dtype == DType::kI16) return visit(std::int16_t{});
  return visit_dtype<float, double, std::int64_t, std::int32_t>(dtype, otherwise, visit);
}

}  // namespace

LoadTile copy_tile(std::int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy<std::uint8_t>;
    case 2:
      return copy<std::uint16_t>;
    case 4:
      return copy<std::uint32_t>;
    default:
      return copy<std::uint64_t>;
  }
}

LoadTile convert_tile(DType from, DType to) {
  return visit_dtype<float, double, std::int64_t, std::int32_t>(to, LoadTile{}, [&]<class To>(To) {
    if (from == to) return copy_tile(element_bytes(to));
    return visit_element(from, LoadTile{}, []<class From>(From) -> LoadTile { return convert<From, To>; });
  });
}

std::uint64_t scalar_bits(DType dtype, double value) {
  if (dtype == DType::kBool) value = value != 0 ? 1 : 0;
  return visit_element(dtype, std::uint64_t{0}, [&]<class T>(T) {
    T typed = static_cast<T>(value);
    if constexpr (std::is_same_v<T, std::int64_t>) {
      typed = static_cast<T>(std::clamp(value, -9.2e18, 9.2e18));
    } else if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      typed = static_cast<T>(
          std::clamp(value, static_cast<double>(Limits::min()), static_cast<double>(Limits::max())));
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, &typed, sizeof typed);
    return bits;
  });
}

}  // namespace emplace::cpu
