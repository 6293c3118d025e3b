#pragma once
/// Sums and other reductions over dimensions. The order of additions depends on the shapes alone: parts of
/// at most a few hundred additions in the element type, in lanes; then the parts are added in double.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/ivdep.h"
#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/movement/strided_loop.h"
#include "executor/cpu/kernels/movement/tile.h"

namespace emplace::cpu::reduction {

/// A vector of 32 bytes of T; arithmetic and selections work per lane.
template <class T>
struct LanesOf {
  typedef T type __attribute__((vector_size(32), aligned(1), may_alias));
};

// lift: converts an element to a part; join: combines two parts; start: the neutral part. For T and for
// lanes of T.
struct Sum {
  template <class V>
  static V lift(V x) {
    return x;
  }
  template <class V>
  static V join(V a, V b) {
    return a + b;
  }
  template <class T>
  static constexpr T start() {
    return T{0};
  }
};
struct SumOfSquares : Sum {
  template <class V>
  static V lift(V x) {
    return x * x;
  }
};
struct SumOfSizes : Sum {
  template <class V>
  static V lift(V x) {
    return x < 0 ? -x : x;
  }
};
struct Product : Sum {
  template <class V>
  static V join(V a, V b) {
    return a * b;
  }
  template <class T>
  static constexpr T start() {
    return T{1};
  }
};
/// NaN compares as the largest.
struct Largest : Sum {
  template <class V>
  static V join(V a, V b) {
    return a != a ? a : (a > b ? a : b);
  }
  template <class T>
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
};
struct Smallest : Sum {
  template <class V>
  static V join(V a, V b) {
    return a != a ? a : (a < b ? a : b);
  }
  template <class T>
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::max();
  }
};

enum class Finish : std::uint8_t { kNone, kMean, kRoot };

inline constexpr std::int64_t kPart = 4096;     ///< Elements of a row per part.
inline constexpr std::int64_t kColumns = 2048;  ///< Columns added side by side.
inline constexpr int kRowsOfPart = 64;          ///< Rows per part.

/// Iteration of a reduction: kept and reduced dimensions, each with the input's strides.
struct Walk {
  StridedLoop kept;     // Operand 0 is the output, 1 the input.
  StridedLoop reduced;  // Operand 0 is the input.
  bool inner_is_reduced = false;
  std::int64_t inner_stride = 0;  ///< Input stride of the innermost dimension [B].
  LoadTile load = nullptr;        ///< Packs a row that is strided or of another dtype.
  Finish finish = Finish::kNone;
  double count = 1;  ///< Elements per output.
};

template <class Op, class T>
class ReductionKernel final : public Kernel {
 public:
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
  using Lanes = typename LanesOf<T>::type;
  static constexpr std::int64_t kLanes = 32 / sizeof(T);

  explicit ReductionKernel(const Walk& walk) : walk_{walk} {}

  std::size_t scratch_bytes() const override {
    return in_memory_order() ? static_cast<std::size_t>(walk_.kept.elements()) * sizeof(Total) : 0;
  }

  void run(const Pointers& memory) const override {
    const std::byte* const in = memory.inputs[0];
    std::byte* const out = memory.outputs[0];
    if (walk_.kept.elements() == 0) return;
    if (in_memory_order()) {
      run_in_memory_order(in, out, memory.scratch_at<Total>(0));
    } else if (walk_.inner_is_reduced) {
      run_rows(in, out);
    } else {
      run_columns(in, out);
    }
  }

 private:
  T finish(Total total) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (walk_.finish == Finish::kMean) total /= walk_.count;
      if (walk_.finish == Finish::kRoot) total = std::sqrt(total);
    }
    return static_cast<T>(total);
  }

  /// Returns `count` input elements along the innermost dimension as packed memory: in place, or packed
  /// into `room`.
  const T* packed(const std::byte* from, std::int64_t count, std::byte* room) const {
    if (walk_.load == nullptr) return reinterpret_cast<const T*>(from);
    walk_.load(from, 0, walk_.inner_stride, 1, count, room, 0);
    return reinterpret_cast<const T*>(room);
  }

  /// Reduces at most kPart elements.
  static T part_of_row(const T* x, std::int64_t n) {
    T part = Op::template start<T>();
    std::int64_t i = 0;
    if (n >= 4 * kLanes) {
      const auto at = [x](std::int64_t k) { return Op::lift(*reinterpret_cast<const Lanes*>(x + k)); };
      Lanes a = at(0), b = at(kLanes), c = at(2 * kLanes), d = at(3 * kLanes);
      for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
        a = Op::join(a, at(i));
        b = Op::join(b, at(i + kLanes));
        c = Op::join(c, at(i + 2 * kLanes));
        d = Op::join(d, at(i + 3 * kLanes));
      }
      a = Op::join(Op::join(a, b), Op::join(c, d));
      for (std::int64_t k = 0; k < kLanes; ++k) part = Op::join(part, static_cast<T>(a[k]));
    }
    for (; i < n; ++i) part = Op::join(part, Op::lift(x[i]));
    return part;
  }

  /// Reduces `n` elements from `from` on.
  Total total_of_row(const std::byte* from, std::int64_t n, Total total, std::byte* room) const {
    for (std::int64_t i = 0; i < n; i += kPart) {
      const std::int64_t count = std::min(kPart, n - i);
      const T part = part_of_row(packed(from + i * walk_.inner_stride, count, room), count);
      total = Op::join(total, static_cast<Total>(part));
    }
    return total;
  }

  /// True if several rows make an output and rows of other outputs are between them (sums over samples and
  /// pixels).
  bool in_memory_order() const {
    return walk_.inner_is_reduced && walk_.reduced.rows() > 1 && walk_.kept.elements() > 1;
  }

  /// Computes all totals at once, with the same additions in the same order as output by output.
  void run_in_memory_order(const std::byte* in, std::byte* out, Total* totals) const {
    alignas(64) std::byte room[kPart * sizeof(T)];
    const std::int64_t outputs = walk_.kept.elements(), rows = walk_.reduced.rows(),
                       n = walk_.reduced.inner();
    std::fill_n(totals, outputs, Op::template start<Total>());
    Odometer<1> row{walk_.reduced, walk_.reduced.dims - 1};
    for (std::int64_t r = 0; r < rows; ++r, row.step()) {
      Odometer<2> kept{walk_.kept, walk_.kept.dims};
      for (std::int64_t o = 0; o < outputs; ++o, kept.step()) {
        totals[o] = total_of_row(in + kept.offset(1) + row.offset(0), n, totals[o], room);
      }
    }
    Odometer<2> kept{walk_.kept, walk_.kept.dims};
    for (std::int64_t o = 0; o < outputs; ++o, kept.step()) {
      *reinterpret_cast<T*>(out + kept.offset(0)) = finish(totals[o]);
    }
  }

  void run_rows(const std::byte* in, std::byte* out) const {
    alignas(64) std::byte room[kPart * sizeof(T)];
    const std::int64_t outputs = walk_.kept.elements(), rows = walk_.reduced.rows(),
                       n = walk_.reduced.inner();
    Odometer<2> kept{walk_.kept, walk_.kept.dims};
    for (std::int64_t o = 0; o < outputs; ++o, kept.step()) {
      Total total = Op::template start<Total>();
      Odometer<1> row{walk_.reduced, walk_.reduced.dims - 1};
      for (std::int64_t r = 0; r < rows; ++r, row.step()) {
        total = total_of_row(in + kept.offset(1) + row.offset(0), n, total, room);
      }
      *reinterpret_cast<T*>(out + kept.offset(0)) = finish(total);
    }
  }

  static void join_row(T* part, const T* x, std::int64_t n) {
    EMPLACE_IVDEP
    for (std::int64_t c = 0; c < n; ++c) part[c] = Op::join(part[c], Op::lift(x[c]));
  }
  static void join_rows(T* part, const T* const* x, std::int64_t n) {
    const T *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    EMPLACE_IVDEP
    for (std::int64_t i = 0; i < n; ++i) {
      part[i] = Op::join(part[i], Op::join(Op::join(Op::lift(a[i]), Op::lift(b[i])),
                                           Op::join(Op::lift(c[i]), Op::lift(d[i]))));
    }
  }

  void run_columns(const std::byte* in, std::byte* out) const {
    alignas(64) std::byte room[kColumns * sizeof(T)];
    alignas(64) T part[kColumns];
    alignas(64) Total total[kColumns];
    const StridedLoop& kept = walk_.kept;
    const std::int64_t outer = kept.rows(), columns = kept.inner(), rows = walk_.reduced.elements();
    const std::int64_t out_stride = kept.inner_stride(0);
    Odometer<2> at{kept, kept.dims - 1};
    for (std::int64_t o = 0; o < outer; ++o, at.step()) {
      for (std::int64_t c0 = 0; c0 < columns; c0 += kColumns) {
        const std::int64_t n = std::min(kColumns, columns - c0);
        std::fill_n(total, n, Op::template start<Total>());
        Odometer<1> row{walk_.reduced, walk_.reduced.dims};
        for (std::int64_t r = 0; r < rows;) {
          std::fill_n(part, n, Op::template start<T>());
          const std::int64_t end = std::min<std::int64_t>(rows, r + kRowsOfPart);
          while (r < end) {
            const T* x[4];
            int ready = 0;
            const int at_once = walk_.load == nullptr ? 4 : 1;  // Packing has space for one row only.
            for (; r < end && ready < at_once; ++r, row.step()) {
              x[ready++] = packed(in + at.offset(1) + c0 * walk_.inner_stride + row.offset(0), n, room);
            }
            if (ready == 4) {
              join_rows(part, x, n);
            } else {
              for (int k = 0; k < ready; ++k) join_row(part, x[k], n);
            }
          }
          for (std::int64_t c = 0; c < n; ++c) total[c] = Op::join(total[c], static_cast<Total>(part[c]));
        }
        std::byte* to = out + at.offset(0) + c0 * out_stride;
        for (std::int64_t c = 0; c < n; ++c) *reinterpret_cast<T*>(to + c * out_stride) = finish(total[c]);
      }
    }
  }

  Walk walk_;
};

}  // namespace emplace::cpu::reduction
