#pragma once
/// Compute-bound elementwise forms. Each including file gets its own copy for its instruction set.

#include "executor/cpu/kernels/elementwise/approximations.h"
#include "executor/cpu/kernels/elementwise/elementwise_form.h"

namespace emplace::cpu {

/// The rows of a form, given its first type, for float32 on machines with AVX-512; results are bit-identical
/// to AVX2 (tested). Null for memory-bound types and on other machines.
const RowSet* wide_rows(std::string_view type);

struct WideForm {
  const char* type;  ///< The first one of the form.
  const RowSet* rows;
};
namespace detail {
extern const WideForm* const kWideForms;
extern const std::size_t kNumWideForms;
}  // namespace detail

namespace {
namespace math {

// Variable of the body: `x`, of type T.
#define EMPLACE_MATH(Name, body)                                \
  struct Name : ForFloats {                                     \
    template <class T>                                          \
    [[gnu::always_inline]] static T of(T x, T /*p*/, T /*q*/) { \
      return body;                                              \
    }                                                           \
  };
EMPLACE_MATH(Sigmoid, sigmoid_of(x))
EMPLACE_MATH(Tanh, tanh_of(x))
EMPLACE_MATH(Erf, erf_of(x))
EMPLACE_MATH(Exp, exp_of(x))
EMPLACE_MATH(Gelu, T(0.5) * x * (T{1} + erf_of(x * T(0.70710678118654752))))
EMPLACE_MATH(GeluTanh, T(0.5) * x * (T{1} + tanh_of(T(0.79788456080286536) * (x + T(0.044715) * x * x * x))))
EMPLACE_MATH(Silu, x* sigmoid_of(x))
#undef EMPLACE_MATH

// Variables of the body: the gradient `g`, the form's input `x`, and its scalar `p`, of type T.
#define EMPLACE_MATH(Name, body)                                                  \
  struct Name : ForFloats {                                                       \
    template <class T>                                                            \
    [[gnu::always_inline]] static T of(T g, T x, [[maybe_unused]] T p, T /*q*/) { \
      return body;                                                                \
    }                                                                             \
  };
EMPLACE_MATH(GeluBackward, g*(T(0.5) * (T{1} + erf_of(x * T(0.70710678118654752))) +
                              x * T(0.39894228040143268) * exp_of(T(-0.5) * x * x)))
EMPLACE_MATH(EluBackward, x > T{0} ? g : g * p * exp_of(x))
EMPLACE_MATH(SoftplusBackward, g* sigmoid_of(x))

template <class T>
[[gnu::always_inline]] inline T silu_slope(T x) {
  const T s = sigmoid_of(x);
  return s * (T{1} + x * (T{1} - s));
}
EMPLACE_MATH(SiluBackward, g* silu_slope(x))

template <class T>
[[gnu::always_inline]] inline T gelu_tanh_slope(T x) {
  const T scale = T(0.79788456080286536), cube = T(0.044715);
  const T t = tanh_of(scale * (x + cube * x * x * x));
  return T(0.5) * (T{1} + t) + T(0.5) * x * (T{1} - t * t) * scale * (T{1} + T{3} * cube * x * x);
}
EMPLACE_MATH(GeluTanhBackward, g* gelu_tanh_slope(x))
#undef EMPLACE_MATH

}  // namespace math
}  // namespace
}  // namespace emplace::cpu
