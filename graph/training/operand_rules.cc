// Rules for element-wise ops of several tensors with broadcasting, or of a tensor and a number.
#include <array>
#include <utility>

#include "graph/training/rules.h"

namespace emplace::training {
namespace {

bool fits(const Recorder& r, const Call& call) {
  for (const Tensor x : call.inputs) {
    if (!broadcasts(r.shape(x), call.made())) return false;
  }
  return true;
}

/// An op of a tensor and a number; with `scales` the gradient is scaled in the same way, else it passes
/// unchanged.
Tensor with_number(Recorder& r, std::string_view type, Tensor x, bool scales) {
  const Tensor out = r.pointwise(type, {x}, r.shape(x), 1);
  r.flow(out, {x}, [&r, x, type, scales](const Gradients& dy) {
    r.add_gradient(x, scales ? r.pointwise(type, {*dy[0]}, r.shape(x), 1) : *dy[0]);
  });
  return out;
}

/// The operands of a binary rule; one of them may be a number.
struct Operands {
  std::vector<Tensor> tensors;
  bool number_first = false;
};
std::optional<Operands> two(const Recorder& r, const Call& call) {
  if (call.inputs.size() != 2 || !fits(r, call)) return std::nullopt;
  Operands found{operands(call), call.number[0]};
  // A single number with the shape of the whole result, or one that broadcasts the result, counts as a
  // tensor.
  if (found.tensors.size() == 1 && r.shape(found.tensors[0]) != call.made())
    return Operands{call.inputs, false};
  if (found.tensors.empty()) return Operands{call.inputs, false};
  return found;
}

Made add(Recorder& r, const Call& call) {
  const auto given = two(r, call);
  if (!given) return contradiction(call);
  if (given->tensors.size() == 1) return std::vector{shifted(r, given->tensors[0])};
  return std::vector{added(r, given->tensors[0], given->tensors[1], call.made())};
}

Made sub(Recorder& r, const Call& call) {
  const auto given = two(r, call);
  if (!given) return contradiction(call);
  if (given->tensors.size() == 1)
    return std::vector{
        with_number(r, given->number_first ? "aten::rsub" : "aten::sub", given->tensors[0], false)};
  const Tensor a = given->tensors[0], b = given->tensors[1];
  const Tensor out = r.op("aten::sub", {a, b}, call.made());
  r.flow(out, {a, b}, [&r, a, b](const Gradients& dy) {
    r.add_gradient(a, *dy[0]);
    if (r.flows(b)) r.add_gradient(b, r.op("aten::neg", {*dy[0]}, r.shape(*dy[0])));
  });
  return std::vector{out};
}

Made mul(Recorder& r, const Call& call) {
  const auto given = two(r, call);
  if (!given) return contradiction(call);
  if (given->tensors.size() == 1) return std::vector{scaled(r, given->tensors[0])};
  return std::vector{multiplied(r, given->tensors[0], given->tensors[1], call.made())};
}

/// d(a / b) = da / b − db · (a / b) / b
Tensor quotient(Recorder& r, Tensor a, Tensor b, const Shape& made) {
  const Tensor out = r.op("aten::div", {a, b}, made);
  r.flow(out, {a, b}, [&r, a, b, out](const Gradients& dy) {
    const Shape whole = r.shape(out);
    if (r.flows(a)) r.add_gradient(a, r.op("aten::div", {*dy[0], b}, whole));
    if (!r.flows(b)) return;
    const Tensor ratio = r.op("aten::div", {out, b}, whole);
    r.add_gradient(b, r.op("aten::mul", {r.op("aten::neg", {*dy[0]}, whole), ratio}, whole));
  });
  return out;
}

Made div(Recorder& r, const Call& call) {
  const auto given = two(r, call);
  if (!given) return contradiction(call);
  if (given->tensors.size() == 2)
    return std::vector{quotient(r, given->tensors[0], given->tensors[1], call.made())};
  const Tensor x = given->tensors[0];
  if (!given->number_first) return std::vector{with_number(r, "aten::div", x, true)};
  const Tensor out = r.op("aten::reciprocal", {x}, call.made());
  r.flow(out, {x}, [&r, x, out](const Gradients& dy) {
    const Shape whole = r.shape(x);
    const Tensor square = r.op("aten::mul", {out, out}, whole);
    r.add_gradient(x, r.op("aten::mul", {r.op("aten::neg", {*dy[0]}, whole), square}, whole));
  });
  return std::vector{scaled(r, out)};
}

/// x to a number's power, or a^b: da = dy b a^(b-1), db = dy y log a.
Made pow(Recorder& r, const Call& call) {
  const auto given = two(r, call);
  if (!given) return contradiction(call);
  if (given->tensors.size() == 1 && !given->number_first) return std::vector{raised(r, given->tensors[0])};
  const Tensor a = call.inputs[0], b = call.inputs[1];
  const Tensor out = r.op("aten::pow", {a, b}, call.made());
  r.flow(out, {a, b}, [&r, a, b, out](const Gradients& dy) {
    const Shape whole = r.shape(out);
    const auto scaled_dy = [&](Tensor x) { return r.op("aten::mul", {*dy[0], x}, whole); };
    if (r.flows(a)) {
      const Tensor power = r.op("aten::pow", {a, r.op("aten::sub", {b}, r.shape(b))}, whole);
      r.add_gradient(a, scaled_dy(r.op("aten::mul", {power, b}, whole)));
    }
    if (r.flows(b)) {
      const Tensor log = r.op("aten::log", {a}, r.shape(a));
      r.add_gradient(b, scaled_dy(r.op("aten::mul", {out, log}, whole)));
    }
  });
  return std::vector{out};
}

/// Passes the gradient to the operand that `compare` selects.
void masked(Recorder& r, Tensor target, Tensor dy, std::string_view compare, Tensor a, Tensor b) {
  if (!r.flows(target)) return;
  const TensorSpec flags{.dtype = DType::kBool, .shape = r.shape(dy)};
  const Tensor mask = r.op(compare, {a, b}, std::vector{flags}, 0);
  r.add_gradient(target, r.op("aten::masked_fill", {dy, mask}, r.shape(dy)));
}

Made extreme(Recorder& r, const Call& call) {
  if (!fits(r, call)) return contradiction(call);
  const bool most = call.type == "Max";
  Tensor whole = call.inputs[0];
  for (std::size_t k = 1; k < call.inputs.size(); ++k) {
    const Tensor a = whole, b = call.inputs[k];
    const Tensor out = r.op(most ? "aten::maximum" : "aten::minimum", {a, b}, call.made());
    r.flow(out, {a, b}, [&r, a, b, most](const Gradients& dy) {
      masked(r, a, *dy[0], most ? "aten::lt" : "aten::gt", a, b);
      masked(r, b, *dy[0], most ? "aten::ge" : "aten::le", a, b);
    });
    whole = out;
  }
  return std::vector{whole};
}

Made sum(Recorder& r, const Call& call) {
  if (!fits(r, call)) return contradiction(call);
  Tensor whole = call.inputs[0];
  for (std::size_t k = 1; k < call.inputs.size(); ++k) whole = added(r, whole, call.inputs[k], call.made());
  return std::vector{call.type == "Mean" ? with_number(r, "aten::div", whole, true) : whole};
}

Made where(Recorder& r, const Call& call) {
  if (call.inputs.size() != 3 || !fits(r, call)) return contradiction(call);
  const Tensor mask = call.inputs[0], a = call.inputs[1], b = call.inputs[2];
  std::vector<Tensor> read{mask, a, b};
  const Tensor out = r.op("aten::where", read, std::vector{call.outputs[0]});
  r.flow(out, {a, b}, [&r, mask, a, b](const Gradients& dy) {
    const Shape whole = r.shape(*dy[0]);
    if (r.flows(a)) r.add_gradient(a, r.op("aten::masked_fill", {*dy[0], mask}, whole));
    if (r.flows(b)) r.add_gradient(b, r.op("aten::masked_fill", {*dy[0], mask}, whole));
  });
  return std::vector{out};
}

Made prelu(Recorder& r, const Call& call) {
  if (call.inputs.size() != 2 || !fits(r, call)) return contradiction(call);
  const Tensor x = call.inputs[0], slope = call.inputs[1];
  const Tensor out = r.pointwise("aten::_prelu_kernel", {x, slope}, call.made(), 1);
  r.flow(out, {x, slope}, [&r, x, slope](const Gradients& dy) {
    const TensorSpec whole{.dtype = r.dtype(x), .shape = r.shape(*dy[0])};
    const Tensor back = r.op("aten::_prelu_kernel_backward", {*dy[0], x, slope}, std::vector{whole, whole},
                             times(2, elements(whole.shape)));
    r.add_gradient(x, back);
    r.add_gradient(slope, {back.op, 1});
  });
  return std::vector{out};
}

constexpr std::array kOperandRules{
    NamedRule{"Add", add},  NamedRule{"Sub", sub},     NamedRule{"Mul", mul},     NamedRule{"Div", div},
    NamedRule{"Pow", pow},  NamedRule{"Max", extreme}, NamedRule{"Min", extreme}, NamedRule{"Sum", sum},
    NamedRule{"Mean", sum}, NamedRule{"Where", where}, NamedRule{"PRelu", prelu}};

}  // namespace

Tensor added(Recorder& r, Tensor a, Tensor b, const Shape& made) {
  const Tensor out = r.op("aten::add", {a, b}, made);
  r.flow(out, {a, b}, [&r, a, b](const Gradients& dy) {
    r.add_gradient(a, *dy[0]);
    r.add_gradient(b, *dy[0]);
  });
  return out;
}

Tensor multiplied(Recorder& r, Tensor a, Tensor b, const Shape& made) {
  const Tensor out = r.op("aten::mul", {a, b}, made);
  r.flow(out, {a, b}, [&r, a, b](const Gradients& dy) {
    const auto by = [&](Tensor other) { return r.op("aten::mul", {*dy[0], other}, r.shape(*dy[0])); };
    if (r.flows(a)) r.add_gradient(a, by(b));
    if (r.flows(b)) r.add_gradient(b, by(a));
  });
  return out;
}

Tensor scaled(Recorder& r, Tensor x) { return with_number(r, "aten::mul", x, true); }
Tensor shifted(Recorder& r, Tensor x) { return with_number(r, "aten::add", x, false); }

Tensor raised(Recorder& r, Tensor x) {
  const Tensor out = r.op("aten::pow", {x}, r.shape(x));
  r.flow(out, {x}, [&r, x](const Gradients& dy) {
    const Shape whole = r.shape(x);
    const Tensor less = r.op("aten::mul", {r.op("aten::pow", {x}, whole)}, whole);
    r.add_gradient(x, r.op("aten::mul", {*dy[0], less}, whole));
  });
  return out;
}

Tensor inverse_root(Recorder& r, Tensor x) {
  const Tensor out = r.op("aten::rsqrt", {x}, r.shape(x));
  r.flow(out, {x}, [&r, x, out](const Gradients& dy) {
    const Shape whole = r.shape(x);
    const Tensor cube = r.op("aten::mul", {r.op("aten::pow", {out}, whole)}, whole);
    r.add_gradient(x, r.op("aten::mul", {*dy[0], cube}, whole));
  });
  return out;
}

std::span<const NamedRule> operand_rules() { return kOperandRules; }

}  // namespace emplace::training
