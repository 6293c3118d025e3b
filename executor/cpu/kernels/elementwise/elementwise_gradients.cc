/// Backward of unary ops: the gradient of the output, and the input or the output.
#include "executor/cpu/kernels/elementwise/elementwise_math.h"

namespace emplace::cpu {
namespace {

// Variables of the body: the gradient `g`, the other operand `x`, and the form's scalars `p` and `q`, all
// of type T.
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

#undef EMPLACE_GRADIENT

constexpr auto kSame = ElementwiseForm::Kind::kSame;

constexpr ElementwiseForm kGradientForms[] = {
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
    {"aten::elu_backward", 2, kSame, binary_rows<math::EluBackward>, {}, {{"alpha", 1}}},
    {"aten::softplus_backward", 2, kSame, binary_rows<math::SoftplusBackward>},
    {"aten::silu_backward", 2, kSame, binary_rows<math::SiluBackward>},
    {"aten::gelu_backward", 2, kSame, binary_rows<math::GeluBackward>},
    {"aten::gelu_backward~tanh", 2, kSame, binary_rows<math::GeluTanhBackward>},
};

}  // namespace

std::span<const ElementwiseForm> gradient_forms() { return kGradientForms; }

}  // namespace emplace::cpu
