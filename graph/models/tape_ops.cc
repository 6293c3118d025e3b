// The ops of TrainingTape: each records itself, with its costs, and how its gradient is recorded.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "graph/models/training_tape.h"

namespace emplace::models {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }
std::string pair_of(std::int64_t value) { return "[" + number(value) + "," + number(value) + "]"; }

std::map<std::string_view, std::string> pool_attrs(const PoolOptions& options) {
  std::map<std::string_view, std::string> attrs{{"kernel_size", pair_of(options.kernel)},
                                                {"stride", pair_of(options.stride)}};
  if (options.padding != 0) attrs.emplace("padding", pair_of(options.padding));
  return attrs;
}

}  // namespace

// ---- Elementwise ----

Tensor TrainingTape::add(Tensor a, Tensor b) {
  const Tensor out = emit("aten::add", {a, b}, shape(a), {.flops = elements(shape(a))});
  const bool broadcast = shape(a) != shape(b);
  flow(out, {a, b}, [this, a, b, broadcast](const Gradients& dy) {
    Tensor to_b = *dy[0];
    if (broadcast && flows(b)) {
      to_b = emit("aten::sum", {to_b}, shape(b),
                  {.attrs = {{"dim", "[1]"}, {"keepdim", "true"}}, .flops = elements(shape(a))});
    }
    accumulate(a, *dy[0]);
    accumulate(b, to_b);
  });
  return out;
}

Tensor TrainingTape::sub(Tensor a, Tensor b) {
  const Tensor out = emit("aten::sub", {a, b}, shape(a), {.flops = elements(shape(a))});
  flow(out, {a, b}, [this, a, b](const Gradients& dy) {
    accumulate(a, *dy[0]);
    if (flows(b)) accumulate(b, emit("aten::neg", {*dy[0]}, shape(b), {.flops = elements(shape(b))}));
  });
  return out;
}

Tensor TrainingTape::mul(Tensor a, Tensor b) {
  const Tensor out = emit("aten::mul", {a, b}, shape(a), {.flops = elements(shape(a))});
  flow(out, {a, b}, [this, a, b](const Gradients& dy) {
    const auto times = [&](Tensor other) {
      return emit("aten::mul", {*dy[0], other}, shape(other), {.flops = elements(shape(other))});
    };
    std::optional<Tensor> to_b;
    if (flows(b)) to_b = times(a);
    if (flows(a)) accumulate(a, times(b));
    if (to_b) accumulate(b, *to_b);
  });
  return out;
}

Tensor TrainingTape::divide(Tensor a) {
  const Tensor out = emit("aten::div", {a}, shape(a), {.flops = elements(shape(a))});
  flow(out, {a}, [this, a](const Gradients& dy) {
    accumulate(a, emit("aten::div", {*dy[0]}, shape(a), {.flops = elements(shape(a))}));
  });
  return out;
}

Tensor TrainingTape::pointwise(std::string_view type, Tensor x, std::int64_t flops_each,
                               std::string_view backward_type, std::int64_t backward_flops_each) {
  const std::int64_t n = elements(shape(x));
  const Tensor out = emit(type, {x}, shape(x), {.flops = n * flops_each});
  flow(out, {x}, [this, x, out, backward_type, n, backward_flops_each](const Gradients& dy) {
    accumulate(x, emit(backward_type, {*dy[0], out}, shape(x), {.flops = n * backward_flops_each}));
  });
  return out;
}

Tensor TrainingTape::sigmoid(Tensor x) {
  return pointwise("aten::sigmoid", x, 4, "aten::sigmoid_backward", 3);
}
Tensor TrainingTape::tanh(Tensor x) { return pointwise("aten::tanh", x, 5, "aten::tanh_backward", 3); }
Tensor TrainingTape::relu(Tensor x) { return pointwise("aten::relu", x, 1, "aten::threshold_backward", 1); }

// ---- Products ----

Tensor TrainingTape::transposed(Tensor matrix) {
  const Shape flipped{shape(matrix)[1], shape(matrix)[0]};
  const Tensor out = view("aten::t", matrix, flipped);
  flow(out, {matrix},
       [this, matrix](const Gradients& dy) { accumulate(matrix, view("aten::t", *dy[0], shape(matrix))); });
  return out;
}

Tensor TrainingTape::reshaped(std::string_view type, Tensor x, Shape wanted) {
  const Tensor out = view(type, x, std::move(wanted));
  flow(out, {x},
       [this, x](const Gradients& dy) { accumulate(x, view("aten::_reshape_alias", *dy[0], shape(x))); });
  return out;
}

/// [B, in] [in, out] → [B, out]. torch computes the gradient of a transposed operand transposed.
Tensor TrainingTape::mm(Tensor x, Tensor weight_t) {
  const std::int64_t rows = shape(x)[0], in = shape(x)[1], cols = shape(weight_t)[1];
  EMPLACE_CHECK(in == shape(weight_t)[0], "inner dimensions agree");
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

Tensor TrainingTape::addmm(Tensor bias, Tensor x, Tensor weight_t) {
  const std::int64_t rows = shape(x)[0], in = shape(x)[1], cols = shape(weight_t)[1];
  EMPLACE_CHECK(in == shape(weight_t)[0] && cols == shape(bias)[0], "inner dimensions agree");
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
    const Tensor sum = emit("aten::sum", {*dy[0]}, Shape{1, cols},
                            {.attrs = {{"dim", "[0]"}, {"keepdim", "true"}}, .flops = rows * cols});
    accumulate(bias, view("aten::view", sum, {cols}));
    if (to_x) accumulate(x, *to_x);
    accumulate(weight_t, to_weight);
  });
  return out;
}

Tensor TrainingTape::linear(Tensor x, Tensor weight, Tensor bias) {
  const Tensor weight_t = transposed(weight);
  return addmm(bias, x, weight_t);
}

Tensor TrainingTape::linear(Tensor x, Tensor weight) {
  const Tensor weight_t = transposed(weight);
  if (shape(x).size() == 2) return mm(x, weight_t);
  const Shape whole = shape(x);
  const Tensor rows = reshaped("aten::_reshape_alias", x, {whole[0] * whole[1], whole[2]});
  return reshaped("aten::_unsafe_view", mm(rows, weight_t), {whole[0], whole[1], shape(weight_t)[1]});
}

Tensor TrainingTape::bmm(Tensor a, Tensor b) {
  const std::int64_t batch = shape(a)[0], m = shape(a)[1], k = shape(a)[2], n = shape(b)[2];
  EMPLACE_CHECK(batch == shape(b)[0] && k == shape(b)[1], "inner dimensions agree");
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

Tensor TrainingTape::cat(const std::vector<Tensor>& parts) {
  Shape whole = shape(parts.front());
  whole[1] = 0;
  for (const Tensor part : parts) whole[1] += shape(part)[1];
  const Tensor out = emit("aten::cat", parts, whole, {.attrs = {{"dim", "1"}}});
  flow(out, parts, [this, parts](const Gradients& dy) {
    std::vector<std::pair<Tensor, Tensor>> slices;
    std::int64_t start = 0;
    for (const Tensor part : parts) {
      const std::int64_t end = start + shape(part)[1];
      if (flows(part)) {
        const Attributes attrs{{"dim", "1"}, {"start", number(start)}, {"end", number(end)}};
        slices.emplace_back(part, view("aten::slice", *dy[0], shape(part), attrs));
      }
      start = end;
    }
    for (const auto& [part, slice] : slices) accumulate(part, slice);
  });
  return out;
}

Tensor TrainingTape::stack(const std::vector<Tensor>& parts) {
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

std::vector<Tensor> TrainingTape::unbind(Tensor x) {
  const Shape whole = shape(x);
  Shape part = whole;
  part.erase(part.begin() + 1);
  const DType dtype = ops_[x.op].spec.outputs[x.output].dtype;
  const std::vector<TensorSpec> outputs(static_cast<std::size_t>(whole[1]), {.dtype = dtype, .shape = part});
  const Tensor out = emit("aten::unbind", {x}, outputs, {.attrs = {{"dim", "1"}}, .view = true});
  flow(out, {x}, [this, x, whole](const Gradients& dy) {
    std::vector<Tensor> parts;
    for (const auto& gradient : dy) parts.push_back(gradient.value());
    accumulate(x, emit("aten::stack", parts, whole, {.attrs = {{"dim", "1"}}}));
  });
  std::vector<Tensor> parts;
  for (std::uint32_t k = 0; k < outputs.size(); ++k) parts.push_back({out.op, k});
  return parts;
}

std::vector<Tensor> TrainingTape::split(Tensor x, std::int64_t parts) {
  const Shape whole = shape(x);
  EMPLACE_CHECK(whole[1] % parts == 0, "parts are equal");
  Shape part = whole;
  part[1] /= parts;
  const std::vector<TensorSpec> outputs(static_cast<std::size_t>(parts), f32(part));
  const Tensor out = emit("aten::unsafe_split", {x}, outputs, {.attrs = {{"dim", "1"}}});
  flow(out, {x}, [this, x, whole](const Gradients& dy) {
    std::vector<Tensor> gradients;
    for (const auto& gradient : dy) gradients.push_back(gradient.value());
    accumulate(x, emit("aten::cat", gradients, whole, {.attrs = {{"dim", "1"}}}));
  });
  std::vector<Tensor> all;
  for (std::uint32_t k = 0; k < outputs.size(); ++k) all.push_back({out.op, k});
  return all;
}

Tensor TrainingTape::unsqueeze(Tensor x, std::int64_t dim) {
  Shape wider = shape(x);
  wider.insert(wider.begin() + dim, 1);
  const Tensor out = view("aten::unsqueeze", x, wider, {{"dim", number(dim)}});
  flow(out, {x}, [this, x, dim](const Gradients& dy) {
    accumulate(x, view("aten::squeeze", *dy[0], shape(x), {{"dim", number(dim)}}));
  });
  return out;
}

Tensor TrainingTape::squeeze(Tensor x, std::int64_t dim) {
  Shape narrower = shape(x);
  narrower.erase(narrower.begin() + dim);
  const Tensor out = view("aten::squeeze", x, narrower, {{"dim", number(dim)}});
  flow(out, {x}, [this, x, dim](const Gradients& dy) {
    accumulate(x, view("aten::unsqueeze", *dy[0], shape(x), {{"dim", number(dim)}}));
  });
  return out;
}

// ---- Images ----

Tensor TrainingTape::conv2d(Tensor x, Tensor weight, ConvOptions options) {
  const Shape in = shape(x), w = shape(weight);
  EMPLACE_CHECK(in[1] == w[1] * options.groups, "channels agree");
  const auto extent = [&](std::int64_t size) {
    return (size + 2 * options.padding - w[2]) / options.stride + 1;
  };
  const Shape made{in[0], w[0], extent(in[2]), extent(in[3])};
  const std::int64_t flops = 2 * elements(made) * w[1] * w[2] * w[3];
  Attributes attrs{{"stride", pair_of(options.stride)},
                   {"padding", pair_of(options.padding)},
                   {"dilation", pair_of(1)},
                   {"output_padding", pair_of(0)}};
  if (options.groups != 1) attrs.emplace("groups", number(options.groups));
  const Tensor out = emit("aten::convolution", {x, weight}, made,
                          {.attrs = attrs, .flops = flops, .conv_groups = options.groups});
  flow(out, {x, weight}, [=, this](const Gradients& dy) {
    const bool to_x = flows(x);
    Attributes backward_attrs = attrs;
    backward_attrs.emplace("output_mask", to_x ? "[true,true,false]" : "[false,true,false]");
    std::vector<TensorSpec> outputs;
    if (to_x) outputs.push_back(f32(in));
    outputs.push_back(f32(w));
    const Tensor back =
        emit("aten::convolution_backward", {*dy[0], x, weight}, outputs,
             {.attrs = backward_attrs, .flops = flops * (to_x ? 2 : 1), .conv_groups = options.groups});
    if (to_x) accumulate(x, back);
    accumulate(weight, {back.op, to_x ? 1u : 0u});
  });
  return out;
}

Tensor TrainingTape::batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor var) {
  const Shape in = shape(x);
  const std::vector<TensorSpec> outputs{f32(in), f32({in[1]}), f32({in[1]})};
  const Tensor out = emit("aten::native_batch_norm", {x, weight, bias, mean, var}, outputs,
                          {.attrs = {{"training", "true"}}, .flops = 8 * elements(in)});
  flow(out, {x, weight, bias}, [=, this](const Gradients& dy) {
    const Tensor saved_mean{out.op, 1}, saved_scale{out.op, 2};
    const Tensor back = emit(
        "aten::native_batch_norm_backward", {*dy[0], x, weight, mean, var, saved_mean, saved_scale}, outputs,
        {.attrs = {{"train", "true"}, {"output_mask", "[true,true,true]"}}, .flops = 12 * elements(in)});
    accumulate(x, back);
    accumulate(weight, {back.op, 1});
    accumulate(bias, {back.op, 2});
  });
  return out;
}

Tensor TrainingTape::avg_pool2d(Tensor x, PoolOptions options) {
  const Shape in = shape(x);
  const auto extent = [&](std::int64_t size) {
    return (size + 2 * options.padding - options.kernel) / options.stride + 1;
  };
  const Shape made{in[0], in[1], extent(in[2]), extent(in[3])};
  const std::int64_t flops = elements(made) * options.kernel * options.kernel;
  const Attributes attrs = pool_attrs(options);
  const Tensor out = emit("aten::avg_pool2d", {x}, made, {.attrs = attrs, .flops = flops});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("aten::avg_pool2d_backward", {*dy[0], x}, in, {.attrs = attrs, .flops = flops}));
  });
  return out;
}

Tensor TrainingTape::max_pool2d(Tensor x, PoolOptions options) {
  const Shape in = shape(x);
  const auto extent = [&](std::int64_t size) {
    return (size + 2 * options.padding - options.kernel) / options.stride + 1;
  };
  const Shape made{in[0], in[1], extent(in[2]), extent(in[3])};
  const Attributes attrs = pool_attrs(options);
  const std::vector<TensorSpec> outputs{f32(made), {.dtype = DType::kI64, .shape = made}};
  const Tensor out = emit("aten::max_pool2d_with_indices", {x}, outputs,
                          {.attrs = attrs, .flops = elements(made) * options.kernel * options.kernel});
  flow(out, {x}, [=, this](const Gradients& dy) {
    Attributes backward_attrs = attrs;
    backward_attrs.emplace("dilation", pair_of(1));
    accumulate(x, emit("aten::max_pool2d_with_indices_backward", {*dy[0], x, Tensor{out.op, 1}}, in,
                       {.attrs = backward_attrs, .flops = elements(made)}));
  });
  return out;
}

/// What is left from `start` on.
Tensor TrainingTape::sliced(Tensor x, std::int64_t dim, std::int64_t start) {
  Shape shorter = shape(x);
  shorter[static_cast<std::size_t>(dim)] -= start;
  const Tensor out = view("aten::slice", x, shorter, {{"dim", number(dim)}, {"start", number(start)}});
  flow(out, {x}, [this, x, dim, start](const Gradients& dy) {
    const Attributes attrs{{"dim", number(dim)}, {"start", number(start)}, {"step", "1"}};
    accumulate(x, emit("aten::slice_backward", {*dy[0]}, shape(x), {.attrs = attrs}));
  });
  return out;
}

Tensor TrainingTape::shifted(Tensor x) {
  const Shape in = shape(x);
  const Tensor padded = emit("aten::constant_pad_nd", {x}, Shape{in[0], in[1], in[2] + 1, in[3] + 1},
                             {.attrs = {{"pad", "[0,1,0,1]"}}});
  flow(padded, {x}, [this, x, in](const Gradients& dy) {
    accumulate(x, emit("aten::constant_pad_nd", {*dy[0]}, in, {.attrs = {{"pad", "[0,-1,0,-1]"}}}));
  });
  Tensor x_shifted = padded;
  for (std::int64_t dim = 0; dim < 4; ++dim) x_shifted = sliced(x_shifted, dim, dim < 2 ? 0 : 1);
  return x_shifted;
}

Tensor TrainingTape::global_mean(Tensor x) {
  const Shape in = shape(x);
  const Tensor out =
      emit("aten::mean", {x}, Shape{in[0], in[1]}, {.attrs = {{"dim", "[2,3]"}}, .flops = elements(in)});
  flow(out, {x}, [this, x, in](const Gradients& dy) {
    const Tensor column = view("aten::unsqueeze", *dy[0], {in[0], in[1], 1}, {{"dim", "2"}});
    const Tensor pixel = view("aten::unsqueeze", column, {in[0], in[1], 1, 1}, {{"dim", "3"}});
    const Tensor spread = view("aten::expand", pixel, in);
    accumulate(x, emit("aten::div", {spread}, in, {.flops = elements(in)}));
  });
  return out;
}

// ---- Lookup and loss ----

Tensor TrainingTape::embedding(Tensor table, Tensor indices) {
  Shape made = shape(indices);
  made.push_back(shape(table)[1]);
  const Tensor out = emit("aten::embedding", {table, indices}, made);
  flow(out, {table}, [this, table, indices, made](const Gradients& dy) {
    const Attributes attrs{{"num_weights", number(shape(table)[0])}, {"padding_idx", "-1"}};
    accumulate(table, emit("aten::embedding_dense_backward", {*dy[0], indices}, shape(table),
                           {.attrs = attrs, .flops = elements(made)}));
  });
  return out;
}

Tensor TrainingTape::softmax(Tensor x) {
  const Shape in = shape(x);
  const Attributes attrs{{"dim", "1"}};
  const Tensor out = emit("aten::_softmax", {x}, in, {.attrs = attrs, .flops = 5 * elements(in)});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("aten::_softmax_backward_data", {*dy[0], out}, in,
                       {.attrs = attrs, .flops = 4 * elements(in)}));
  });
  return out;
}

Tensor TrainingTape::cross_entropy(Tensor logits, Tensor labels) {
  const Shape in = shape(logits);
  const Attributes along{{"dim", "1"}}, mean{{"reduction", "1"}};
  const Tensor log_p = emit("aten::_log_softmax", {logits}, in, {.attrs = along, .flops = 5 * elements(in)});
  flow(log_p, {logits}, [=, this](const Gradients& dy) {
    accumulate(logits, emit("aten::_log_softmax_backward_data", {*dy[0], log_p}, in,
                            {.attrs = along, .flops = 5 * elements(in)}));
  });
  const Tensor loss = emit("aten::nll_loss_forward", {log_p, labels},
                           std::vector<TensorSpec>{f32({}), f32({})}, {.attrs = mean, .flops = in[0]});
  flow(loss, {log_p}, [=, this](const Gradients& dy) {
    const Tensor total_weight{loss.op, 1};
    accumulate(log_p,
               emit("aten::nll_loss_backward", {*dy[0], log_p, labels, total_weight}, in, {.attrs = mean}));
  });
  return loss;
}

}  // namespace emplace::models
