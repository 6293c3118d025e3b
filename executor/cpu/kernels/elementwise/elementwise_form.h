#pragma once
/// Definitions of the elementwise types, as loops over a row.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/ivdep.h"
#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// Processes a row of `n` elements. Operands are packed, or repeat one element if the row variant allows it.
/// `scalars`: [2]. `out` may be one of the operands; otherwise they do not overlap.
using Row = void (*)(std::int64_t n, std::byte* out, const std::byte* const* in, const double* scalars);

/// The row variants of one form and dtype. Index: bit k is set if operand k repeats one element.
struct RowSet {
  Row row[4] = {};  ///< Null: no such variant; the operand is expanded first.
};

/// A scalar attribute and its default.
struct Scalar {
  std::string_view key;  ///< Empty: the operand is required.
  double value = 0;
};

struct ElementwiseForm {
  /// kSame computes in the output's dtype. kCompare computes in the widest input dtype and returns
  /// booleans.
  enum class Kind : std::uint8_t { kSame, kCompare };

  /// Separated by spaces. "type~word": the form for that attribute value, not a type of its own.
  std::string_view types;
  std::size_t operands;
  Kind kind;
  const RowSet* (*rows)(DType compute);  ///< Null for unsupported dtypes.
  Scalar missing[2] = {};                ///< Values of operands 1 and 2 if they are not tensors.
  Scalar scalars[2] = {};

  std::string_view first_type() const { return types.substr(0, types.find(' ')); }
};

std::span<const ElementwiseForm> unary_forms();
std::span<const ElementwiseForm> binary_forms();
std::span<const ElementwiseForm> gradient_forms();  ///< Backward of unary forms.
std::span<const ElementwiseForm> ternary_forms();

template <class Op, class T, class R>
void unary_row(std::int64_t n, std::byte* out, const std::byte* const* in, const double* scalars) {
  const T* a = reinterpret_cast<const T*>(in[0]);
  R* r = reinterpret_cast<R*>(out);
  const T p = static_cast<T>(scalars[0]), q = static_cast<T>(scalars[1]);
  EMPLACE_IVDEP
  for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<R>(Op::of(a[i], p, q));
}

template <class Op, class T, class R, bool RepeatA, bool RepeatB>
void binary_row(std::int64_t n, std::byte* out, const std::byte* const* in, const double* scalars) {
  const T* a = reinterpret_cast<const T*>(in[0]);
  const T* b = reinterpret_cast<const T*>(in[1]);
  R* r = reinterpret_cast<R*>(out);
  const T p = static_cast<T>(scalars[0]), q = static_cast<T>(scalars[1]);
  const T a0 = a[0], b0 = b[0];
  EMPLACE_IVDEP
  for (std::int64_t i = 0; i < n; ++i) {
    r[i] = static_cast<R>(Op::of(RepeatA ? a0 : a[i], RepeatB ? b0 : b[i], p, q));
  }
}

template <class Op, class T>
void ternary_row(std::int64_t n, std::byte* out, const std::byte* const* in, const double* scalars) {
  const T* a = reinterpret_cast<const T*>(in[0]);
  const T* b = reinterpret_cast<const T*>(in[1]);
  const T* c = reinterpret_cast<const T*>(in[2]);
  T* r = reinterpret_cast<T*>(out);
  const T p = static_cast<T>(scalars[0]), q = static_cast<T>(scalars[1]);
  EMPLACE_IVDEP
  for (std::int64_t i = 0; i < n; ++i) r[i] = Op::of(a[i], b[i], c[i], p, q);
}

/// Whether Op supports the dtype, from `Op::kIntegers` and `Op::kFloats`.
template <class Op, class T>
constexpr bool is_for = std::is_floating_point_v<T> ? Op::kFloats : Op::kIntegers;

/// The rows that `make(T{})` returns for the compute dtype; null if Op does not support it.
template <class Op, class Make>
const RowSet* rows_by_dtype(DType compute, Make make) {
  const auto rows = [&]<class T>(T of) -> const RowSet* {
    if constexpr (is_for<Op, T>) {
      return make(of);
    } else {
      return nullptr;
    }
  };
  return visit_dtype<float, double, std::int64_t, std::int32_t>(compute, static_cast<const RowSet*>(nullptr),
                                                                rows);
}

template <class Op, bool Compare = false>
const RowSet* unary_rows(DType compute) {
  return rows_by_dtype<Op>(compute, []<class T>(T) {
    static constexpr RowSet kRows{{unary_row<Op, T, std::conditional_t<Compare, bool, T>>}};
    return &kRows;
  });
}

template <class Op, bool Compare = false>
const RowSet* binary_rows(DType compute) {
  return rows_by_dtype<Op>(compute, []<class T>(T) {
    using R = std::conditional_t<Compare, bool, T>;
    static constexpr RowSet kRows{{binary_row<Op, T, R, false, false>, binary_row<Op, T, R, true, false>,
                                   binary_row<Op, T, R, false, true>}};
    return &kRows;
  });
}

template <class Op>
const RowSet* ternary_rows(DType compute) {
  return rows_by_dtype<Op>(compute, []<class T>(T) {
    static constexpr RowSet kRows{{ternary_row<Op, T>}};
    return &kRows;
  });
}

/// Integer sums and products wrap around.
template <class T>
using Wrapping =
    typename std::conditional_t<std::is_integral_v<T>,
                                std::make_unsigned<std::conditional_t<std::is_integral_v<T>, T, int>>,
                                std::type_identity<T>>::type;
template <class T>
T wrapping_add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
T wrapping_multiply(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <class T>
T wrapping_negate(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  } else {
    return -a;
  }
}

struct ForAll {
  static constexpr bool kIntegers = true, kFloats = true;
};
struct ForFloats {
  static constexpr bool kIntegers = false, kFloats = true;
};
struct ForIntegers {
  static constexpr bool kIntegers = true, kFloats = false;
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace emplace::cpu
