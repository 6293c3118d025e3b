"""What each op of an emplace-graph computes, in PyTorch: run(type, attrs, inputs, outputs) -> [tensors].

attrs as the graph has them; inputs are tensors, views included; outputs are (dtype, shape) as the graph has them, which
decide what attrs leave out (sizes of views, of splits, of new tensors). What a graph does not record has the values of
docs/reference/kernels.md. Floating point is that of the inputs: float64 in, float64 out.
"""
import numpy
import torch
import torch.nn.functional as F

aten = torch.ops.aten
SCALAR = 0.5  # A number that an op was called with and the graph does not record.
EPSILON = 1e-5
DTYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8,
          "bool": torch.bool}
OPS, VIEWS = {}, set()


def splitmix64(x):
    """base/rng.h; `x` an array of uint64."""
    with numpy.errstate(over="ignore"):
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def op(*kinds):
    def register(function):
        for kind in kinds:
            OPS[kind] = function
        return function
    return register


def view(*kinds):
    VIEWS.update(kinds)
    return op(*kinds)


def run(kind, attrs, inputs, outputs):
    if kind not in OPS:
        raise SystemExit("%s: no meaning is known here; add it to tests/parity/graph_ops.py" % kind)
    result = OPS[kind](attrs, inputs, outputs)
    result = list(result) if isinstance(result, (tuple, list)) else [result]
    assert [list(r.shape) for r in result] == [list(shape) for _, shape in outputs], (
        kind, attrs, [list(i.shape) for i in inputs], [list(r.shape) for r in result], outputs)
    return result


def size(outputs, k=0):
    return list(outputs[k][1])


def tensor_or_scalar(inputs):
    return inputs[1] if len(inputs) > 1 else SCALAR


# -- matrices ---------------------------------------------------------------------------------------------------------
op("aten::mm", "aten::bmm")(lambda a, i, o: torch.matmul(i[0], i[1]))
op("aten::addmm")(lambda a, i, o: aten.addmm(i[0], i[1], i[2], beta=a.get("beta", 1), alpha=a.get("alpha", 1)))


# -- convolutions -----------------------------------------------------------------------------------------------------
def conv_arguments(a):
    return (a["stride"], a["padding"], a["dilation"], a.get("transposed", False), a.get("output_padding", [0, 0]),
            a.get("groups", 1))


op("aten::convolution")(lambda a, i, o: aten.convolution(i[0], i[1], i[2] if len(i) > 2 else None, *conv_arguments(a)))


@op("aten::convolution_backward")
def _(a, i, o):
    channels = i[0].shape[1]
    mask = a.get("output_mask", [True, True, False])
    result = aten.convolution_backward(i[0], i[1], i[2], [channels], *conv_arguments(a), mask)
    return [r for r, wanted in zip(result, mask) if wanted]  # What was not asked for takes no index.


# -- pooling ----------------------------------------------------------------------------------------------------------
def pool_arguments(a):
    return a["kernel_size"], a.get("stride", a["kernel_size"]), a.get("padding", [0, 0])


@op("aten::max_pool2d_with_indices")
def _(a, i, o):
    return aten.max_pool2d_with_indices(i[0], *pool_arguments(a), a.get("dilation", [1, 1]), a.get("ceil_mode", False))


@op("aten::max_pool2d_with_indices_backward")
def _(a, i, o):
    return aten.max_pool2d_with_indices_backward(i[0], i[1], *pool_arguments(a), a.get("dilation", [1, 1]),
                                                 a.get("ceil_mode", False), i[2])


@op("aten::avg_pool2d")
def _(a, i, o):
    return aten.avg_pool2d(i[0], *pool_arguments(a), a.get("ceil_mode", False), a.get("count_include_pad", True))


@op("aten::avg_pool2d_backward")
def _(a, i, o):  # The framework names every argument of a backward op: what is absent is false.
    return aten.avg_pool2d_backward(i[0], i[1], *pool_arguments(a), a.get("ceil_mode", False),
                                    a.get("count_include_pad", False), None)


op("aten::_adaptive_avg_pool2d")(lambda a, i, o: aten._adaptive_avg_pool2d(i[0], a["output_size"]))
op("aten::_adaptive_avg_pool2d_backward")(lambda a, i, o: aten._adaptive_avg_pool2d_backward(i[0], i[1]))


# -- normalisation ----------------------------------------------------------------------------------------------------
@op("aten::native_batch_norm")
def _(a, i, o):  # Running statistics are read only.
    x, weight, bias, mean, variance = i
    return aten.native_batch_norm(x, weight, bias, mean.clone(), variance.clone(), a.get("training", False), 0.1,
                                  EPSILON)


@op("aten::native_batch_norm_backward")
def _(a, i, o):
    result = aten.native_batch_norm_backward(*i, a.get("train", False), EPSILON, a["output_mask"])
    return [r for r, wanted in zip(result, a["output_mask"]) if wanted]


@op("aten::native_layer_norm")
def _(a, i, o):
    return aten.native_layer_norm(i[0], a["normalized_shape"], i[1], i[2], EPSILON)


@op("aten::native_layer_norm_backward")
def _(a, i, o):
    gradient, x, mean, rstd, weight, bias = i
    result = aten.native_layer_norm_backward(gradient, x, a["normalized_shape"], mean, rstd, weight, bias,
                                             a["output_mask"])
    return [r for r, wanted in zip(result, a["output_mask"]) if wanted]


# -- softmax and losses -----------------------------------------------------------------------------------------------
op("aten::_softmax")(lambda a, i, o: aten._softmax(i[0], a["dim"], False))
op("aten::_log_softmax")(lambda a, i, o: aten._log_softmax(i[0], a["dim"], False))
op("aten::_softmax_backward_data")(
    lambda a, i, o: aten._softmax_backward_data(i[0], i[1], a["dim"], i[0].dtype))
op("aten::_log_softmax_backward_data")(
    lambda a, i, o: aten._log_softmax_backward_data(i[0], i[1], a["dim"], i[0].dtype))
IGNORED = -100
op("aten::nll_loss_forward")(
    lambda a, i, o: aten.nll_loss_forward(i[0], i[1], None, a.get("reduction", 1), IGNORED))
op("aten::nll_loss_backward")(
    lambda a, i, o: aten.nll_loss_backward(i[0], i[1], i[2], None, a.get("reduction", 1), IGNORED, i[3]))
op("aten::nll_loss2d_forward")(
    lambda a, i, o: aten.nll_loss2d_forward(i[0], i[1].contiguous(), None, a.get("reduction", 1), IGNORED))
op("aten::nll_loss2d_backward")(
    lambda a, i, o: aten.nll_loss2d_backward(i[0], i[1], i[2].contiguous(), None, a.get("reduction", 1), IGNORED, i[3]))


# -- elementwise ------------------------------------------------------------------------------------------------------
op("aten::add")(lambda a, i, o: torch.add(i[0], tensor_or_scalar(i), alpha=a.get("alpha", 1)))
op("aten::sub")(lambda a, i, o: torch.sub(i[0], tensor_or_scalar(i), alpha=a.get("alpha", 1)))
op("aten::rsub")(lambda a, i, o: torch.rsub(i[0], tensor_or_scalar(i), alpha=a.get("alpha", 1)))
op("aten::mul")(lambda a, i, o: torch.mul(i[0], tensor_or_scalar(i)))
op("aten::div")(lambda a, i, o: torch.div(i[0], tensor_or_scalar(i)))
op("aten::addcmul")(lambda a, i, o: torch.addcmul(*i, value=1))
op("aten::addcdiv")(lambda a, i, o: torch.addcdiv(*i, value=1))
op("aten::sqrt")(lambda a, i, o: torch.sqrt(i[0]))
op("aten::relu", "Relu")(lambda a, i, o: torch.relu(i[0]))
op("aten::threshold_backward")(lambda a, i, o: aten.threshold_backward(i[0], i[1], 0))
op("aten::sigmoid", "Sigmoid")(lambda a, i, o: torch.sigmoid(i[0]))
op("aten::sigmoid_backward")(lambda a, i, o: aten.sigmoid_backward(i[0], i[1]))
op("aten::tanh", "Tanh")(lambda a, i, o: torch.tanh(i[0]))
op("aten::tanh_backward")(lambda a, i, o: aten.tanh_backward(i[0], i[1]))
op("aten::gelu")(lambda a, i, o: aten.gelu(i[0]))
op("aten::gelu_backward")(lambda a, i, o: aten.gelu_backward(i[0], i[1]))
op("aten::hardswish")(lambda a, i, o: aten.hardswish(i[0]))
op("aten::hardswish_backward")(lambda a, i, o: aten.hardswish_backward(i[0], i[1]))
op("aten::hardsigmoid")(lambda a, i, o: aten.hardsigmoid(i[0]))
op("aten::hardsigmoid_backward")(lambda a, i, o: aten.hardsigmoid_backward(i[0], i[1]))


# -- reductions -------------------------------------------------------------------------------------------------------
def over(function):
    return lambda a, i, o: function(i[0], a.get("dim", list(range(i[0].dim()))), a.get("keepdim", False))


op("aten::sum")(over(torch.sum))
op("aten::mean")(over(torch.mean))

# -- movement ---------------------------------------------------------------------------------------------------------
op("aten::cat")(lambda a, i, o: torch.cat(i, a.get("dim", 0)))
op("aten::stack")(lambda a, i, o: torch.stack(i, a.get("dim", 0)))
op("aten::clone")(lambda a, i, o: i[0].clone())
op("aten::constant_pad_nd")(lambda a, i, o: F.pad(i[0], a["pad"]))


@op("aten::unsafe_split")
def _(a, i, o):
    return torch.split(i[0], [shape[a.get("dim", 0)] for _, shape in o], a.get("dim", 0))


@op("aten::slice_backward")
def _(a, i, o):
    dim = a.get("dim", 0)
    return aten.slice_backward(i[0], size(o), dim, a.get("start", 0), a.get("end", size(o)[dim]), a.get("step", 1))


op("aten::select_backward")(lambda a, i, o: aten.select_backward(i[0], size(o), a.get("dim", 0), a.get("index", 0)))

# -- lookup, creation -------------------------------------------------------------------------------------------------
op("aten::embedding")(lambda a, i, o: aten.embedding(i[0], i[1]))
op("aten::embedding_dense_backward")(
    lambda a, i, o: aten.embedding_dense_backward(i[0], i[1], a["num_weights"], a.get("padding_idx", -1), False))
op("aten::new_zeros", "aten::empty_like")(lambda a, i, o: i[0].new_zeros(size(o)))
op("aten::ones_like")(lambda a, i, o: torch.ones_like(i[0]))


@op("aten::bernoulli")
def _(a, i, o):
    """Elements 2n and 2n+1 are 1 where the low and the high word of splitmix64(n) are below 2^31."""
    count = i[0].numel()
    words = splitmix64(numpy.arange((count + 1) // 2, dtype=numpy.uint64)).astype("<u8").view("<u4")[:count]
    return torch.from_numpy((words < 1 << 31).astype(numpy.float64)).to(i[0].dtype).reshape(i[0].shape)


# -- ops of other networks: not in the shared graphs, computed all the same -------------------------------------------
UNARY = ("abs", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "isfinite", "isnan", "log", "log10",
         "log1p", "log2", "logical_not", "neg", "reciprocal", "round", "rsqrt", "sgn", "sign", "sin", "sinh", "square",
         "tan", "trunc")
BINARY = ("atan2", "eq", "floor_divide", "fmod", "ge", "gt", "le", "logical_and", "logical_or", "logical_xor", "lt",
          "maximum", "minimum", "ne", "pow", "remainder")
ACTIVATIONS = ("elu", "leaky_relu", "mish", "relu6", "selu", "silu", "softplus", "softsign")
for name in UNARY:
    op("aten::" + name)(lambda a, i, o, f=getattr(torch, name): f(i[0]))
for name in BINARY:
    op("aten::" + name)(lambda a, i, o, f=getattr(torch, name): f(i[0], i[1]))
for name in ACTIVATIONS:
    op("aten::" + name)(lambda a, i, o, f=getattr(F, name): f(i[0]))
op("aten::where")(lambda a, i, o: torch.where(*i))
op("aten::silu_backward")(lambda a, i, o: aten.silu_backward(i[0], i[1]))
op("aten::leaky_relu_backward")(lambda a, i, o: aten.leaky_relu_backward(i[0], i[1], 0.01, False))
op("aten::softplus_backward")(lambda a, i, o: aten.softplus_backward(i[0], i[1], 1, 20))
op("aten::amax")(over(torch.amax))
op("aten::amin")(over(torch.amin))
op("aten::argmax")(lambda a, i, o: torch.argmax(i[0], a["dim"], a.get("keepdim", False)))
op("aten::argmin")(lambda a, i, o: torch.argmin(i[0], a["dim"], a.get("keepdim", False)))
op("aten::max")(lambda a, i, o: tuple(torch.max(i[0], a["dim"], a.get("keepdim", False))))
op("aten::prod")(lambda a, i, o: torch.prod(i[0], a["dim"], a.get("keepdim", False)))
op("aten::cumsum")(lambda a, i, o: torch.cumsum(i[0], a["dim"]))
op("aten::gather")(lambda a, i, o: torch.gather(i[0], a["dim"], i[1]))
op("aten::scatter")(lambda a, i, o: torch.scatter(i[0], a["dim"], i[1], i[2]))
op("aten::scatter_add")(lambda a, i, o: torch.scatter_add(i[0], a["dim"], i[1], i[2]))
op("aten::index_select")(lambda a, i, o: torch.index_select(i[0], a["dim"], i[1]))
op("aten::index_add")(lambda a, i, o: torch.index_add(i[0], a["dim"], i[1], i[2]))
op("aten::flip")(lambda a, i, o: torch.flip(i[0], a["dims"]))
op("aten::repeat")(lambda a, i, o: i[0].repeat(a["repeats"]))
op("aten::upsample_nearest2d")(lambda a, i, o: aten.upsample_nearest2d(i[0], a["output_size"], None, None))
op("aten::upsample_bilinear2d")(
    lambda a, i, o: aten.upsample_bilinear2d(i[0], a["output_size"], a.get("align_corners", False), None, None))
op("aten::upsample_nearest2d_backward")(
    lambda a, i, o: aten.upsample_nearest2d_backward(i[0], a["output_size"], a["input_size"], None, None))
op("aten::upsample_bilinear2d_backward")(lambda a, i, o: aten.upsample_bilinear2d_backward(
    i[0], a["output_size"], a["input_size"], a.get("align_corners", False), None, None))

# -- views of the traced graphs ---------------------------------------------------------------------------------------
view("aten::view", "aten::_reshape_alias", "aten::_unsafe_view")(lambda a, i, o: i[0].reshape(size(o)))
view("aten::t")(lambda a, i, o: i[0].t())
view("aten::transpose")(lambda a, i, o: i[0].transpose(a["dim0"], a["dim1"]))
view("aten::permute")(lambda a, i, o: i[0].permute(a["dims"]))
view("aten::expand")(lambda a, i, o: i[0].expand(size(o)))
view("aten::squeeze")(lambda a, i, o: i[0].squeeze(a["dim"]) if "dim" in a else i[0].squeeze())
view("aten::unsqueeze")(lambda a, i, o: i[0].unsqueeze(a["dim"]))
view("aten::select")(lambda a, i, o: i[0].select(a.get("dim", 0), a.get("index", 0)))
view("aten::unbind")(lambda a, i, o: i[0].unbind(a.get("dim", 0)))
view("aten::split")(lambda a, i, o: torch.split(i[0], [s[a.get("dim", 0)] for _, s in o], a.get("dim", 0)))


@view("aten::slice")
def _(a, i, o):
    return aten.slice(i[0], a.get("dim", 0), a.get("start", 0), a.get("end", i[0].shape[a.get("dim", 0)]),
                      a.get("step", 1))


# -- ONNX, operator set 13 --------------------------------------------------------------------------------------------
def symmetric(a):
    """The padding of both spatial sides, which must be alike."""
    pads = a.get("pads", [0, 0, 0, 0])
    assert pads[:2] == pads[2:], pads
    return pads[:2]


@op("Conv")
def _(a, i, o):
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    x, padding = i[0], [top, left]
    if padding != [bottom, right]:
        x, padding = F.pad(x, [left, right, top, bottom]), [0, 0]
    return F.conv2d(x, i[1], i[2] if len(i) > 2 else None, a.get("strides", [1, 1]), padding,
                    a.get("dilations", [1, 1]), a.get("groups", 1))


@op("ConvTranspose")
def _(a, i, o):
    return F.conv_transpose2d(i[0], i[1], i[2] if len(i) > 2 else None, a.get("strides", [1, 1]), symmetric(a),
                              a.get("output_padding", [0, 0]), a.get("groups", 1), a.get("dilations", [1, 1]))


@op("Gemm")
def _(a, i, o):
    x = i[0].t() if a.get("transA", 0) else i[0]
    y = i[1].t() if a.get("transB", 0) else i[1]
    product = a.get("alpha", 1.0) * (x @ y)
    return product + a.get("beta", 1.0) * i[2] if len(i) > 2 else product


@op("BatchNormalization")
def _(a, i, o):
    return F.batch_norm(i[0], i[3], i[4], i[1], i[2], False, 0.1, a.get("epsilon", EPSILON))


@op("MaxPool")
def _(a, i, o):
    return F.max_pool2d(i[0], a["kernel_shape"], a.get("strides", [1, 1]), symmetric(a), a.get("dilations", [1, 1]),
                        bool(a.get("ceil_mode", 0)))


@op("AveragePool")
def _(a, i, o):
    return F.avg_pool2d(i[0], a["kernel_shape"], a.get("strides", [1, 1]), symmetric(a), bool(a.get("ceil_mode", 0)),
                        bool(a.get("count_include_pad", 0)))


op("GlobalAveragePool")(lambda a, i, o: i[0].mean((2, 3), keepdim=True))
op("MatMul")(lambda a, i, o: torch.matmul(i[0], i[1]))
op("Softmax")(lambda a, i, o: torch.softmax(i[0], a.get("axis", -1)))
op("HardSigmoid")(lambda a, i, o: (a.get("alpha", 0.2) * i[0] + a.get("beta", 0.5)).clamp(0, 1))
op("Add")(lambda a, i, o: i[0] + i[1])
op("Sub")(lambda a, i, o: i[0] - i[1])
op("Mul")(lambda a, i, o: i[0] * i[1])
op("Div")(lambda a, i, o: i[0] / i[1])
op("Pow")(lambda a, i, o: torch.pow(i[0], i[1]))
op("Sqrt")(lambda a, i, o: torch.sqrt(i[0]))
op("Erf")(lambda a, i, o: torch.erf(i[0]))
op("Concat")(lambda a, i, o: torch.cat(i, a["axis"]))
op("Transpose")(lambda a, i, o: i[0].permute(a.get("perm", list(reversed(range(i[0].dim()))))).contiguous())


@op("ReduceMean")
def _(a, i, o):
    return i[0].mean(a.get("axes", list(range(i[0].dim()))), keepdim=bool(a.get("keepdims", 1)))


@op("Gather")
def _(a, i, o):
    axis = a.get("axis", 0) % i[0].dim()
    picked = torch.index_select(i[0], axis, i[1].reshape(-1))
    return picked.reshape(i[0].shape[:axis] + i[1].shape + i[0].shape[axis + 1:])


@op("Pad")
def _(a, i, o):  # The amounts are data, which a graph does not have: what the shape grew by lies behind.
    pad = []
    for now, then in zip(reversed(i[0].shape), reversed(size(o))):
        pad += [0, then - now]
    return F.pad(i[0], pad)


@op("Resize")
def _(a, i, o):
    assert a.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" or a.get("mode") == "nearest", a
    if a.get("mode", "nearest") == "linear":
        return F.interpolate(i[0], size(o)[2:], mode="bilinear", align_corners=False)
    return F.interpolate(i[0], size(o)[2:], mode="nearest")


view("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")(lambda a, i, o: i[0].reshape(size(o)))
view("Expand")(lambda a, i, o: i[0].expand(size(o)))
view("Split")(lambda a, i, o: torch.split(i[0], [s[a.get("axis", 0)] for _, s in o], a.get("axis", 0)))
