#pragma once
/// Branch-free exp, tanh, sigmoid and erf for float32, so that loops over them vectorise; the standard
/// library for float64. Always inlined: files with two instruction sets include them, and code of the wider
/// set must not be callable from the other. The relative error is at most 3e-7 for normal results (tested
/// over the whole range). NaN stays NaN.

#include <cmath>
#include <cstdint>

namespace emplace::cpu {

/// Horner's rule with fused steps: c0 + c1 x + c2 x² + …
template <class... Rest>
[[gnu::always_inline]] inline float polynomial(float x, float c0, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return c0;
  } else {
    return __builtin_fmaf(x, polynomial(x, rest...), c0);
  }
}

/// 2^k for k in [-126, 127].
[[gnu::always_inline]] inline float power_of_two(std::uint32_t k) {
  return __builtin_bit_cast(float, (k + 127u) << 23);
}

inline double exp_of(double x) { return std::exp(x); }
[[gnu::always_inline]] inline float exp_of(float x) {
  x = x > 89.0f ? 89.0f : x;  // Outside both ends the result is infinity or 0.
  x = x < -104.0f ? -104.0f : x;
  constexpr float kShift = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer in the low bits.
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  float r = __builtin_fmaf(n, -0.693359375f, x);  // ln 2 in two parts; the first is exact in few bits.
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  const float p = polynomial(r, 1.0f, 1.0f, 0.5f, 0.166666654f, 0.0416665961f, 8.33345205e-3f, 1.39819994e-3f,
                             1.98756917e-4f);
  const std::uint32_t k = __builtin_bit_cast(std::uint32_t, shifted) - 0x4B400000u;
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(k) >> 1);
  return p * power_of_two(half) * power_of_two(k - half);  // Two factors, to reach denormals and infinity.
}

inline double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
[[gnu::always_inline]] inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

inline double tanh_of(double x) { return std::tanh(x); }
[[gnu::always_inline]] inline float tanh_of(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  const float small = __builtin_fmaf(
      a * z, polynomial(z, -0.333332819f, 0.133314422f, -0.0537397155f, 0.0206390887f, -5.70498872e-3f), a);
  const float large = 1.0f - 2.0f / (exp_of(a + a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}

inline double erf_of(double x) { return std::erf(x); }
[[gnu::always_inline]] inline float erf_of(float x) {
  float a = __builtin_fabsf(x);
  a = a > 4.0f ? 4.0f : a;  // Larger arguments round to 1.
  // Chebyshev fits of erf(√z)/√z on [0, 1] and of ln erfc on [1, 4], as power series.
  const float small = a * polynomial(a * a, 1.128379166f, -0.3761262690f, 0.1128359746f, -2.685432880e-2f,
                                     5.189311943e-3f, -8.018854998e-4f, 7.882497127e-5f);
  const float large = 1.0f - exp_of(polynomial(a, 3.032130236e-4f, -1.130166676f, -0.6319370933f,
                                               -0.1099782454f, 2.636471752e-2f, -4.740222395e-3f,
                                               5.927695488e-4f, -4.559062370e-5f, 1.614061664e-6f));
  return __builtin_copysignf(a < 1.0f ? small : large, x);
}

}  // namespace emplace::cpu
