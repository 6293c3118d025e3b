/// Backward of unary ones: the gradient of the output, and the input or the output itself.
#include "executor/cpu/kernels/approximations.h"
#include "executor/cpu/kernels/elementwise_form.h"

namespace emplace::cpu {
namespace {

// Body: the gradient `g`, the other operand `x`, and the form's scalars `p` and `q`, all T.
#define EMPLACE_GRADIENT(Name, body)                                    \
  struct Name : ForFloats {                                             \
    template <class T>                                                  \
    static T of(T g, T x, [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return body;                                                      \
    }                                                                   \
  };                                                                    \
  struct Name##OfOutput : ForFloats {                                   \
    template <class T>                                                  \
    static T of(T x, T g, [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return body;                                                      \
    }                                                                   \
  };

EMPLACE_GRADIENT(Threshold, x > p ? g : T{0})
EMPLACE_GRADIENT(Sigmoid, g*((T{1} - x) * x))
EMPLACE_GRADIENT(Tanh, g*(T{1} - x * x))
EMPLACE_GRADIENT(HardSigmoid, (x > T{-3} && x < T{3}) ? g* T(1.0 / 6) : T{0})
EMPLACE_GRADIENT(HardSwish, x < T{-3} ? T{0} : (x >= T{3} ? g : g * (x * T(1.0 / 3) + T(0.5))))
EMPLACE_GRADIENT(HardTanh, (x > p && x < q) ? g : T{0})
EMPLACE_GRADIENT(LeakyRelu, x > T{0} ? g : p * g)
EMPLACE_GRADIENT(Elu, x > T{0} ? g : g * p * exp_of(x))
EMPLACE_GRADIENT(Softplus, g* sigmoid_of(x))
EMPLACE_GRADIENT(Gelu, g*(T(0.5) * (T{1} + erf_of(x * T(0.70710678118654752))) +
                          x * T(0.39894228040143268) * exp_of(T(-0.5) * x * x)))

template <class T>
T silu_slope(T x) {
  const T s = sigmoid_of(x);
  return s * (T{1} + x * (T{1} - s));
}
EMPLACE_GRADIENT(Silu, g* silu_slope(x))

template <class T>
T gelu_tanh_slope(T x) {
  constexpr T kScale = T(0.79788456080286536), kCube = T(0.044715);
  const T t = tanh_of(kScale * (x + kCube * x * x * x));
  return T(0.5) * (T{1} + t) + T(0.5) * x * (T{1} - t * t) * kScale * (T{1} + T{3} * kCube * x * x);
}
EMPLACE_GRADIENT(GeluTanh, g* gelu_tanh_slope(x))

#undef EMPLACE_GRADIENT

constexpr auto kSame = ElementwiseForm::Kind::kSame;

constexpr ElementwiseForm kForms[] = {
    {"aten::threshold_backward", 2, kSame, binary_rows<Threshold>, {}, {{"threshold", 0}}},
    {"ReluGrad", 2, kSame, binary_rows<Threshold>},
    {"aten::sigmoid_backward", 2, kSame, binary_rows<Sigmoid>},
    {"SigmoidGrad", 2, kSame, binary_rows<SigmoidOfOutput>},
    {"aten::tanh_backward", 2, kSame, binary_rows<Tanh>},
    {"TanhGrad", 2, kSame, binary_rows<TanhOfOutput>},
    {"aten::hardsigmoid_backward", 2, kSame, binary_rows<HardSigmoid>},
    {"aten::hardswish_backward", 2, kSame, binary_rows<HardSwish>},
    {"aten::hardtanh_backward", 2, kSame, binary_rows<HardTanh>, {}, {{"min_val", -1}, {"max_val", 1}}},
    {"aten::leaky_relu_backward", 2, kSame, binary_rows<LeakyRelu>, {}, {{"negative_slope", 0.01}}},
    {"aten::elu_backward", 2, kSame, binary_rows<Elu>, {}, {{"alpha", 1}}},
    {"aten::softplus_backward", 2, kSame, binary_rows<Softplus>},
    {"aten::silu_backward", 2, kSame, binary_rows<Silu>},
    {"aten::gelu_backward", 2, kSame, binary_rows<Gelu>},
    {"aten::gelu_backward~tanh", 2, kSame, binary_rows<GeluTanh>},
};

}  // namespace

std::span<const ElementwiseForm> gradient_forms() { return kForms; }

}  // namespace emplace::cpu
