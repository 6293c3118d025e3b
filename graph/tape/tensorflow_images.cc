// Images, lookup and loss in the form of TensorFlow.
#include <fmt/core.h>

#include <utility>

#include "graph/tape/tensorflow_tape.h"

namespace emplace::models {
namespace {

std::map<std::string_view, std::string> pool_attrs(const PoolOptions& options) {
  return {{"ksize", pair_of(options.kernel)},
          {"padding", pair_of(options.padding)},
          {"strides", pair_of(options.stride)}};
}

}  // namespace

// ---- Images ----

Tensor TensorFlowTape::conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) {
  return bias_add(conv2d(x, weight, options), bias);
}

Tensor TensorFlowTape::conv2d(Tensor x, Tensor weight, ConvOptions options) {
  const Shape w = shape(weight), made = convolved(shape(x), w, options);
  const std::string type = options.groups == 1 ? "Conv2D" : "DepthwiseConv2dNative";
  const Work work{.attrs = {{"padding", pair_of(options.padding, options.width_padding())},
                            {"strides", pair_of(options.stride)}},
                  .flops = 2 * elements(made) * w[1] * w[2] * w[3],
                  .conv_groups = options.groups};
  const Tensor out = emit(type, {x, weight}, made, work);
  if (!flows(x) && !flows(weight)) return out;
  const Tensor dims = dims_of_all({x, weight});
  flow(out, {x, weight}, [=, this](const Gradients& dy) {
    std::vector<std::pair<Tensor, Tensor>> gradients;
    if (flows(x)) {
      const std::vector<Tensor> inputs{{dims.op, 0}, weight, *dy[0]};
      gradients.emplace_back(x, emit(type + "BackpropInput", inputs, shape(x), work));
    }
    if (flows(weight)) {
      const std::vector<Tensor> inputs{x, {dims.op, 1}, *dy[0]};
      gradients.emplace_back(weight, emit(type + "BackpropFilter", inputs, shape(weight), work));
    }
    pass(gradients);
  });
  return out;
}

Tensor TensorFlowTape::batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor var) {
  const Shape in = shape(x);
  const TensorSpec per_channel = f32({in[1]}), none = f32({0});
  const std::vector<TensorSpec> outputs{f32(in), per_channel, per_channel, per_channel, per_channel};
  const Attributes attrs{{"is_training", training() ? "true" : "false"}};
  const std::int64_t n = elements(in);
  if (!training()) {
    return emit("FusedBatchNorm", {x, weight, bias, read(mean), read(var)}, outputs, {.attrs = attrs});
  }
  const Tensor no_mean = constant(DType::kF32, {0}), no_var = constant(DType::kF32, {0});
  const Tensor out = emit("FusedBatchNorm", {x, weight, bias, no_mean, no_var}, outputs, {.attrs = attrs});
  flow(out, {x, weight, bias}, [=, this](const Gradients& dy) {
    const Tensor back =
        emit("FusedBatchNormGrad", {*dy[0], x, weight, {out.op, 3}, {out.op, 4}},
             {f32(in), per_channel, per_channel, none, none}, {.attrs = attrs, .flops = 12 * n});
    pass({{x, back}, {weight, {back.op, 1}}, {bias, {back.op, 2}}});
  });
  // AssignMovingAvg: moves the average towards the batch's value.
  const Phase before = std::exchange(phase_, Phase::kUpdate);
  for (const auto& [moving, output] : {std::pair{mean, 1u}, std::pair{var, 2u}}) {
    const std::vector<TensorSpec> like{per_channel};
    const Tensor share = constant(DType::kF32, {});
    const Tensor apart = at_variable(moving, "Sub", {read(moving), {out.op, output}}, like, in[1]);
    const Tensor part = at_variable(moving, "Mul", {apart, share}, like, in[1]);
    at_variable(moving, "AssignSub", {moving, part}, like, in[1]);
  }
  phase_ = before;
  return out;
}

Tensor TensorFlowTape::avg_pool2d(Tensor x, PoolOptions options) {
  const Shape made = pooled(shape(x), options);
  const Work work{.attrs = pool_attrs(options), .flops = elements(made) * options.kernel * options.kernel};
  const Tensor out = emit("AvgPool", {x}, made, work);
  if (!flows(x)) return out;
  const Tensor dims = dims_of(x);
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("AvgPoolGrad", {dims, *dy[0]}, shape(x), work));
  });
  return out;
}

Tensor TensorFlowTape::max_pool2d(Tensor x, PoolOptions options) {
  const Shape made = pooled(shape(x), options);
  const Attributes attrs = pool_attrs(options);
  const Tensor out =
      emit("MaxPool", {x}, made, {.attrs = attrs, .flops = elements(made) * options.kernel * options.kernel});
  flow(out, {x}, [=, this](const Gradients& dy) {
    accumulate(x, emit("MaxPoolGrad", {x, out, *dy[0]}, shape(x), {.attrs = attrs, .flops = elements(made)}));
  });
  return out;
}

Tensor TensorFlowTape::shifted(Tensor x) {
  const Shape in = shape(x);
  const Tensor paddings = constant(DType::kI32, {4, 2});
  const Tensor padded = emit("Pad", {x, paddings}, Shape{in[0], in[1], in[2] + 1, in[3] + 1});
  if (flows(x)) {
    const Tensor dims = dims_of(x);
    flow(padded, {x}, [=, this](const Gradients& dy) {
      accumulate(x, emit("Slice", {*dy[0], constant(DType::kI32, {4}), dims}, in));
    });
  }
  const Tensor out = strided_slice(padded, in, DType::kF32);
  if (!flows(padded)) return out;
  const Tensor dims = dims_of(padded);
  flow(out, {padded}, [=, this](const Gradients& dy) {
    const std::vector<Tensor> asked = ops_[out.op].spec.inputs;  // The tensor, then its corners.
    accumulate(padded, emit("StridedSliceGrad", {dims, asked[1], asked[2], asked[3], *dy[0]}, shape(padded)));
  });
  return out;
}

/// The mean and its gradient: each entry gets dy divided by the count, which is computed too.
Tensor TensorFlowTape::mean(Tensor x, Shape output) {
  const Tensor axes = constant(DType::kI32, {static_cast<std::int64_t>(shape(x).size())});
  const Tensor out = emit("Mean", {x, axes}, std::move(output));
  if (!flows(x)) return out;
  const Tensor dims = dims_of(x), out_dims = dims_of(out);
  flow(out, {x}, [=, this](const Gradients& dy) {
    const auto number = [this](std::string_view type, std::vector<Tensor> inputs) {
      return emit(type, std::move(inputs), {i32({})}, {});
    };
    Shape ones = shape(x);  // Shape of the result, with 1 for averaged dimensions.
    for (std::size_t k = 0; k < ones.size(); ++k)
      ones[k] = k < shape(out).size() && shape(out)[k] == ones[k] ? ones[k] : 1;
    const Tensor narrow = constant(DType::kI32, shape(dims));
    const Tensor wide = view_of("Reshape", {*dy[0], narrow}, ones);
    const Tensor times = emit("FloorDiv", {dims, constant(DType::kI32, {})}, {i32(shape(dims))}, {});
    const Tensor spread = emit("Tile", {wide, times}, shape(x));
    const Tensor all = number("Prod", {dims, constant(DType::kI32, {1})});
    const Tensor results = number("Prod", {out_dims, constant(DType::kI32, {1})});
    const Tensor least = number("Maximum", {results, constant(DType::kI32, {})});
    const Tensor count = emit("Cast", {number("FloorDiv", {all, least})}, Shape{});
    accumulate(x, emit("RealDiv", {spread, count}, shape(x)));
  });
  return out;
}

Tensor TensorFlowTape::global_mean(Tensor x) { return mean(x, {shape(x)[0], shape(x)[1]}); }
Tensor TensorFlowTape::pool_all(Tensor x) { return mean(x, {shape(x)[0], shape(x)[1], 1, 1}); }

// ---- Lookup and loss ----

Tensor TensorFlowTape::embedding(Tensor table, Tensor indices) {
  Shape made = shape(indices);
  const std::int64_t rows = elements(made), width = shape(table)[1];
  made.push_back(width);
  const Tensor out = emit("GatherV2", {table, indices, constant(DType::kI32, {})}, made);
  flow(out, {table}, [=, this](const Gradients& dy) {
    const Tensor whole = emit("Cast", {constant(DType::kI64, {2})}, {i32({2})}, {});
    const Tensor size = emit("Size", {indices}, {i32({})}, {});
    const Tensor count = emit("ExpandDims", {size, constant(DType::kI32, {})}, {i32({1})}, {.view = true});
    const Tensor tail = strided_slice(whole, {1}, DType::kI32);
    const Tensor dims = emit("ConcatV2", {count, tail, constant(DType::kI32, {})}, {i32({2})}, {});
    const Tensor values = view_of("Reshape", {*dy[0], dims}, {rows, width});
    const TensorSpec flat{.dtype = DType::kI64, .shape = {rows}};
    rows_[table.op] = {values, emit("Reshape", {indices, count}, {flat}, {.view = true})};
  });
  return out;
}

Tensor TensorFlowTape::softmax(Tensor x) {
  const Shape in = shape(x);
  const Tensor out = emit("Softmax", {x}, in);
  flow(out, {x}, [=, this](const Gradients& dy) {
    const Tensor weighted = emit("Mul", {*dy[0], out}, in);
    const Tensor axes = constant(DType::kI32, {1});
    const Tensor total = emit("Sum", {weighted, axes}, Shape{in[0], 1});
    const Tensor apart = emit("Sub", {*dy[0], total}, in);
    accumulate(x, emit("Mul", {apart, out}, in));
  });
  return out;
}

/// The op computes the loss and the factor of its gradient together.
Tensor TensorFlowTape::cross_entropy(Tensor logits, Tensor labels) {
  const Shape in = shape(logits);
  const std::int64_t n = elements(in);
  const Tensor loss = emit("SparseSoftmaxCrossEntropyWithLogits", {logits, labels}, {f32({in[0]}), f32(in)},
                           {.flops = 10 * n});
  flow(loss, {logits}, [=, this](const Gradients& dy) {
    const Tensor ready = view("PreventGradient", {loss.op, 1}, in);
    const Tensor column = view_of("ExpandDims", {*dy[0], constant(DType::kI32, {})}, {in[0], 1});
    accumulate(logits, emit("Mul", {column, ready}, in));
  });
  return mean(loss, {});
}

}  // namespace emplace::models
