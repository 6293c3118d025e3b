// Element-wise ops, products and shapes in the form of torch's tracer.
#include <utility>

#include "base/check.h"
#include "graph/tape/aten_tape.h"

namespace emplace::models {
// ---- Elementwise ----

Tensor AtenTape::add(Tensor a, Tensor b) {
  const Tensor out = emit("aten::add", {a, b}, shape(a));
  const bool broadcast = shape(a) != shape(b);
  flow(out, {a, b}, [this, a, b, broadcast](const Gradients& dy) {
    Tensor to_b = *dy[0];
    if (broadcast && flows(b)) {
      to_b = emit("aten::sum", {to_b}, shape(b), {.attrs = {{"dim", "[1]"}, {"keepdim", "true"}}});
    }
    accumulate(a, *dy[0]);
    accumulate(b, to_b);
  });
  return out;
}

Tensor AtenTape::sub(Tensor a, Tensor b) {
  const Tensor out = emit("aten::sub", {a, b}, shape(a));
  flow(out, {a, b}, [this, a, b](const Gradients& dy) {
    accumulate(a, *dy[0]);
    if (flows(b)) accumulate(b, emit("aten::neg", {*dy[0]}, shape(b)));
  });
  return out;
}

Tensor AtenTape::mul(Tensor a, Tensor b) {
  const Tensor out = emit("aten::mul", {a, b}, shape(a));
  flow(out, {a, b}, [this, a, b](const Gradients& dy) {
    const auto times = [&](Tensor other) { return emit("aten::mul", {*dy[0], other}, shape(other)); };
    std::optional<Tensor> to_b;
    if (flows(b)) to_b = times(a);
    if (flows(a)) accumulate(a, times(b));
    if (to_b) accumulate(b, *to_b);
  });
  return out;
}

Tensor AtenTape::by_constant(std::string_view type, Tensor x) {
  const Tensor out = emit(type, {x}, shape(x));
  flow(out, {x}, [this, type, x](const Gradients& dy) { accumulate(x, emit(type, {*dy[0]}, shape(x))); });
  return out;
}
Tensor AtenTape::divide(Tensor a) { return by_constant("aten::div", a); }
Tensor AtenTape::scale(Tensor a) { return by_constant("aten::mul", a); }

Tensor AtenTape::add_constant(Tensor a) {
  const Tensor out = emit("aten::add", {a}, shape(a));
  flow(out, {a}, [this, a](const Gradients& dy) { accumulate(a, *dy[0]); });
  return out;
}

Tensor AtenTape::dropout(Tensor x) {
  if (!training()) return x;
  const Tensor like = emit("aten::empty_like", {x}, shape(x));
  const Tensor drawn = emit("aten::bernoulli", {like}, shape(x));
  return mul(x, emit("aten::div", {drawn}, shape(x)));
}

Tensor AtenTape::pointwise(std::string_view type, Tensor x, std::string_view backward_type) {
  const Tensor out = emit(type, {x}, shape(x));
  flow(out, {x}, [this, x, out, backward_type](const Gradients& dy) {
    accumulate(x, emit(backward_type, {*dy[0], out}, shape(x)));
  });
  return out;
}

Tensor AtenTape::sigmoid(Tensor x) { return pointwise("aten::sigmoid", x, "aten::sigmoid_backward"); }
Tensor AtenTape::tanh(Tensor x) { return pointwise("aten::tanh", x, "aten::tanh_backward"); }
Tensor AtenTape::relu(Tensor x) { return pointwise("aten::relu", x, "aten::threshold_backward"); }

// ---- Products ----

Tensor AtenTape::transposed(Tensor matrix) {
  const Shape flipped{shape(matrix)[1], shape(matrix)[0]};
  const Tensor out = view("aten::t", matrix, flipped);
  flow(out, {matrix},
       [this, matrix](const Gradients& dy) { accumulate(matrix, view("aten::t", *dy[0], shape(matrix))); });
  return out;
}

Tensor AtenTape::reshaped(std::string_view type, Tensor x, Shape wanted) {
  const Tensor out = view(type, x, std::move(wanted));
  flow(out, {x},
       [this, x](const Gradients& dy) { accumulate(x, view("aten::_reshape_alias", *dy[0], shape(x))); });
  return out;
}

/// Product [B, in] [in, out] → [B, out]. torch computes the gradient of a transposed operand in transposed
/// form.
Tensor AtenTape::mm(Tensor x, Tensor weight_t) {
  const std::int64_t rows = shape(x)[0], in = shape(x)[1], cols = shape(weight_t)[1];
  EMPLACE_CHECK(in == shape(weight_t)[0], "inner dimensions must agree");
  const std::int64_t flops = 2 * rows * in * cols;
  const Tensor out = emit("aten::mm", {x, weight_t}, Shape{rows, cols}, {.flops = flops});
  flow(out, {x, weight_t}, [=, this](const Gradients& dy) {
    std::optional<Tensor> to_weight;
    if (flows(weight_t)) {
      const Tensor dy_t = view("aten::t", *dy[0], {cols, rows});
      const Tensor product = emit("aten::mm", {dy_t, x}, Shape{cols, in}, {.flops = flops});
      to_weight = view("aten::t", product, {in, cols});
    }
    if (flows(x)) {
      const Tensor weight = view("aten::t", weight_t, {cols, in});
      accumulate(x, emit("aten::mm", {*dy[0], weight}, Shape{rows, in}, {.flops = flops}));
    }
    if (to_weight) accumulate(weight_t, *to_weight);
  });
  return out;
}

Tensor AtenTape::addmm(Tensor bias, Tensor x, Tensor weight_t) {
  const std::int64_t rows = shape(x)[0], in = shape(x)[1], cols = shape(weight_t)[1];
  EMPLACE_CHECK(in == shape(weight_t)[0] && cols == shape(bias)[0], "inner dimensions must agree");
  const std::int64_t flops = 2 * rows * in * cols;
  const Tensor out =
      emit("aten::addmm", {bias, x, weight_t}, Shape{rows, cols}, {.flops = flops + rows * cols});
  flow(out, {bias, x, weight_t}, [=, this](const Gradients& dy) {
    std::optional<Tensor> to_x;
    if (flows(x)) {
      const Tensor weight = view("aten::t", weight_t, {cols, in});
      to_x = emit("aten::mm", {*dy[0], weight}, Shape{rows, in}, {.flops = flops});
    }
    const Tensor dy_t = view("aten::t", *dy[0], {cols, rows});
    const Tensor product = emit("aten::mm", {dy_t, x}, Shape{cols, in}, {.flops = flops});
    const Tensor to_weight = view("aten::t", product, {in, cols});
    const Tensor sum =
        emit("aten::sum", {*dy[0]}, Shape{1, cols}, {.attrs = {{"dim", "[0]"}, {"keepdim", "true"}}});
    accumulate(bias, view("aten::view", sum, {cols}));
    if (to_x) accumulate(x, *to_x);
    accumulate(weight_t, to_weight);
  });
  return out;
}

Tensor AtenTape::linear(Tensor x, Tensor weight, Tensor bias) {
  const Tensor weight_t = transposed(weight);
  return addmm(bias, x, weight_t);
}

Tensor AtenTape::linear(Tensor x, Tensor weight) {
  const Tensor weight_t = transposed(weight);
  if (shape(x).size() == 2) return mm(x, weight_t);
  const Shape whole = shape(x);
  const Tensor rows = reshaped("aten::_reshape_alias", x, {whole[0] * whole[1], whole[2]});
  return reshaped("aten::_unsafe_view", mm(rows, weight_t), {whole[0], whole[1], shape(weight_t)[1]});
}

Tensor AtenTape::bmm(Tensor a, Tensor b) {
  const std::int64_t batch = shape(a)[0], m = shape(a)[1], k = shape(a)[2], n = shape(b)[2];
  EMPLACE_CHECK(batch == shape(b)[0] && k == shape(b)[1], "inner dimensions must agree");
  const std::int64_t flops = 2 * batch * m * k * n;
  const Tensor out = emit("aten::bmm", {a, b}, Shape{batch, m, n}, {.flops = flops});
  flow(out, {a, b}, [=, this](const Gradients& dy) {
    const Attributes dims{{"dim0", "1"}, {"dim1", "2"}};
    std::optional<Tensor> to_a, to_b;
    if (flows(b)) {
      const Tensor a_t = view("aten::transpose", a, {batch, k, m}, dims);
      to_b = emit("aten::bmm", {a_t, *dy[0]}, Shape{batch, k, n}, {.flops = flops});
    }
    if (flows(a)) {
      const Tensor b_t = view("aten::transpose", b, {batch, n, k}, dims);
      to_a = emit("aten::bmm", {*dy[0], b_t}, Shape{batch, m, k}, {.flops = flops});
    }
    if (to_a) accumulate(a, *to_a);
    if (to_b) accumulate(b, *to_b);
  });
  return out;
}

// ---- Shapes ----

Tensor AtenTape::cat(const std::vector<Tensor>& parts) { return cat(parts, 1); }

Tensor AtenTape::cat(const std::vector<Tensor>& parts, std::size_t dim) {
  Shape whole = shape(parts.front());
  whole[dim] = 0;
  for (const Tensor part : parts) whole[dim] += shape(part)[dim];
  const std::string at = std::to_string(dim);
  const Tensor out = emit("aten::cat", parts, whole, {.attrs = {{"dim", at}}});
  flow(out, parts, [this, parts, dim, at](const Gradients& dy) {
    std::vector<std::pair<Tensor, Tensor>> slices;
    std::int64_t start = 0;
    for (const Tensor part : parts) {
      const std::int64_t end = start + shape(part)[dim];
      if (flows(part)) {
        const Attributes attrs{{"dim", at}, {"start", std::to_string(start)}, {"end", std::to_string(end)}};
        slices.emplace_back(part, view("aten::slice", *dy[0], shape(part), attrs));
      }
      start = end;
    }
    for (const auto& [part, slice] : slices) accumulate(part, slice);
  });
  return out;
}

Tensor AtenTape::stack(const std::vector<Tensor>& parts) {
  Shape whole = shape(parts.front());
  whole.insert(whole.begin() + 1, static_cast<std::int64_t>(parts.size()));
  const Tensor out = emit("aten::stack", parts, whole, {.attrs = {{"dim", "1"}}});
  flow(out, parts, [this, parts](const Gradients& dy) {
    std::vector<Tensor> selected;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Attributes attrs{{"dim", "1"}, {"index", std::to_string(k)}};
      selected.push_back(view("aten::select", *dy[0], shape(parts[k]), attrs));
    }
    for (std::size_t k = 0; k < parts.size(); ++k) accumulate(parts[k], selected[k]);
  });
  return out;
}

std::vector<Tensor> AtenTape::unbind(Tensor x) {
  return unbound(x, "aten::unbind", "aten::stack", {.attrs = {{"dim", "1"}}, .view = true});
}

std::vector<Tensor> AtenTape::split(Tensor x, std::int64_t parts) {
  const Tensor out = emit("aten::unsafe_split", {x}, equal_parts(x, parts), {.attrs = {{"dim", "1"}}});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("aten::cat", all_of(dy), shape(x), {.attrs = {{"dim", "1"}}}));
  });
  return outputs_of(out);
}

Tensor AtenTape::unsqueeze(Tensor x, std::int64_t dim) {
  Shape wider = shape(x);
  wider.insert(wider.begin() + dim, 1);
  const Tensor out = view("aten::unsqueeze", x, wider, {{"dim", std::to_string(dim)}});
  flow(out, {x}, [this, x, dim](const Gradients& dy) {
    accumulate(x, view("aten::squeeze", *dy[0], shape(x), {{"dim", std::to_string(dim)}}));
  });
  return out;
}

Tensor AtenTape::squeeze(Tensor x, std::int64_t dim) {
  Shape narrower = shape(x);
  narrower.erase(narrower.begin() + dim);
  const Tensor out = view("aten::squeeze", x, narrower, {{"dim", std::to_string(dim)}});
  flow(out, {x}, [this, x, dim](const Gradients& dy) {
    accumulate(x, view("aten::unsqueeze", *dy[0], shape(x), {{"dim", std::to_string(dim)}}));
  });
  return out;
}

Tensor AtenTape::flatten(Tensor x) {
  const std::int64_t rows = shape(x)[0];
  return reshaped("aten::_reshape_alias", x, {rows, elements(shape(x)) / rows});
}

}  // namespace emplace::models
