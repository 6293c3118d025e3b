/// Ops with three operands; the last ones may be scalars.
#include "executor/cpu/kernels/elementwise/elementwise_form.h"

namespace emplace::cpu {
namespace {

// Variables of the body: `a`, `b`, `c`, and the form's scalars `p` and `q`, all of type T.
#define EMPLACE_TERNARY(Name, For, body)                                     \
  struct Name : For {                                                        \
    template <class T>                                                       \
    static T of(T a, T b, T c, [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return body;                                                           \
    }                                                                        \
  };

EMPLACE_TERNARY(AddProduct, ForFloats, a + p * b * c)
EMPLACE_TERNARY(AddQuotient, ForFloats, a + p * (b / c))
EMPLACE_TERNARY(SubtractProduct, ForFloats, a - b * c)
EMPLACE_TERNARY(Interpolate, ForFloats, a + c * (b - a))
EMPLACE_TERNARY(Where, ForAll, a != T{0} ? b : c)
EMPLACE_TERNARY(MaskedFill, ForAll, b != T{0} ? c : a)

/// Max(low, Min(x, high)); NaN stays NaN.
template <class T>
T clamped(T x, T low, T high) {
  const T up = x < low ? low : x;
  return up > high ? high : up;
}
EMPLACE_TERNARY(Clamp, ForAll, clamped(a, b, c))

#undef EMPLACE_TERNARY

constexpr auto kSame = ElementwiseForm::Kind::kSame;

constexpr ElementwiseForm kTernaryForms[] = {
    {"aten::addcmul", 3, kSame, ternary_rows<AddProduct>, {}, {{"value", 1}}},
    {"aten::addcdiv", 3, kSame, ternary_rows<AddQuotient>, {}, {{"value", 1}}},
    {"ApplyGradientDescent", 3, kSame, ternary_rows<SubtractProduct>},
    {"aten::lerp", 3, kSame, ternary_rows<Interpolate>, {{}, {"weight", 0.5}}},
    {"aten::where", 3, kSame, ternary_rows<Where>, {{"self", 0.5}, {"other", 0.5}}},
    {"Where Select SelectV2", 3, kSame, ternary_rows<Where>},
    {"aten::masked_fill", 3, kSame, ternary_rows<MaskedFill>, {{}, {"value", 0.5}}},
    {"aten::clamp Clip", 3, kSame, ternary_rows<Clamp>, {{"min", -kInfinity}, {"max", kInfinity}}},
};

}  // namespace

std::span<const ElementwiseForm> ternary_forms() { return kTernaryForms; }

}  // namespace emplace::cpu
