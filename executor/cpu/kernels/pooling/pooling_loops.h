#pragma once
/// Pooling over planes as plain loops over rows of positions, which the compiler vectorises. Covers the
/// cases that oneDNN lacks: maxima with indices in the plane (oneDNN has indices in the window), windows
/// whose divisor is not their size, adaptive pooling, f64.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace emplace::cpu::pooling {

/// Geometry of the windows along one dimension.
struct Axis {
  std::int64_t source = 0, target = 0;  ///< Extents of source and target.
  std::int64_t taps = 1, stride = 1, pad = 0, dilation = 1;
  /// How far a window may extend beyond the source and still count towards the divisor.
  std::int64_t pad_end = 0;

  std::int64_t place(std::int64_t position, std::int64_t tap) const {
    return position * stride - pad + tap * dilation;
  }
  /// Number of elements of the window at `position`, without or with padding.
  std::int64_t counted(std::int64_t position, bool with_padding) const {
    const std::int64_t from = place(position, 0), to = std::min(from + taps, source + pad_end);
    return with_padding ? to - from : std::min(to, source) - std::max<std::int64_t>(from, 0);
  }
};

/// Geometry of planes: [planes, height.source, width.source] → [planes, height.target, width.target].
struct Shape {
  std::int64_t planes = 0;
  Axis height, width;

  /// Cached results of divisions, which cost more than the work on a row.
  struct Range {
    std::int64_t first = 0, last = 0;  ///< Positions [first, last) whose tap is inside the source.
  };
  std::vector<Range> in_row;             ///< [width.taps] Range of each tap.
  std::vector<std::int32_t> begins;      ///< [width.target] First source element of each window.
  std::vector<std::int64_t> row_begins;  ///< [height.target] First source row of each window.

  std::int64_t source_plane() const { return height.source * width.source; }
  std::int64_t target_plane() const { return height.target * width.target; }

  /// Fills the lists. @pre Every window overlaps the source.
  void settle() {
    const auto begin = [](const Axis& axis, std::int64_t position) {
      const std::int64_t outside = -axis.place(position, 0);
      const std::int64_t skipped = outside <= 0 ? 0 : (outside + axis.dilation - 1) / axis.dilation;
      return axis.place(position, skipped);
    };
    for (std::int64_t tap = 0; tap < width.taps; ++tap) {
      const std::int64_t before = width.pad - tap * width.dilation, room = width.source - 1 + before;
      const std::int64_t first = before <= 0 ? 0 : (before + width.stride - 1) / width.stride;
      in_row.push_back({first, room < 0 ? 0 : std::min(width.target, room / width.stride + 1)});
    }
    for (std::int64_t x = 0; x < width.target; ++x) {
      begins.push_back(static_cast<std::int32_t>(begin(width, x)));
    }
    for (std::int64_t y = 0; y < height.target; ++y) row_begins.push_back(begin(height, y));
  }
};

/// Calls visit(position, index in the row) for the positions of one tap; usual strides are compile-time
/// constants.
template <class Visit>
inline void each_position(const Shape& shape, std::int64_t tap, Visit visit) {
  const auto [first, last] = shape.in_row[static_cast<std::size_t>(tap)];
  const std::int64_t stride = shape.width.stride, offset = tap * shape.width.dilation - shape.width.pad;
  const auto run = [first = first, last = last, offset, visit](auto by) {
    for (std::int64_t x = first; x < last; ++x) visit(x, x * by + offset);
  };
  if (stride == 1) return run(std::integral_constant<std::int64_t, 1>{});
  if (stride == 2) return run(std::integral_constant<std::int64_t, 2>{});
  run(stride);
}

/// Calls visit(source row, tap in the row) for the taps of the windows at row y.
template <class Visit>
inline void each_tap(const Shape& shape, std::int64_t y, Visit visit) {
  for (std::int64_t ky = 0; ky < shape.height.taps; ++ky) {
    const std::int64_t sy = shape.height.place(y, ky);
    if (sy < 0 || sy >= shape.height.source) continue;
    for (std::int64_t kx = 0; kx < shape.width.taps; ++kx) visit(sy, kx);
  }
}

/// Maxima of one plane; of equal elements the first wins, of NaNs the last. `indices` (or null) receives
/// their indices in the plane; `places` is scratch for one row of indices.
template <class T>
void max_plane(const Shape& shape, const T* source, T* target, std::int64_t* indices, std::int32_t* places) {
  const Axis &height = shape.height, &width = shape.width;
  for (std::int64_t y = 0; y < height.target; ++y) {
    T* best = target + y * width.target;
    std::fill_n(best, width.target, -std::numeric_limits<T>::infinity());
    if (indices != nullptr) {
      const auto row =
          static_cast<std::int32_t>(shape.row_begins[static_cast<std::size_t>(y)] * width.source);
      for (std::int64_t x = 0; x < width.target; ++x) {
        places[x] = row + shape.begins[static_cast<std::size_t>(x)];
      }
    }
    each_tap(shape, y, [&](std::int64_t sy, std::int64_t kx) {
      const T* row = source + sy * width.source;
      const auto start = static_cast<std::int32_t>(sy * width.source);
      if (indices == nullptr) {
        each_position(shape, kx, [=](std::int64_t x, std::int64_t sx) {
          const T value = row[sx];
          best[x] = ((value > best[x]) | (value != value)) ? value : best[x];
        });
      } else {
        each_position(shape, kx, [=](std::int64_t x, std::int64_t sx) {
          const T value = row[sx], old = best[x];
          const bool takes = (value > old) | (value != value);
          best[x] = takes ? value : old;
          places[x] = takes ? start + static_cast<std::int32_t>(sx) : places[x];
        });
      }
    });
    if (indices != nullptr) std::copy_n(places, width.target, indices + y * width.target);
  }
}

/// Adds each gradient at the index of its maximum. `source` is zeroed first.
template <class T>
void max_plane_backward(const Shape& shape, const T* target, const std::int64_t* indices, T* source) {
  std::fill_n(source, shape.source_plane(), T{0});
  for (std::int64_t i = 0; i < shape.target_plane(); ++i) source[indices[i]] += target[i];
}

/// Sums of windows over their divisors `rows[y] · columns[x]`.
template <class T>
void mean_plane(const Shape& shape, const T* source, T* target, const T* rows, const T* columns) {
  const Axis &height = shape.height, &width = shape.width;
  for (std::int64_t y = 0; y < height.target; ++y) {
    T* sum = target + y * width.target;
    std::fill_n(sum, width.target, T{0});
    each_tap(shape, y, [&](std::int64_t sy, std::int64_t kx) {
      const T* row = source + sy * width.source;
      each_position(shape, kx, [=](std::int64_t x, std::int64_t sx) { sum[x] += row[sx]; });
    });
    for (std::int64_t x = 0; x < width.target; ++x) sum[x] /= rows[y] * columns[x];
  }
}

/// `shares`: scratch for one row of positions.
template <class T>
void mean_plane_backward(const Shape& shape, const T* target, T* source, const T* rows, const T* columns,
                         T* shares) {
  const Axis &height = shape.height, &width = shape.width;
  std::fill_n(source, shape.source_plane(), T{0});
  for (std::int64_t y = 0; y < height.target; ++y) {
    const T* gradient = target + y * width.target;
    for (std::int64_t x = 0; x < width.target; ++x) shares[x] = gradient[x] / (rows[y] * columns[x]);
    each_tap(shape, y, [&](std::int64_t sy, std::int64_t kx) {
      T* row = source + sy * width.source;
      each_position(shape, kx, [=](std::int64_t x, std::int64_t sx) { row[sx] += shares[x]; });
    });
  }
}

/// Start and end of an adaptive window: position p covers [p · source / target, (p + 1) · source / target),
/// rounded outwards.
inline std::int64_t even_begin(const Axis& axis, std::int64_t p) { return p * axis.source / axis.target; }
inline std::int64_t even_end(const Axis& axis, std::int64_t p) {
  return ((p + 1) * axis.source + axis.target - 1) / axis.target;
}

/// Sum of a row in eight partial sums that vectorise.
template <class T>
T row_sum(const T* row, std::int64_t count) {
  T parts[8] = {}, sum = 0;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t k = 0; k < 8; ++k) parts[k] += row[i + k];
  }
  for (; i < count; ++i) sum += row[i];
  for (const T part : parts) sum += part;
  return sum;
}

template <class T>
void even_plane(const Shape& shape, const T* source, T* target) {
  const Axis &height = shape.height, &width = shape.width;
  for (std::int64_t y = 0; y < height.target; ++y) {
    const std::int64_t y0 = even_begin(height, y), y1 = even_end(height, y);
    for (std::int64_t x = 0; x < width.target; ++x) {
      const std::int64_t x0 = even_begin(width, x), x1 = even_end(width, x);
      T sum = 0;
      if (x1 - x0 == width.source) {
        sum = row_sum(source + y0 * width.source, (y1 - y0) * width.source);
      } else {
        for (std::int64_t sy = y0; sy < y1; ++sy) {
          for (std::int64_t sx = x0; sx < x1; ++sx) sum += source[sy * width.source + sx];
        }
      }
      target[y * width.target + x] = sum / static_cast<T>((y1 - y0) * (x1 - x0));
    }
  }
}

template <class T>
void even_plane_backward(const Shape& shape, const T* target, T* source) {
  const Axis &height = shape.height, &width = shape.width;
  std::fill_n(source, shape.source_plane(), T{0});
  for (std::int64_t y = 0; y < height.target; ++y) {
    const std::int64_t y0 = even_begin(height, y), y1 = even_end(height, y);
    for (std::int64_t x = 0; x < width.target; ++x) {
      const std::int64_t x0 = even_begin(width, x), x1 = even_end(width, x);
      const T share = target[y * width.target + x] / static_cast<T>((y1 - y0) * (x1 - x0));
      for (std::int64_t sy = y0; sy < y1; ++sy) {
        for (std::int64_t sx = x0; sx < x1; ++sx) source[sy * width.source + sx] += share;
      }
    }
  }
}

}  // namespace emplace::cpu::pooling
