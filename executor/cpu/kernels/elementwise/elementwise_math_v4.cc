/// Variants for x86-64-v4, selected at run time. Code here must not call functions that another file may
/// also emit.
#include "executor/cpu/kernels/elementwise/elementwise_math.h"

namespace emplace::cpu {
namespace {

template <class Op>
constexpr RowSet kUnary{{unary_row<Op, float, float>}};
template <class Op>
constexpr RowSet kBinary{{binary_row<Op, float, float, false, false>,
                          binary_row<Op, float, float, true, false>,
                          binary_row<Op, float, float, false, true>}};

constexpr WideForm kForms[] = {
    {"aten::sigmoid", &kUnary<math::Sigmoid>},
    {"aten::tanh", &kUnary<math::Tanh>},
    {"aten::erf", &kUnary<math::Erf>},
    {"aten::exp", &kUnary<math::Exp>},
    {"aten::gelu", &kUnary<math::Gelu>},
    {"aten::gelu~tanh", &kUnary<math::GeluTanh>},
    {"aten::silu", &kUnary<math::Silu>},
    {"aten::gelu_backward", &kBinary<math::GeluBackward>},
    {"aten::gelu_backward~tanh", &kBinary<math::GeluTanhBackward>},
    {"aten::elu_backward", &kBinary<math::EluBackward>},
    {"aten::softplus_backward", &kBinary<math::SoftplusBackward>},
    {"aten::silu_backward", &kBinary<math::SiluBackward>},
};

}  // namespace

namespace detail {
extern const WideForm* const kWideForms = kForms;
extern const std::size_t kNumWideForms = sizeof kForms / sizeof *kForms;
}  // namespace detail

}  // namespace emplace::cpu
