/// Ops with one operand.
#include "executor/cpu/kernels/elementwise/elementwise_math.h"

namespace emplace::cpu {
namespace {

// Variables of the body: `x`, and the form's scalars `p` and `q`, all of type T.
#define EMPLACE_UNARY(Name, For, body)                                \
  struct Name : For {                                                 \
    template <class T>                                                \
    static auto of(T x, [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return body;                                                    \
    }                                                                 \
  };

EMPLACE_UNARY(Same, ForAll, x)
EMPLACE_UNARY(Sqrt, ForFloats, std::sqrt(x))
EMPLACE_UNARY(Rsqrt, ForFloats, T{1} / std::sqrt(x))
EMPLACE_UNARY(Reciprocal, ForFloats, T{1} / x)
EMPLACE_UNARY(Relu, ForAll, x < T{0} ? T{0} : x)
EMPLACE_UNARY(LogSigmoid, ForFloats, (x < T{0} ? x : T{0}) - std::log1p(exp_of(-std::abs(x))))
EMPLACE_UNARY(Expm1, ForFloats, std::expm1(x))
EMPLACE_UNARY(Exp2, ForFloats, std::exp2(x))
EMPLACE_UNARY(Log, ForFloats, std::log(x))
EMPLACE_UNARY(Log2, ForFloats, std::log2(x))
EMPLACE_UNARY(Log10, ForFloats, std::log10(x))
EMPLACE_UNARY(Log1p, ForFloats, std::log1p(x))
EMPLACE_UNARY(Sin, ForFloats, std::sin(x))
EMPLACE_UNARY(Cos, ForFloats, std::cos(x))
EMPLACE_UNARY(Tan, ForFloats, std::tan(x))
EMPLACE_UNARY(Atan, ForFloats, std::atan(x))
EMPLACE_UNARY(Sinh, ForFloats, std::sinh(x))
EMPLACE_UNARY(Cosh, ForFloats, std::cosh(x))
EMPLACE_UNARY(Floor, ForFloats, std::floor(x))
EMPLACE_UNARY(Ceil, ForFloats, std::ceil(x))
EMPLACE_UNARY(Trunc, ForFloats, std::trunc(x))
EMPLACE_UNARY(Round, ForFloats, std::nearbyint(x))
EMPLACE_UNARY(Negate, ForAll, wrapping_negate(x))
EMPLACE_UNARY(Absolute, ForAll, x < T{0} ? wrapping_negate(x) : x + T{0})
EMPLACE_UNARY(Sign, ForAll, static_cast<T>((x > T{0}) - (x < T{0})))
EMPLACE_UNARY(Square, ForAll, wrapping_multiply(x, x))
EMPLACE_UNARY(Softplus, ForFloats, (x < T{0} ? T{0} : x) + std::log1p(exp_of(-std::abs(x))))
EMPLACE_UNARY(Softsign, ForFloats, x / (T{1} + std::abs(x)))
EMPLACE_UNARY(Mish, ForFloats, x* tanh_of((x < T{0} ? T{0} : x) + std::log1p(exp_of(-std::abs(x)))))
EMPLACE_UNARY(LeakyRelu, ForFloats, x < T{0} ? p * x : x)
EMPLACE_UNARY(Elu, ForFloats, x < T{0} ? p * std::expm1(x) : x)
EMPLACE_UNARY(Selu, ForFloats, q*(x < T{0} ? p * std::expm1(x) : x))
EMPLACE_UNARY(Clamp, ForFloats, x < p ? p : (x > q ? q : x))
EMPLACE_UNARY(IsNan, ForFloats, x != x)
EMPLACE_UNARY(IsFinite, ForFloats, x - x == T{0})
EMPLACE_UNARY(Not, ForAll, x == T{0})
EMPLACE_UNARY(Truth, ForAll, x != T{0})

template <class T>
T within(T x, T low, T high) {
  const T up = x < low ? low : x;
  return up > high ? high : up;
}
EMPLACE_UNARY(HardSigmoid, ForFloats, within(p* x + q, T{0}, T{1}))
EMPLACE_UNARY(HardSwish, ForFloats, x* within(x + T{3}, T{0}, T{6}) * T(1.0 / 6))

#undef EMPLACE_UNARY

constexpr auto kSame = ElementwiseForm::Kind::kSame;
constexpr auto kCompare = ElementwiseForm::Kind::kCompare;

constexpr ElementwiseForm kUnaryForms[] = {
    {"aten::sqrt Sqrt", 1, kSame, unary_rows<Sqrt>},
    {"aten::rsqrt Rsqrt", 1, kSame, unary_rows<Rsqrt>},
    {"aten::reciprocal Reciprocal", 1, kSame, unary_rows<Reciprocal>},
    {"aten::relu Relu", 1, kSame, unary_rows<Relu>},
    {"aten::sigmoid Sigmoid", 1, kSame, unary_rows<math::Sigmoid>},
    {"aten::log_sigmoid", 1, kSame, unary_rows<LogSigmoid>},
    {"aten::tanh Tanh", 1, kSame, unary_rows<math::Tanh>},
    {"aten::erf Erf", 1, kSame, unary_rows<math::Erf>},
    {"aten::exp Exp", 1, kSame, unary_rows<math::Exp>},
    {"aten::expm1", 1, kSame, unary_rows<Expm1>},
    {"aten::exp2", 1, kSame, unary_rows<Exp2>},
    {"aten::log Log", 1, kSame, unary_rows<Log>},
    {"aten::log2", 1, kSame, unary_rows<Log2>},
    {"aten::log10", 1, kSame, unary_rows<Log10>},
    {"aten::log1p", 1, kSame, unary_rows<Log1p>},
    {"aten::sin Sin", 1, kSame, unary_rows<Sin>},
    {"aten::cos Cos", 1, kSame, unary_rows<Cos>},
    {"aten::tan Tan", 1, kSame, unary_rows<Tan>},
    {"aten::atan Atan", 1, kSame, unary_rows<Atan>},
    {"aten::sinh Sinh", 1, kSame, unary_rows<Sinh>},
    {"aten::cosh Cosh", 1, kSame, unary_rows<Cosh>},
    {"aten::floor Floor", 1, kSame, unary_rows<Floor>},
    {"aten::ceil Ceil", 1, kSame, unary_rows<Ceil>},
    {"aten::trunc", 1, kSame, unary_rows<Trunc>},
    {"aten::round Round", 1, kSame, unary_rows<Round>},
    {"aten::neg Neg", 1, kSame, unary_rows<Negate>},
    {"aten::abs Abs", 1, kSame, unary_rows<Absolute>},
    {"aten::sign aten::sgn Sign", 1, kSame, unary_rows<Sign>},
    {"aten::square Square", 1, kSame, unary_rows<Square>},
    {"aten::gelu Gelu", 1, kSame, unary_rows<math::Gelu>},
    {"aten::gelu~tanh Gelu~tanh", 1, kSame, unary_rows<math::GeluTanh>},
    {"aten::silu", 1, kSame, unary_rows<math::Silu>},
    {"aten::softplus Softplus", 1, kSame, unary_rows<Softplus>},
    {"aten::softsign Softsign", 1, kSame, unary_rows<Softsign>},
    {"aten::mish Mish", 1, kSame, unary_rows<Mish>},
    {"aten::leaky_relu", 1, kSame, unary_rows<LeakyRelu>, {}, {{"negative_slope", 0.01}}},
    {"LeakyRelu", 1, kSame, unary_rows<LeakyRelu>, {}, {{"alpha", 0.01}}},
    {"aten::elu Elu", 1, kSame, unary_rows<Elu>, {}, {{"alpha", 1}}},
    {"aten::selu",
     1,
     kSame,
     unary_rows<Selu>,
     {},
     {{"alpha", 1.6732632423543772}, {"scale", 1.0507009873554805}}},
    {"Selu", 1, kSame, unary_rows<Selu>, {}, {{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}}},
    {"aten::hardtanh", 1, kSame, unary_rows<Clamp>, {}, {{"min_val", -1}, {"max_val", 1}}},
    {"aten::relu6", 1, kSame, unary_rows<Clamp>, {}, {{"min_val", 0}, {"max_val", 6}}},
    {"Relu6", 1, kSame, unary_rows<Clamp>, {}, {{"min", 0}, {"max", 6}}},
    {"aten::hardsigmoid", 1, kSame, unary_rows<HardSigmoid>, {}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}},
    {"HardSigmoid", 1, kSame, unary_rows<HardSigmoid>, {}, {{"alpha", 0.2}, {"beta", 0.5}}},
    {"aten::hardswish HardSwish", 1, kSame, unary_rows<HardSwish>},
    {"aten::_to_copy aten::to Cast", 1, kSame, unary_rows<Same>},
    {"aten::_to_copy~bool aten::to~bool Cast~bool", 1, kCompare, unary_rows<Truth, true>},
    {"aten::isnan IsNaN", 1, kCompare, unary_rows<IsNan, true>},
    {"aten::isfinite", 1, kCompare, unary_rows<IsFinite, true>},
    {"aten::logical_not Not", 1, kCompare, unary_rows<Not, true>},
};

}  // namespace

std::span<const ElementwiseForm> unary_forms() { return kUnaryForms; }

}  // namespace emplace::cpu
