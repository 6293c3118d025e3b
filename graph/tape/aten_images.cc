// Images, lookup and loss in the form of torch's tracer.
#include <utility>

#include "base/check.h"
#include "graph/tape/aten_tape.h"

namespace emplace::models {
namespace {

std::map<std::string_view, std::string> aten_pool_attrs(const PoolOptions& options) {
  std::map<std::string_view, std::string> attrs{{"kernel_size", pair_of(options.kernel)},
                                                {"stride", pair_of(options.stride)}};
  if (options.padding != 0) attrs.emplace("padding", pair_of(options.padding));
  return attrs;
}

}  // namespace

// ---- Images ----

Tensor AtenTape::conv2d(Tensor x, Tensor weight, ConvOptions options) {
  return convolution(x, weight, nullptr, options);
}
Tensor AtenTape::conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) {
  return convolution(x, weight, &bias, options);
}

Tensor AtenTape::convolution(Tensor x, Tensor weight, const Tensor* bias, ConvOptions options) {
  const Shape in = shape(x), w = shape(weight);
  const Shape made = convolved(in, w, options);
  const std::int64_t each = 2 * elements(made) * w[1] * w[2] * w[3];
  Attributes attrs{{"stride", pair_of(options.stride)},
                   {"padding", pair_of(options.padding, options.width_padding())},
                   {"dilation", pair_of(1)},
                   {"output_padding", pair_of(0)}};
  if (options.groups != 1) attrs.emplace("groups", std::to_string(options.groups));
  std::vector<Tensor> inputs{x, weight};
  if (bias != nullptr) inputs.push_back(*bias);
  const std::int64_t biased = bias != nullptr ? elements(made) : 0;
  const Tensor out = emit("aten::convolution", inputs, made,
                          {.attrs = attrs, .flops = each + biased, .conv_groups = options.groups});
  flow(out, inputs, [=, this](const Gradients& dy) {
    const bool to_x = flows(x);
    Attributes backward_attrs = attrs;
    backward_attrs.emplace("output_mask", std::string{to_x ? "[true" : "[false"} +
                                              (inputs.size() > 2 ? ",true,true]" : ",true,false]"));
    std::vector<TensorSpec> outputs;
    for (std::size_t k = to_x ? 0 : 1; k < inputs.size(); ++k) outputs.push_back(f32(shape(inputs[k])));
    const Tensor back = emit(
        "aten::convolution_backward", {*dy[0], x, weight}, outputs,
        {.attrs = backward_attrs, .flops = each * (to_x ? 2 : 1) + biased, .conv_groups = options.groups});
    for (std::uint32_t k = to_x ? 0 : 1, output = 0; k < inputs.size(); ++k)
      accumulate(inputs[k], {back.op, output++});
  });
  return out;
}

Tensor AtenTape::batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor var) {
  const Shape in = shape(x);
  const Shape saved{training() ? in[1] : 0};
  const std::vector<TensorSpec> outputs{f32(in), f32(saved), f32(saved)};
  const Attributes attrs{{"training", training() ? "true" : "false"}};
  const Tensor out = emit("aten::native_batch_norm", {x, weight, bias, mean, var}, outputs, {.attrs = attrs});
  flow(out, {x, weight, bias}, [=, this](const Gradients& dy) {
    const Tensor saved_mean{out.op, 1}, saved_scale{out.op, 2};
    const Tensor back =
        emit("aten::native_batch_norm_backward", {*dy[0], x, weight, mean, var, saved_mean, saved_scale},
             outputs, {.attrs = {{"train", "true"}, {"output_mask", "[true,true,true]"}}});
    accumulate(x, back);
    accumulate(weight, {back.op, 1});
    accumulate(bias, {back.op, 2});
  });
  return out;
}

Tensor AtenTape::avg_pool2d(Tensor x, PoolOptions options) {
  const Shape in = shape(x);
  const Shape made = pooled(in, options);
  const std::int64_t flops = elements(made) * options.kernel * options.kernel;
  const Attributes attrs = aten_pool_attrs(options);
  const Tensor out = emit("aten::avg_pool2d", {x}, made, {.attrs = attrs, .flops = flops});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("aten::avg_pool2d_backward", {*dy[0], x}, in, {.attrs = attrs, .flops = flops}));
  });
  return out;
}

Tensor AtenTape::max_pool2d(Tensor x, PoolOptions options) {
  const Shape in = shape(x);
  const Shape made = pooled(in, options);
  const Attributes attrs = aten_pool_attrs(options);
  const std::vector<TensorSpec> outputs{f32(made), {.dtype = DType::kI64, .shape = made}};
  const Tensor out = emit("aten::max_pool2d_with_indices", {x}, outputs,
                          {.attrs = attrs, .flops = elements(made) * options.kernel * options.kernel});
  flow(out, {x}, [=, this](const Gradients& dy) {
    Attributes backward_attrs = attrs;
    backward_attrs.emplace("dilation", pair_of(1));
    accumulate(x, emit("aten::max_pool2d_with_indices_backward", {*dy[0], x, Tensor{out.op, 1}}, in,
                       {.attrs = backward_attrs}));
  });
  return out;
}

/// The elements from `start` on.
Tensor AtenTape::sliced(Tensor x, std::int64_t dim, std::int64_t start) {
  Shape shorter = shape(x);
  shorter[static_cast<std::size_t>(dim)] -= start;
  const Tensor out =
      view("aten::slice", x, shorter, {{"dim", std::to_string(dim)}, {"start", std::to_string(start)}});
  flow(out, {x}, [this, x, dim, start](const Gradients& dy) {
    const Attributes attrs{{"dim", std::to_string(dim)}, {"start", std::to_string(start)}, {"step", "1"}};
    accumulate(x, emit("aten::slice_backward", {*dy[0]}, shape(x), {.attrs = attrs}));
  });
  return out;
}

Tensor AtenTape::shifted(Tensor x) {
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

Tensor AtenTape::global_mean(Tensor x) {
  const Shape in = shape(x);
  const Tensor out = emit("aten::mean", {x}, Shape{in[0], in[1]}, {.attrs = {{"dim", "[2,3]"}}});
  flow(out, {x}, [this, x, in](const Gradients& dy) {
    const Tensor column = view("aten::unsqueeze", *dy[0], {in[0], in[1], 1}, {{"dim", "2"}});
    const Tensor pixel = view("aten::unsqueeze", column, {in[0], in[1], 1, 1}, {{"dim", "3"}});
    const Tensor spread = view("aten::expand", pixel, in);
    accumulate(x, emit("aten::div", {spread}, in));
  });
  return out;
}

Tensor AtenTape::pool_all(Tensor x) {
  const Shape in = shape(x);
  const Tensor out = emit("aten::mean", {x}, Shape{in[0], in[1], 1, 1},
                          {.attrs = {{"dim", "[-1,-2]"}, {"keepdim", "true"}}});
  flow(out, {x}, [this, x, in](const Gradients& dy) {
    const Tensor spread = view("aten::expand", *dy[0], in);
    accumulate(x, emit("aten::div", {spread}, in));
  });
  return out;
}

// ---- Lookup and loss ----

Tensor AtenTape::embedding(Tensor table, Tensor indices) {
  Shape made = shape(indices);
  made.push_back(shape(table)[1]);
  const Tensor out = emit("aten::embedding", {table, indices}, made);
  flow(out, {table}, [this, table, indices, made](const Gradients& dy) {
    const Attributes attrs{{"num_weights", std::to_string(shape(table)[0])}, {"padding_idx", "-1"}};
    accumulate(table,
               emit("aten::embedding_dense_backward", {*dy[0], indices}, shape(table), {.attrs = attrs}));
  });
  return out;
}

Tensor AtenTape::softmax(Tensor x) {
  const Shape in = shape(x);
  const Attributes attrs{{"dim", "1"}};
  const Tensor out = emit("aten::_softmax", {x}, in, {.attrs = attrs});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("aten::_softmax_backward_data", {*dy[0], out}, in, {.attrs = attrs}));
  });
  return out;
}

Tensor AtenTape::cross_entropy(Tensor logits, Tensor labels) {
  const Shape in = shape(logits);
  const Attributes along{{"dim", "1"}}, mean{{"reduction", "1"}};
  const Tensor log_p = emit("aten::_log_softmax", {logits}, in, {.attrs = along});
  flow(log_p, {logits}, [=, this](const Gradients& dy) {
    accumulate(logits, emit("aten::_log_softmax_backward_data", {*dy[0], log_p}, in, {.attrs = along}));
  });
  const Tensor loss = emit("aten::nll_loss_forward", {log_p, labels},
                           std::vector<TensorSpec>{f32({}), f32({})}, {.attrs = mean});
  flow(loss, {log_p}, [=, this](const Gradients& dy) {
    const Tensor total_weight{loss.op, 1};
    accumulate(log_p,
               emit("aten::nll_loss_backward", {*dy[0], log_p, labels, total_weight}, in, {.attrs = mean}));
  });
  return loss;
}

}  // namespace emplace::models
