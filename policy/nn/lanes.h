#pragma once
/// Sixteen floats, as one AVX-512 register or two AVX2 registers. Only the kernels include this file, in an
/// unnamed namespace, so that no function compiled for a wider machine is linked into the rest. Every
/// operation rounds alike on both, and sums have one fixed order, so the kernels are bit-identical on every
/// machine.

#include <immintrin.h>

namespace {

#if defined(__AVX512F__)

struct Lanes {
  __m512 v;
  static Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Lanes all(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
};
inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// `a` where `gate` is above 0, else 0.
inline Lanes gated(Lanes a, Lanes gate) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate.v, _mm512_setzero_ps(), _CMP_GT_OQ), a.v)};
}
inline Lanes rounded(Lanes a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a · 2^n for whole n. @pre the result is a normal float.
inline Lanes scaled(Lanes a, Lanes n) {
  const __m512i shift = _mm512_slli_epi32(_mm512_cvtps_epi32(n.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), shift))};
}
inline __m256 low(Lanes a) { return _mm512_castps512_ps256(a.v); }
inline __m256 high(Lanes a) { return _mm512_extractf32x8_ps(a.v, 1); }

/// Sixteen 32-bit words.
struct Words {
  __m512i v;
  static Words all(unsigned x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
  static Words count() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
};
inline Words operator+(Words a, Words b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Words operator^(Words a, Words b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline Words operator&(Words a, Words b) { return {_mm512_and_si512(a.v, b.v)}; }
template <int Bits>
Words shifted_right(Words a) {
  return {_mm512_srli_epi32(a.v, Bits)};
}
/// High and low halves of the 64-bit products.
inline void multiply(Words a, Words b, Words& high_half, Words& low_half) {
  const __m512i even = _mm512_mul_epu32(a.v, b.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  high_half.v = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low_half.v = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}
/// @pre below 2^31.
inline Lanes to_lanes(Words a) { return {_mm512_cvtepi32_ps(a.v)}; }

#else

struct Lanes {
  __m256 a, b;
  static Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Lanes all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_storeu_ps(p, a), _mm256_storeu_ps(p + 8, b); }
};
inline Lanes operator+(Lanes x, Lanes y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline Lanes operator-(Lanes x, Lanes y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline Lanes operator*(Lanes x, Lanes y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline Lanes operator/(Lanes x, Lanes y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline Lanes smaller(Lanes x, Lanes y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline Lanes larger(Lanes x, Lanes y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline Lanes fma(Lanes x, Lanes y, Lanes z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline __m256 gated(__m256 x, __m256 gate) {
  return _mm256_and_ps(x, _mm256_cmp_ps(gate, _mm256_setzero_ps(), _CMP_GT_OQ));
}
inline Lanes gated(Lanes x, Lanes gate) { return {gated(x.a, gate.a), gated(x.b, gate.b)}; }
inline __m256 rounded(__m256 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Lanes rounded(Lanes x) { return {rounded(x.a), rounded(x.b)}; }
inline __m256 scaled(__m256 x, __m256 n) {
  const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), shift));
}
inline Lanes scaled(Lanes x, Lanes n) { return {scaled(x.a, n.a), scaled(x.b, n.b)}; }
inline __m256 low(Lanes x) { return x.a; }
inline __m256 high(Lanes x) { return x.b; }

struct Words {
  __m256i a, b;
  static Words all(unsigned x) {
    return {_mm256_set1_epi32(static_cast<int>(x)), _mm256_set1_epi32(static_cast<int>(x))};
  }
  static Words count() {
    return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  }
};
inline Words operator+(Words x, Words y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline Words operator^(Words x, Words y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
inline Words operator&(Words x, Words y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
template <int Bits>
Words shifted_right(Words x) {
  return {_mm256_srli_epi32(x.a, Bits), _mm256_srli_epi32(x.b, Bits)};
}
inline void multiply(__m256i x, __m256i y, __m256i& high_half, __m256i& low_half) {
  const __m256i even = _mm256_mul_epu32(x, y);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
  high_half = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low_half = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
inline void multiply(Words x, Words y, Words& high_half, Words& low_half) {
  multiply(x.a, y.a, high_half.a, low_half.a);
  multiply(x.b, y.b, high_half.b, low_half.b);
}
inline Lanes to_lanes(Words x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

#endif

inline constexpr long kLanes = 16;

/// Sums in a fixed order: fold halves onto each other, from sixteen values to one.
inline float sum(Lanes a) {
  const __m256 eight = _mm256_add_ps(low(a), high(a));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
inline float largest(Lanes a) {
  const __m256 eight = _mm256_max_ps(low(a), high(a));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

/// Philox4x32-10 of base/rng.h for sixteen counters (c0, c1, c2, c3) at once; replaces them by the output
/// words.
inline void philox(Words (&c)[4], unsigned key0, unsigned key1) {
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high2, low2;
    multiply(c[0], Words::all(0xD2511F53u), high0, low0);
    multiply(c[2], Words::all(0xCD9E8D57u), high2, low2);
    c[0] = high2 ^ c[1] ^ Words::all(key0);
    c[1] = low2;
    c[2] = high0 ^ c[3] ^ Words::all(key1);
    c[3] = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// Sum of the four bytes of a word, scaled to mean 0 and standard deviation 1: approximately normal, at most
/// 3.46.
inline Lanes nearly_normal(Words w) {
  const Words bytes = Words::all(0x00FF00FFu), halves = (w & bytes) + (shifted_right<8>(w) & bytes);
  const Words total = (halves & Words::all(0xFFFFu)) + shifted_right<16>(halves);
  return (to_lanes(total) - Lanes::all(510)) * Lanes::all(0.00676587f);  // 1 / sqrt(4 (256² - 1) / 12)
}

/// Rational approximation; absolute error at most 4e-7.
inline Lanes tanh(Lanes x) {
  x = smaller(larger(x, Lanes::all(-7.90531110763549805f)), Lanes::all(7.90531110763549805f));
  const Lanes x2 = x * x;
  Lanes p = fma(x2, Lanes::all(-2.76076847742355e-16f), Lanes::all(2.00018790482477e-13f));
  p = fma(x2, p, Lanes::all(-8.60467152213735e-11f));
  p = fma(x2, p, Lanes::all(5.12229709037114e-08f));
  p = fma(x2, p, Lanes::all(1.48572235717979e-05f));
  p = fma(x2, p, Lanes::all(6.37261928875436e-04f));
  p = fma(x2, p, Lanes::all(4.89352455891786e-03f));
  Lanes q = fma(x2, Lanes::all(1.19825839466702e-06f), Lanes::all(1.18534705686654e-04f));
  q = fma(x2, q, Lanes::all(2.26843463243900e-03f));
  q = fma(x2, q, Lanes::all(4.89352518554385e-03f));
  return x * p / q;
}

/// e^x for x <= 0 with a relative error of at most 2e-7; about 1e-38 below -87.
inline Lanes exp_negative(Lanes x) {
  x = larger(x, Lanes::all(-87.0f));
  const Lanes n = rounded(x * Lanes::all(1.44269504088896341f));
  Lanes r = fma(n, Lanes::all(-0.693359375f), x);
  r = fma(n, Lanes::all(2.12194440e-4f), r);
  Lanes p = fma(r, Lanes::all(1.9875691500e-4f), Lanes::all(1.3981999507e-3f));
  p = fma(r, p, Lanes::all(8.3334519073e-3f));
  p = fma(r, p, Lanes::all(4.1665795894e-2f));
  p = fma(r, p, Lanes::all(1.6666665459e-1f));
  p = fma(r, p, Lanes::all(5.0000001201e-1f));
  p = fma(r * r, p, r) + Lanes::all(1.0f);
  return scaled(p, n);
}

}  // namespace
