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
  return convolution({x, weight}, options);
}
Tensor AtenTape::conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) {
  return convolution({x, weight, bias}, options);
}

Tensor AtenTape::convolution(const std::vector<Tensor>& read, const ConvOptions& options) {
  const Shape w = shape(read[1]), made = convolved(shape(read[0]), w, options);
  Attributes attrs{{"stride", pair_of(options.stride)},
                   {"padding", pair_of(options.padding, options.width_padding())},
                   {"dilation", pair_of(1)},
                   {"output_padding", pair_of(0)}};
  if (options.groups != 1) attrs.emplace("groups", std::to_string(options.groups));
  return convolution(read, f32(made), attrs, 2 * elements(made) * w[1] * w[2] * w[3], options.groups);
}

Tensor AtenTape::convolution(const std::vector<Tensor>& read, const TensorSpec& made, const Attributes& attrs,
                             std::int64_t each, std::int64_t groups) {
  const std::int64_t biased = read.size() > 2 ? capped::elements(made.shape) : 0;
  const Tensor out = emit("aten::convolution", read, std::vector{made},
                          {.attrs = attrs, .flops = each + biased, .conv_groups = groups});
  flow(out, read, [=, this](const Gradients& dy) {
    std::string mask;
    std::vector<TensorSpec> outputs;
    std::int64_t flops = 0;
    std::vector<Tensor> targets;
    for (std::size_t k = 0; k < 3; ++k) {
      const bool asked = k < read.size() && flows(read[k]);
      mask.append(k > 0 ? "," : "[").append(asked ? "true" : "false");
      if (!asked) continue;
      outputs.push_back({.dtype = dtype(read[k]), .shape = shape(read[k])});
      targets.push_back(read[k]);
      flops += k < 2 ? each : biased;
    }
    Attributes backward_attrs = attrs;
    backward_attrs.emplace("output_mask", mask + "]");
    const Tensor back = emit("aten::convolution_backward", {*dy[0], read[0], read[1]}, outputs,
                             {.attrs = backward_attrs, .flops = flops, .conv_groups = groups});
    for (std::uint32_t k = 0; k < targets.size(); ++k) accumulate(targets[k], {back.op, k});
  });
  return out;
}

Tensor AtenTape::batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor var) {
  const Shape in = shape(x);
  const TensorSpec saved{.dtype = dtype(x), .shape = {training() ? in[1] : 0}};
  const std::vector<TensorSpec> outputs{{.dtype = dtype(x), .shape = in}, saved, saved};
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

Tensor AtenTape::padded(Tensor x, const Shape& made, const std::string& pad, const std::string& undo) {
  const Tensor out = emit("aten::constant_pad_nd", {x}, made, {.attrs = {{"pad", pad}}});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("aten::constant_pad_nd", {*dy[0]}, shape(x), {.attrs = {{"pad", undo}}}));
  });
  return out;
}

Tensor AtenTape::shifted(Tensor x) {
  const Shape in = shape(x);
  Tensor x_shifted = padded(x, {in[0], in[1], in[2] + 1, in[3] + 1}, "[0,1,0,1]", "[0,-1,0,-1]");
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

Tensor AtenTape::softmax(Tensor x, std::size_t dim, bool log) {
  const Attributes attrs{{"dim", std::to_string(dim)}};
  const Tensor out = emit(log ? "aten::_log_softmax" : "aten::_softmax", {x}, shape(x), {.attrs = attrs});
  flow(out, {x}, [=, this](const Gradients& dy) {
    const std::string_view type = log ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data";
    accumulate(x, emit(type, {*dy[0], out}, shape(x), {.attrs = attrs}));
  });
  return out;
}

Tensor AtenTape::cross_entropy(Tensor logits, Tensor labels) {
  return likelihood(softmax(logits, 1, /*log=*/true), labels);
}

Tensor AtenTape::likelihood(Tensor log_p, Tensor labels) {
  const Shape in = shape(log_p);
  const std::string type = in.size() > 2 ? "aten::nll_loss2d" : "aten::nll_loss";
  const Attributes mean{{"reduction", "1"}};
  const TensorSpec scalar{.dtype = dtype(log_p), .shape = {}};
  const Tensor loss = emit(type + "_forward", {log_p, labels}, std::vector{scalar, scalar}, {.attrs = mean});
  flow(loss, {log_p}, [=, this](const Gradients& dy) {
    const Tensor total_weight{loss.op, 1};
    accumulate(log_p, emit(type + "_backward", {*dy[0], log_p, labels, total_weight}, in, {.attrs = mean}));
  });
  return loss;
}

}  // namespace emplace::models
