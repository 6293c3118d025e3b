#include "executor/cpu/kernels/movement/tile.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

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

template <class To>
LoadTile convert_to(DType from) {
  switch (from) {
    case DType::kF32:
      return convert<float, To>;
    case DType::kF64:
      return convert<double, To>;
    case DType::kI64:
      return convert<std::int64_t, To>;
    case DType::kI32:
      return convert<std::int32_t, To>;
    case DType::kI16:
      return convert<std::int16_t, To>;
    case DType::kI8:
      return convert<std::int8_t, To>;
    case DType::kU8:
    case DType::kBool:
      return convert<std::uint8_t, To>;
    default:
      return nullptr;
  }
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
  switch (to) {
    case DType::kF32:
      return from == to ? copy_tile(4) : convert_to<float>(from);
    case DType::kF64:
      return from == to ? copy_tile(8) : convert_to<double>(from);
    case DType::kI64:
      return from == to ? copy_tile(8) : convert_to<std::int64_t>(from);
    case DType::kI32:
      return from == to ? copy_tile(4) : convert_to<std::int32_t>(from);
    default:
      return nullptr;
  }
}

std::uint64_t scalar_bits(DType dtype, double value) {
  std::uint64_t bits = 0;
  const auto put = [&bits](auto typed) { std::memcpy(&bits, &typed, sizeof typed); };
  const auto whole = [value](double low, double high) { return std::clamp(value, low, high); };
  switch (dtype) {
    case DType::kF32:
      put(static_cast<float>(value));
      break;
    case DType::kF64:
      put(value);
      break;
    case DType::kI64:
      put(static_cast<std::int64_t>(whole(-9.2e18, 9.2e18)));
      break;
    case DType::kI32:
      put(static_cast<std::int32_t>(whole(-2147483648.0, 2147483647.0)));
      break;
    case DType::kI16:
      put(static_cast<std::int16_t>(whole(-32768, 32767)));
      break;
    case DType::kI8:
      put(static_cast<std::int8_t>(whole(-128, 127)));
      break;
    case DType::kU8:
      put(static_cast<std::uint8_t>(whole(0, 255)));
      break;
    case DType::kBool:
      put(value != 0);
      break;
    default:
      break;
  }
  return bits;
}

}  // namespace emplace::cpu
