// Rules for element-wise ops of one tensor.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// An op whose gradient is one op of dy and x, or of dy and y.
struct Pair {
  std::string_view type, forward;
  std::int64_t flops;
  std::string_view backward;
  std::int64_t backward_flops;
  bool reads_result;
};
constexpr std::array kPairs{
    Pair{"Relu", "aten::relu", 1, "aten::threshold_backward", 1, true},
    Pair{"Sigmoid", "aten::sigmoid", 4, "aten::sigmoid_backward", 3, true},
    Pair{"Tanh", "aten::tanh", 5, "aten::tanh_backward", 3, true},
    Pair{"Gelu", "aten::gelu", 12, "aten::gelu_backward", 20, false},
    Pair{"com.microsoft::Gelu", "aten::gelu", 12, "aten::gelu_backward", 20, false},
    Pair{"Silu", "aten::silu", 5, "aten::silu_backward", 8, false},
    Pair{"Swish", "aten::silu", 5, "aten::silu_backward", 8, false},
    Pair{"Mish", "aten::mish", 9, "aten::mish_backward", 12, false},
    Pair{"HardSwish", "aten::hardswish", 4, "aten::hardswish_backward", 5, false},
    Pair{"HardSigmoid", "aten::hardsigmoid", 3, "aten::hardsigmoid_backward", 2, false},
    Pair{"LeakyRelu", "aten::leaky_relu", 1, "aten::leaky_relu_backward", 1, false},
    Pair{"Elu", "aten::elu", 4, "aten::elu_backward", 4, false},
    Pair{"Celu", "aten::elu", 4, "aten::elu_backward", 4, false},
    Pair{"Selu", "aten::elu", 4, "aten::elu_backward", 4, false},
    Pair{"Softplus", "aten::softplus", 5, "aten::softplus_backward", 5, false},
    Pair{"Clip", "aten::hardtanh", 2, "aten::hardtanh_backward", 1, false},
};

Made pair(Recorder& r, const Call& call) {
  const auto* found =
      std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& p) { return p.type == call.type; });
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Pair kind = *found;
  const Tensor x = call.inputs[0];
  const Tensor out = r.pointwise(kind.forward, {x}, call.made(), kind.flops);
  r.flow(out, {x}, [&r, x, out, kind](const Gradients& dy) {
    const Tensor other = kind.reads_result ? out : x;
    r.add_gradient(x, r.pointwise(kind.backward, {*dy[0], other}, r.shape(x), kind.backward_flops));
  });
  return std::vector{out};
}

/// The gradient dx = dy · f'(x), from x, y and dy.
using Slope = Tensor (*)(Recorder&, Tensor dy, Tensor x, Tensor y);
struct Formula {
  std::string_view type, forward;
  std::int64_t flops;
  Slope slope;
};

Tensor times_dy(Recorder& r, Tensor dy, Tensor factor) {
  return r.op("aten::mul", {dy, factor}, r.shape(dy));
}
Tensor of(Recorder& r, std::string_view type, Tensor x, std::int64_t flops) {
  return r.pointwise(type, {x}, r.shape(x), flops);
}

constexpr std::array kFormulas{
    Formula{"Neg", "aten::neg", 1,
            [](Recorder& r, Tensor dy, Tensor, Tensor) { return of(r, "aten::neg", dy, 1); }},
    Formula{
        "Abs", "aten::abs", 1,
        [](Recorder& r, Tensor dy, Tensor x, Tensor) { return times_dy(r, dy, of(r, "aten::sgn", x, 1)); }},
    Formula{"Exp", "aten::exp", 4,
            [](Recorder& r, Tensor dy, Tensor, Tensor y) { return times_dy(r, dy, y); }},
    Formula{"Log", "aten::log", 4,
            [](Recorder& r, Tensor dy, Tensor x, Tensor) {
              return r.op("aten::div", {dy, x}, r.shape(x));
            }},
    Formula{"Sqrt", "aten::sqrt", 2,
            [](Recorder& r, Tensor dy, Tensor, Tensor y) {
              return r.op("aten::div", {dy, of(r, "aten::mul", y, 1)}, r.shape(y));
            }},
    Formula{"Reciprocal", "aten::reciprocal", 1,
            [](Recorder& r, Tensor dy, Tensor, Tensor y) {
              const Tensor square = r.op("aten::mul", {y, y}, r.shape(y));
              return times_dy(r, of(r, "aten::neg", dy, 1), square);
            }},
    Formula{"Erf", "aten::erf", 8,
            [](Recorder& r, Tensor dy, Tensor x, Tensor) {
              const Tensor bell = of(r, "aten::exp", of(r, "aten::neg", of(r, "aten::pow", x, 4), 1), 4);
              return times_dy(r, dy, of(r, "aten::mul", bell, 1));
            }},
    Formula{
        "Sin", "aten::sin", 4,
        [](Recorder& r, Tensor dy, Tensor x, Tensor) { return times_dy(r, dy, of(r, "aten::cos", x, 4)); }},
    Formula{"Cos", "aten::cos", 4,
            [](Recorder& r, Tensor dy, Tensor x, Tensor) {
              return times_dy(r, dy, of(r, "aten::neg", of(r, "aten::sin", x, 4), 1));
            }},
    // The slope of y = x / (1 + |x|) is 1 / (1 + |x|)².
    Formula{"Softsign", "aten::softsign", 3,
            [](Recorder& r, Tensor dy, Tensor x, Tensor) {
              const Tensor below = of(r, "aten::add", of(r, "aten::abs", x, 1), 1);
              return r.op("aten::div", {dy, of(r, "aten::pow", below, 4)}, r.shape(x));
            }},
};

Made formula(Recorder& r, const Call& call) {
  const auto* found =
      std::find_if(kFormulas.begin(), kFormulas.end(), [&](const Formula& f) { return f.type == call.type; });
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Formula kind = *found;
  const Tensor x = call.inputs[0];
  const Tensor out = r.pointwise(kind.forward, {x}, call.made(), kind.flops);
  r.flow(out, {x},
         [&r, x, out, kind](const Gradients& dy) { r.add_gradient(x, kind.slope(r, *dy[0], x, out)); });
  return std::vector{out};
}

Made identity(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  return std::vector{call.inputs[0]};
}

Made cast(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Tensor x = call.inputs[0];
  if (r.dtype(x) == call.outputs[0].dtype) return std::vector{x};
  const Tensor out = r.op("aten::_to_copy", {x}, std::vector{call.outputs[0]});
  r.flow(out, {x}, [&r, x](const Gradients& dy) {
    const TensorSpec like{.dtype = r.dtype(x), .shape = r.shape(x)};
    r.add_gradient(x, r.op("aten::_to_copy", {*dy[0]}, std::vector{like}));
  });
  return std::vector{out};
}

Made dropout(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const auto ratio = call.attrs.find("ratio");
  const bool none = (call.values.size() > 1 && call.values[1] == std::vector{0.0}) ||
                    (ratio != call.attrs.end() && ratio->is_number() && ratio->get<double>() == 0);
  return std::vector{none ? call.inputs[0] : r.dropout(call.inputs[0])};
}

/// Keeps the elements above or below a diagonal; the rest is zero.
Made triangle(Recorder& r, const Call& call) {
  if (r.shape(call.inputs[0]) != call.made()) return contradiction(call);
  const Tensor x = call.inputs[0];
  const std::string_view kind = integer(call.attrs, "upper", 1) != 0 ? "aten::triu" : "aten::tril";
  const Tensor out = r.pointwise(kind, {x}, call.made(), 0);
  r.flow(out, {x}, [&r, x, kind](const Gradients& dy) {
    r.add_gradient(x, r.pointwise(kind, {*dy[0]}, r.shape(x), 0));
  });
  return std::vector{out};
}

}  // namespace

std::span<const NamedRule> unary_rules() {
  static const auto kRules = [] {
    std::vector<NamedRule> rules{{"Identity", identity},
                                 {"Cast", cast},
                                 {"CastLike", cast},
                                 {"Dropout", dropout},
                                 {"Trilu", triangle}};
    for (const Pair& kind : kPairs) rules.push_back({kind.type, pair});
    for (const Formula& kind : kFormulas) rules.push_back({kind.type, formula});
    return rules;
  }();
  return kRules;
}

}  // namespace emplace::training
