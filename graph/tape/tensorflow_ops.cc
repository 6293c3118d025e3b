// Element-wise ops, products, shapes and sequences in the form of TensorFlow.
#include <utility>

#include "base/check.h"
#include "graph/tape/tensorflow_tape.h"

namespace emplace::models {
// ---- Elementwise ----

/// A binary op. The result has the shape of `a`; `b` may be broadcast to it.
Tensor TensorFlowTape::binary(std::string_view type, Tensor a, Tensor b, const BinaryGradient& to_a,
                              const BinaryGradient& to_b) {
  const Shape whole = shape(a);
  const Tensor out = emit(type, {a, b}, whole);
  if (!flows(a) && !flows(b)) return out;
  const Tensor a_dims = dims_of(a), b_dims = dims_of(b);
  const bool broadcast = elements(shape(b)) != elements(whole);
  flow(out, {a, b}, [=, this](const Gradients& dy) {
    const auto dimensions = static_cast<std::int64_t>(whole.size());
    const Tensor axes =
        emit("BroadcastGradientArgs", {a_dims, b_dims}, {i32({0}), i32({broadcast ? dimensions : 0})}, {});
    std::vector<std::pair<Tensor, Tensor>> gradients;
    if (flows(a)) gradients.emplace_back(a, reduced(to_a(*dy[0]), a, {axes.op, 0}, a_dims));
    if (flows(b)) gradients.emplace_back(b, reduced(to_b(*dy[0]), b, {axes.op, 1}, b_dims));
    pass(gradients);
  });
  return out;
}

Tensor TensorFlowTape::add(Tensor a, Tensor b) {
  const auto same = [](Tensor dy) { return dy; };
  return binary("Add", a, b, same, same);
}

Tensor TensorFlowTape::sub(Tensor a, Tensor b) {
  return binary(
      "Sub", a, b, [](Tensor dy) { return dy; }, [this](Tensor dy) { return emit("Neg", {dy}, shape(dy)); });
}

Tensor TensorFlowTape::mul(Tensor a, Tensor b) {
  const auto times = [this](Tensor other) {
    return [this, other](Tensor dy) { return emit("Mul", {dy, other}, shape(dy)); };
  };
  return binary("Mul", a, b, times(b), times(a));
}

Tensor TensorFlowTape::add_constant(Tensor a) { return add(a, constant(DType::kF32, {})); }
Tensor TensorFlowTape::scale(Tensor a) { return mul(a, constant(DType::kF32, {})); }

Tensor TensorFlowTape::divide(Tensor a) {
  const Tensor by = constant(DType::kF32, {});
  const auto divided = [this, by](Tensor dy) { return emit("RealDiv", {dy, by}, shape(dy)); };
  return binary("RealDiv", a, by, divided, divided);  // Constants have no gradient.
}

Tensor TensorFlowTape::pointwise(std::string_view type, Tensor x) {
  const Tensor out = emit(type, {x}, shape(x));
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit(std::string{type} + "Grad", {out, *dy[0]}, shape(x)));
  });
  return out;
}
Tensor TensorFlowTape::sigmoid(Tensor x) { return pointwise("Sigmoid", x); }
Tensor TensorFlowTape::tanh(Tensor x) { return pointwise("Tanh", x); }
Tensor TensorFlowTape::relu(Tensor x) { return pointwise("Relu", x); }

/// Records tf.nn.dropout: x / keep, times floor(keep + a random number in [0, 1)).
Tensor TensorFlowTape::dropout(Tensor x) {
  if (!training()) return x;
  const Shape whole = shape(x);
  const auto number = [this] { return constant(DType::kF32, {}); };
  const Tensor dims = emit("Shape", {x}, {i32({static_cast<std::int64_t>(whole.size())})}, {});
  const Tensor drawn = emit("RandomUniform", {dims}, whole);
  const Tensor low = number(), range = emit("Sub", {number(), low}, Shape{});
  const Tensor stretched = emit("Mul", {drawn, range}, whole);
  const Tensor uniform = emit("Add", {stretched, low}, whole);
  const Tensor above = emit("Add", {number(), uniform}, whole);
  const Tensor mask = emit("Floor", {above}, whole);
  return mul(divide(x), mask);
}

// ---- Products ----

Tensor TensorFlowTape::matmul(Tensor x, Tensor weight) {
  const std::int64_t rows = shape(x)[0], in = shape(x)[1], out_size = shape(weight)[0];
  EMPLACE_CHECK(in == shape(weight)[1], "inner dimensions must agree");
  const std::int64_t flops = 2 * rows * in * out_size;
  const Tensor out = emit("MatMul", {x, weight}, Shape{rows, out_size},
                          {.attrs = {{"transpose_b", "true"}}, .flops = flops});
  flow(out, {x, weight}, [=, this](const Gradients& dy) {
    std::vector<std::pair<Tensor, Tensor>> gradients;
    if (flows(x)) gradients.emplace_back(x, emit("MatMul", {*dy[0], weight}, shape(x), {.flops = flops}));
    if (flows(weight)) {
      const Work work{.attrs = {{"transpose_a", "true"}}, .flops = flops};
      gradients.emplace_back(weight, emit("MatMul", {*dy[0], x}, shape(weight), work));
    }
    pass(gradients);
  });
  return out;
}

Tensor TensorFlowTape::bias_add(Tensor x, Tensor bias) {
  const Tensor out = emit("BiasAdd", {x, bias}, shape(x));
  flow(out, {x, bias}, [=, this](const Gradients& dy) {
    const Tensor to_bias = emit("BiasAddGrad", {*dy[0]}, shape(bias));
    pass({{x, *dy[0]}, {bias, to_bias}});
  });
  return out;
}

Tensor TensorFlowTape::linear(Tensor x, Tensor weight, Tensor bias) {
  return bias_add(matmul(x, weight), bias);
}

Tensor TensorFlowTape::linear(Tensor x, Tensor weight) {
  if (shape(x).size() == 2) return matmul(x, weight);
  const Shape whole = shape(x);
  const Tensor rows = reshaped(x, {whole[0] * whole[1], whole[2]});
  return reshaped(matmul(rows, weight), {whole[0], whole[1], shape(weight)[0]});
}

Tensor TensorFlowTape::bmm(Tensor a, Tensor b) {
  const std::int64_t batch = shape(a)[0], m = shape(a)[1], k = shape(a)[2], n = shape(b)[2];
  EMPLACE_CHECK(batch == shape(b)[0] && k == shape(b)[1], "inner dimensions must agree");
  const std::int64_t flops = 2 * batch * m * k * n;
  const Tensor out = emit("BatchMatMul", {a, b}, Shape{batch, m, n}, {.flops = flops});
  flow(out, {a, b}, [=, this](const Gradients& dy) {
    const auto product = [&](Tensor x, Tensor y, const char* adjoint, Tensor like) {
      return emit("BatchMatMul", {x, y}, shape(like), {.attrs = {{adjoint, "true"}}, .flops = flops});
    };
    std::vector<std::pair<Tensor, Tensor>> gradients;
    if (flows(a)) gradients.emplace_back(a, product(*dy[0], b, "adj_y", a));
    if (flows(b)) gradients.emplace_back(b, product(a, *dy[0], "adj_x", b));
    pass(gradients);
  });
  return out;
}

// ---- Shapes ----

/// Registers that the gradient of `out`, a view of x, is reshaped back. Returns `out`.
Tensor TensorFlowTape::reshaped_back(Tensor out, Tensor x) {
  if (!flows(x)) return out;
  const Tensor before = dims_of(x);
  flow(out, {x}, [=, this](const Gradients& dy) { accumulate(x, reshape_back(*dy[0], before, x)); });
  return out;
}

Tensor TensorFlowTape::reshaped(Tensor x, Shape wanted) {
  const Tensor dims = constant(DType::kI32, {static_cast<std::int64_t>(wanted.size())});
  return reshaped_back(view_of("Reshape", {x, dims}, std::move(wanted)), x);
}

Tensor TensorFlowTape::flatten(Tensor x) {
  const std::int64_t rows = shape(x)[0];
  return reshaped(x, {rows, elements(shape(x)) / rows});
}

Tensor TensorFlowTape::unsqueeze(Tensor x, std::int64_t dim) {
  Shape wider = shape(x);
  wider.insert(wider.begin() + dim, 1);
  return reshaped_back(view_of("ExpandDims", {x, constant(DType::kI32, {})}, std::move(wider)), x);
}

Tensor TensorFlowTape::squeeze(Tensor x, std::int64_t dim) {
  Shape narrower = shape(x);
  narrower.erase(narrower.begin() + dim);
  return reshaped_back(view_of("Squeeze", {x}, std::move(narrower)), x);
}

Tensor TensorFlowTape::cat(const std::vector<Tensor>& parts) {
  Shape whole = shape(parts.front());
  whole[1] = 0;
  bool any = false;
  for (const Tensor part : parts) {
    whole[1] += shape(part)[1];
    any = any || flows(part);
  }
  const Tensor axis = constant(DType::kI32, {});
  std::vector<Tensor> inputs = parts;
  inputs.push_back(axis);
  const Tensor out = emit("ConcatV2", inputs, whole, Work{});
  if (!any) return out;
  const Tensor dims = dims_of_all(parts);
  flow(out, parts, [=, this](const Gradients& dy) {
    const Tensor at = emit("FloorMod", {axis, constant(DType::kI32, {})}, {i32({})}, {});
    std::vector<Tensor> asked{at};
    std::vector<TensorSpec> offsets;
    for (std::uint32_t k = 0; k < parts.size(); ++k) {
      asked.push_back({dims.op, k});
      offsets.push_back(i32({static_cast<std::int64_t>(whole.size())}));
    }
    const Tensor begin = emit("ConcatOffset", asked, offsets, {});
    std::vector<std::pair<Tensor, Tensor>> gradients;
    for (std::uint32_t k = 0; k < parts.size(); ++k) {
      if (!flows(parts[k])) continue;
      const Tensor slice = emit("Slice", {*dy[0], {begin.op, k}, {dims.op, k}}, shape(parts[k]), Work{});
      gradients.emplace_back(parts[k], slice);
    }
    pass(gradients);
  });
  return out;
}

Tensor TensorFlowTape::stack(const std::vector<Tensor>& parts) {
  Shape whole = shape(parts.front());
  whole.insert(whole.begin() + 1, static_cast<std::int64_t>(parts.size()));
  const Tensor out = emit("Pack", parts, whole, {.attrs = {{"axis", "1"}}});
  flow(out, parts, [this, parts](const Gradients& dy) {
    const std::vector<TensorSpec> outputs(parts.size(), f32(shape(parts.front())));
    const Tensor back = emit("Unpack", {*dy[0]}, outputs, {.attrs = {{"axis", "1"}}});
    std::vector<std::pair<Tensor, Tensor>> gradients;
    for (std::uint32_t k = 0; k < parts.size(); ++k) gradients.emplace_back(parts[k], Tensor{back.op, k});
    pass(gradients);
  });
  return out;
}

std::vector<Tensor> TensorFlowTape::unbind(Tensor x) {
  return unbound(x, "Unpack", "Pack", {.attrs = {{"axis", "1"}}});
}

std::vector<Tensor> TensorFlowTape::split(Tensor x, std::int64_t parts) {
  const std::vector<TensorSpec> outputs = equal_parts(x, parts);
  const Tensor axis = constant(DType::kI32, {});
  const Tensor out = emit("Split", {axis, x}, outputs, {});
  flow(out, {x}, [=, this](const Gradients& dy) {
    std::vector<Tensor> gradients = all_of(dy);
    gradients.push_back(axis);
    accumulate(x, emit("ConcatV2", gradients, shape(x), Work{}));
  });
  return outputs_of(out);
}

/// Selects one entry along the first dimension, or everything beyond a corner; `begin`, `end` and `strides`
/// are constants.
Tensor TensorFlowTape::strided_slice(Tensor x, Shape output, DType dtype) {
  const Shape corner{static_cast<std::int64_t>(shape(x).size())};
  std::vector<Tensor> inputs{x};
  for (int k = 0; k < 3; ++k) inputs.push_back(constant(DType::kI32, corner));
  return emit("StridedSlice", std::move(inputs), {{.dtype = dtype, .shape = std::move(output)}}, {});
}

// ---- Sequences ----

Tensor TensorFlowTape::new_zeros(Tensor like, Shape shape) {
  const Tensor dims = emit("Shape", {like}, {i32({static_cast<std::int64_t>(this->shape(like).size())})}, {});
  const Tensor batch = strided_slice(dims, {}, DType::kI32);
  const Tensor size =
      emit("Pack", {batch, constant(DType::kI32, {})}, {i32({static_cast<std::int64_t>(shape.size())})}, {});
  return emit("Fill", {size, constant(DType::kF32, {})}, std::move(shape));
}

std::optional<Tensor> TensorFlowTape::beyond_end(Tensor lengths, std::int64_t) {
  const Tensor time = constant(DType::kI32, {});
  const TensorSpec mask{.dtype = DType::kBool, .shape = shape(lengths)};
  return emit("GreaterEqual", {time, lengths}, {mask}, {});
}

Tensor TensorFlowTape::select(Tensor mask, Tensor kept, Tensor now) {
  const Tensor out = emit("Select", {mask, kept, now}, shape(now), Work{});
  flow(out, {kept, now}, [=, this](const Gradients& dy) {
    const Tensor zeros = emit("ZerosLike", {kept}, shape(now));
    std::vector<std::pair<Tensor, Tensor>> gradients;
    if (flows(kept)) gradients.emplace_back(kept, emit("Select", {mask, *dy[0], zeros}, shape(now), Work{}));
    if (flows(now)) gradients.emplace_back(now, emit("Select", {mask, zeros, *dy[0]}, shape(now), Work{}));
    pass(gradients);
  });
  return out;
}

}  // namespace emplace::models
