/// Ops with two operands; the second may be a scalar.
#include "base/ivdep.h"
#include "executor/cpu/kernels/elementwise/approximations.h"
#include "executor/cpu/kernels/elementwise/elementwise_form.h"

namespace emplace::cpu {
namespace {

/// Integers round down; division by 0 gives 0.
template <class T>
T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (b == -1) return wrapping_negate(a);
    return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
  } else {
    return std::floor(a / b);
  }
}
template <class T>
T truncate_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    return b == -1 ? wrapping_negate(a) : a / b;
  } else {
    return std::trunc(a / b);
  }
}
/// The remainder has the sign of the divisor (Python) or of the dividend (C).
template <class T>
T remainder_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    const T r = std::fmod(a, b);
    return r != T{0} && (r < T{0}) != (b < T{0}) ? r + b : r;
  }
}
template <class T>
T fmod_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == 0 || b == -1 ? 0 : a % b;
  } else {
    return std::fmod(a, b);
  }
}
/// Computes squares and roots, the usual exponents, without a function call.
template <class T>
T power_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? 1 : (a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0);
    T result = 1;
    for (; b > 0; b /= 2, a = wrapping_multiply(a, a)) {
      if (b % 2 == 1) result = wrapping_multiply(result, a);
    }
    return result;
  } else {
    return std::pow(a, b);
  }
}

// Variables of the body: `a`, `b`, and the form's scalars `p` and `q`, all of type T.
#define EMPLACE_BINARY(Name, For, body)                                    \
  struct Name : For {                                                      \
    template <class T>                                                     \
    static auto of(T a, T b, [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return body;                                                         \
    }                                                                      \
  };

EMPLACE_BINARY(Add, ForAll, wrapping_add(a, wrapping_multiply(p, b)))
EMPLACE_BINARY(Subtract, ForAll, wrapping_add(a, wrapping_negate(wrapping_multiply(p, b))))
EMPLACE_BINARY(SubtractFrom, ForAll, wrapping_add(b, wrapping_negate(wrapping_multiply(p, a))))
EMPLACE_BINARY(Multiply, ForAll, wrapping_multiply(a, b))
EMPLACE_BINARY(Divide, ForFloats, a / b)
EMPLACE_BINARY(TruncateDivide, ForAll, truncate_divide(a, b))
EMPLACE_BINARY(DivideIntegers, ForIntegers, truncate_divide(a, b))
EMPLACE_BINARY(FloorDivide, ForAll, floor_divide(a, b))
EMPLACE_BINARY(Remainder, ForAll, remainder_of(a, b))
EMPLACE_BINARY(Fmod, ForAll, fmod_of(a, b))
EMPLACE_BINARY(Power, ForAll, power_of(a, b))
EMPLACE_BINARY(SquaredDifference, ForFloats, (a - b) * (a - b))
EMPLACE_BINARY(Maximum, ForAll, (a > b || a != a) ? a : b)
EMPLACE_BINARY(Minimum, ForAll, (a < b || a != a) ? a : b)
EMPLACE_BINARY(Atan2, ForFloats, std::atan2(a, b))
EMPLACE_BINARY(PRelu, ForFloats, a < T{0} ? a * b : a)
EMPLACE_BINARY(MaskedGradient, ForFloats, a* b* p)
EMPLACE_BINARY(And, ForAll, a != T{0} && b != T{0})
EMPLACE_BINARY(Or, ForAll, a != T{0} || b != T{0})
EMPLACE_BINARY(Xor, ForAll, (a != T{0}) != (b != T{0}))
EMPLACE_BINARY(BitAnd, ForIntegers, static_cast<T>(a& b))
EMPLACE_BINARY(BitOr, ForIntegers, static_cast<T>(a | b))
EMPLACE_BINARY(BitXor, ForIntegers, static_cast<T>(a ^ b))
EMPLACE_BINARY(Equal, ForAll, a == b)
EMPLACE_BINARY(NotEqual, ForAll, a != b)
EMPLACE_BINARY(Less, ForAll, a < b)
EMPLACE_BINARY(LessEqual, ForAll, a <= b)
EMPLACE_BINARY(Greater, ForAll, a > b)
EMPLACE_BINARY(GreaterEqual, ForAll, a >= b)

#undef EMPLACE_BINARY

template <class A, class B>
const RowSet* either_rows(DType compute) {
  const RowSet* rows = binary_rows<A>(compute);
  return rows != nullptr ? rows : binary_rows<B>(compute);
}

/// Power with one exponent for the row; squares and roots are selected at run time.
template <class T>
void power_row(std::int64_t n, std::byte* out, const std::byte* const* in, const double* scalars) {
  const T* a = reinterpret_cast<const T*>(in[0]);
  T* r = reinterpret_cast<T*>(out);
  const T exponent = *reinterpret_cast<const T*>(in[1]);
  if (exponent == T{2}) {
    EMPLACE_IVDEP
    for (std::int64_t i = 0; i < n; ++i) r[i] = a[i] * a[i];
  } else if (exponent == T(3)) {
    EMPLACE_IVDEP
    for (std::int64_t i = 0; i < n; ++i) r[i] = a[i] * a[i] * a[i];
  } else if (exponent == T(0.5)) {
    EMPLACE_IVDEP
    for (std::int64_t i = 0; i < n; ++i) r[i] = std::sqrt(a[i]);
  } else {
    binary_row<Power, T, T, false, true>(n, out, in, scalars);
  }
}
const RowSet* power_rows(DType compute) {
  static constexpr RowSet kFloat{{binary_row<Power, float, float, false, false>,
                                  binary_row<Power, float, float, true, false>, power_row<float>}};
  static constexpr RowSet kDouble{{binary_row<Power, double, double, false, false>,
                                   binary_row<Power, double, double, true, false>, power_row<double>}};
  if (compute == DType::kF32) return &kFloat;
  return compute == DType::kF64 ? &kDouble : binary_rows<Power>(compute);
}

constexpr auto kSame = ElementwiseForm::Kind::kSame;
constexpr auto kCompare = ElementwiseForm::Kind::kCompare;
constexpr Scalar kOther{"other", 0.5}, kAlpha{"alpha", 1}, kOne{"", 1};

constexpr ElementwiseForm kBinaryForms[] = {
    {"aten::add", 2, kSame, binary_rows<Add>, {kOther}, {kAlpha}},
    {"Add AddV2 AssignAdd", 2, kSame, binary_rows<Add>, {}, {kOne}},
    {"aten::sub", 2, kSame, binary_rows<Subtract>, {kOther}, {kAlpha}},
    {"Sub AssignSub", 2, kSame, binary_rows<Subtract>, {}, {kOne}},
    {"aten::rsub", 2, kSame, binary_rows<SubtractFrom>, {kOther}, {kAlpha}},
    {"aten::mul Mul", 2, kSame, binary_rows<Multiply>, {kOther}},
    {"aten::div aten::true_divide", 2, kSame, binary_rows<Divide>, {kOther}},
    {"aten::floor_divide", 2, kSame, binary_rows<FloorDivide>, {kOther}},
    {"aten::div~floor", 2, kSame, binary_rows<FloorDivide>, {kOther}},
    {"aten::div~trunc", 2, kSame, binary_rows<TruncateDivide>, {kOther}},
    {"Div", 2, kSame, either_rows<Divide, DivideIntegers>},
    {"RealDiv", 2, kSame, binary_rows<Divide>},
    {"FloorDiv", 2, kSame, binary_rows<FloorDivide>},
    {"aten::remainder", 2, kSame, binary_rows<Remainder>, {kOther}},
    {"FloorMod", 2, kSame, binary_rows<Remainder>},
    {"Mod", 2, kSame, either_rows<Fmod, Remainder>},
    {"aten::fmod", 2, kSame, binary_rows<Fmod>, {kOther}},
    {"aten::pow", 2, kSame, power_rows, {{"exponent", 0.5}}},
    {"Pow", 2, kSame, power_rows},
    {"SquaredDifference", 2, kSame, binary_rows<SquaredDifference>},
    {"aten::maximum Maximum", 2, kSame, binary_rows<Maximum>},
    {"aten::minimum Minimum", 2, kSame, binary_rows<Minimum>},
    {"aten::clamp_min", 2, kSame, binary_rows<Maximum>, {{"min", 0.5}}},
    {"aten::clamp_max", 2, kSame, binary_rows<Minimum>, {{"max", 0.5}}},
    {"aten::atan2", 2, kSame, binary_rows<Atan2>},
    {"aten::_prelu_kernel PRelu", 2, kSame, binary_rows<PRelu>},
    {"aten::native_dropout_backward", 2, kSame, binary_rows<MaskedGradient>, {}, {{"scale", 2}}},
    {"aten::logical_and And LogicalAnd", 2, kCompare, binary_rows<And, true>},
    {"aten::bitwise_and~bool", 2, kCompare, binary_rows<And, true>},
    {"aten::logical_or Or", 2, kCompare, binary_rows<Or, true>},
    {"aten::bitwise_or~bool", 2, kCompare, binary_rows<Or, true>},
    {"aten::logical_xor Xor", 2, kCompare, binary_rows<Xor, true>},
    {"aten::bitwise_xor~bool", 2, kCompare, binary_rows<Xor, true>},
    {"aten::bitwise_and", 2, kSame, binary_rows<BitAnd>},
    {"aten::bitwise_or", 2, kSame, binary_rows<BitOr>},
    {"aten::bitwise_xor", 2, kSame, binary_rows<BitXor>},
    {"aten::eq Equal", 2, kCompare, binary_rows<Equal, true>, {kOther}},
    {"aten::ne NotEqual", 2, kCompare, binary_rows<NotEqual, true>, {kOther}},
    {"aten::lt Less", 2, kCompare, binary_rows<Less, true>, {kOther}},
    {"aten::le LessOrEqual LessEqual", 2, kCompare, binary_rows<LessEqual, true>, {kOther}},
    {"aten::gt Greater", 2, kCompare, binary_rows<Greater, true>, {kOther}},
    {"aten::ge GreaterOrEqual GreaterEqual", 2, kCompare, binary_rows<GreaterEqual, true>, {kOther}},
};

}  // namespace

std::span<const ElementwiseForm> binary_forms() { return kBinaryForms; }

}  // namespace emplace::cpu
