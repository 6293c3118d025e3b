#!/usr/bin/python3
"""What every kernel must compute: one or more cases per kind of op, by PyTorch (python3-torch) in float64, rounded.

usage: make_kernel_fixture.py TRAINING ONNX_AS_JSON OUT
TRAINING holds traced training steps, ONNX_AS_JSON what `emplace import X.onnx -o X.json` wrote: every kind of op in
either must have a case. Writes OUT/FAMILY.json, a case per line:
  {"name", "type", "attrs", "inputs": [{"dtype", "shape", "strides", "data"}], "outputs": [{"dtype", "shape", "data"}]}
and "tolerance" (of the largest magnitude of an output, or of "scale" if that is more; 1e-5 if absent).
`data` is base64 of little-endian elements: of an input the memory from its first element to its last, where what lies
between (a slice of something larger) is NaN. And OUT/kinds.json, the kinds found in the folders.
"""
import base64
import gzip
import json
import pathlib
import sys

import numpy
import torch

import graph_ops

NAMES = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool", torch.uint8: "u8"}
families, taken = {}, {}
torch.manual_seed(8)
numpy.random.seed(8)


def base64_of(tensor):
    return base64.b64encode(tensor.numpy().tobytes()).decode()


def memory_of(tensor):
    """The memory from the first element to the last, with the gaps of the tensor made unreadable."""
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    memory = torch.as_strided(tensor, (span,), (1,), tensor.storage_offset()).clone()
    covered = torch.zeros(span, dtype=torch.bool)
    torch.as_strided(covered, tensor.shape, tensor.stride(), 0).fill_(True) if span else None
    memory[~covered] = float("nan") if memory.is_floating_point() else (1 << 40 if memory.dtype == torch.int64 else 1)
    return memory


def described(tensor, **more):
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), **more}


def case(family, kind, attrs, inputs, outputs=None, label="", **more):
    """`outputs`: shapes where the op's inputs and attributes do not determine them; else they are found by trying."""
    wide = [i.double() if i.is_floating_point() else i for i in inputs]
    if outputs is None:
        result = graph_ops.OPS[kind](attrs, wide, [(None, list(inputs[0].shape))])
        result = list(result) if isinstance(result, (tuple, list)) else [result]
    else:
        result = graph_ops.run(kind, attrs, wide, [(None, shape) for shape in outputs])
    result = [(r.float() if r.is_floating_point() else r).contiguous() for r in result]
    assert all(torch.isfinite(r).all() for r in result if r.is_floating_point()), (kind, attrs)
    number = taken[kind] = taken.get(kind, -1) + 1
    families.setdefault(family, []).append({
        "name": "%s_%d%s" % (kind.replace("aten::", "aten_"), number, "_" + label if label else ""),
        "type": kind, "attrs": attrs,
        "inputs": [described(i, strides=list(i.stride()), data=base64_of(memory_of(i))) for i in inputs],
        "outputs": [described(r, data=base64_of(r)) for r in result], **more})


def rand(*shape):
    return torch.randn(shape)


def positive(*shape):
    return torch.rand(shape) + 0.25


def transposed(*shape):
    """A matrix or a batch of them whose last two dimensions lie the other way round."""
    return rand(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)


def sliced(*shape, dim=1, of=lambda x: x):
    """The middle of something larger."""
    larger = list(shape)
    larger[dim] += 3
    return of(rand(*larger)).narrow(dim, 1, shape[dim])


def expanded(*shape, dim=0):
    one = list(shape)
    one[dim] = 1
    return rand(*one).expand(shape)


def thrice(x):
    return 3 * x


def with_ties(*shape):
    return torch.randint(-1, 2, shape).float() / 2


def ids(high, *shape):
    return torch.randint(0, high, shape)


# -- matrices ---------------------------------------------------------------------------------------------------------
def matmul():
    f = "matmul"
    mm = lambda x, y, **k: case(f, "aten::mm", {}, [x, y], **k)
    mm(rand(3, 5), rand(5, 4))
    mm(rand(6, 7), transposed(7, 5), label="t_right")
    mm(transposed(5, 8), rand(8, 3), label="t_left")
    mm(transposed(9, 4), transposed(4, 6), label="t_both")
    mm(sliced(4, 6), sliced(6, 5), label="slices")
    mm(rand(3, 9, 4)[:, 2], rand(4, 5), label="select")
    mm(expanded(5, 4), rand(4, 3), label="expanded_rows")
    mm(rand(4, 1).expand(4, 6), rand(6, 3), label="expanded_columns")
    mm(rand(1, 1), rand(1, 1), label="one")
    mm(rand(1, 33), transposed(33, 17), label="vector")
    mm(rand(64, 1), rand(1, 20), label="outer")
    case(f, "aten::addmm", {}, [rand(6), rand(4, 5), transposed(5, 6)], label="linear")
    case(f, "aten::addmm", {}, [rand(6), sliced(4, 5), transposed(5, 6)], label="slice")
    case(f, "aten::addmm", {}, [rand(3, 7), rand(3, 4), rand(4, 7)], label="matrix")
    case(f, "aten::addmm", {}, [rand(5), rand(4, 3, 8)[:, 1], transposed(8, 5)], label="select")
    bmm = lambda x, y, **k: case(f, "aten::bmm", {}, [x, y], **k)
    bmm(rand(3, 4, 5), rand(3, 5, 2))
    bmm(rand(3, 4, 5), transposed(3, 5, 6), label="t_right")
    bmm(transposed(2, 6, 3), rand(2, 3, 4), label="t_left")
    bmm(rand(4, 5).unsqueeze(1), rand(4, 5, 3), label="vector")
    bmm(rand(4, 3, 2, 5).transpose(1, 2)[:, 0], rand(4, 5, 2), label="heads")
    bmm(rand(5, 3, 4).permute(1, 0, 2), rand(4, 3, 5).permute(1, 0, 2), label="sequence_first")
    bmm(expanded(3, 2, 4), rand(3, 4, 5), label="expanded_batch")
    bmm(rand(2, 3, 1).expand(2, 3, 4), rand(2, 1, 4).transpose(1, 2), label="expanded_columns")
    case(f, "MatMul", {}, [rand(2, 3, 4), rand(4, 5)], label="weights")
    case(f, "MatMul", {}, [rand(2, 3, 4, 5), transposed(2, 3, 5, 4)], label="heads")
    case(f, "MatMul", {}, [rand(4, 5), rand(5, 6)])
    case(f, "MatMul", {}, [rand(3, 1, 4), rand(3, 4, 5)], label="batched")
    case(f, "MatMul", {}, [rand(2, 1, 3, 4), rand(5, 4, 2)], label="broadcast_batches")
    gemm = lambda alpha, beta, x, y, *c, **k: case(
        f, "Gemm", {"alpha": alpha, "beta": beta, **k.pop("t", {})}, [x, y, *c], **k)
    gemm(1.0, 1.0, rand(3, 5), rand(4, 5), rand(4), t={"transB": 1})
    gemm(0.5, 2.0, rand(5, 3), rand(5, 4), rand(3, 4), t={"transA": 1}, label="t_left")
    gemm(1.0, 1.0, rand(2, 6), rand(6, 3), rand(3), label="plain")
    gemm(1.0, 1.0, rand(4, 2, 6)[:, 1], rand(3, 6), rand(3), t={"transB": 1}, label="select")
    gemm(1.5, 0.5, transposed(4, 6), rand(5, 6), rand(4, 1), t={"transB": 1}, label="column")
    gemm(1.0, 1.0, rand(4, 6), rand(6, 5), label="no_c")


# -- convolutions -----------------------------------------------------------------------------------------------------
def conv_attrs(stride=(1, 1), padding=(0, 0), dilation=(1, 1), **more):
    return {"stride": list(stride), "padding": list(padding), "dilation": list(dilation), "output_padding": [0, 0],
            **more}


FORMS = [  # Each has label, input, weight, bias, attributes.
    ("3x3", (2, 5, 6, 5), (4, 5, 3, 3), True, conv_attrs(padding=(1, 1))),
    ("stem", (1, 3, 9, 9), (4, 3, 7, 7), False, conv_attrs((2, 2), (3, 3))),
    ("1x1", (2, 16, 3, 3), (24, 16, 1, 1), False, conv_attrs()),
    ("1x1_stride", (1, 6, 5, 5), (5, 6, 1, 1), False, conv_attrs((2, 2))),
    ("patches", (1, 3, 8, 8), (3, 3, 4, 4), True, conv_attrs((4, 4))),
    ("uneven", (1, 4, 3, 8), (4, 4, 1, 7), False, conv_attrs(padding=(0, 3))),
    ("leftover", (1, 3, 8, 7), (4, 3, 3, 3), True, conv_attrs((2, 2), (1, 1))),
    ("dilated", (1, 3, 7, 7), (4, 3, 3, 3), False, conv_attrs(padding=(2, 2), dilation=(2, 2))),
    ("grouped", (2, 4, 5, 5), (6, 2, 3, 3), False, conv_attrs(padding=(1, 1), groups=2)),
    ("depthwise", (1, 6, 7, 7), (6, 1, 5, 5), False, conv_attrs((2, 2), (2, 2), groups=6)),
    ("depthwise_16", (1, 16, 4, 4), (16, 1, 3, 3), False, conv_attrs(padding=(1, 1), groups=16)),
    ("transposed", (2, 6, 4, 3), (6, 4, 2, 2), True, conv_attrs((2, 2), transposed=True)),
    ("transposed_3x3", (1, 4, 4, 4), (4, 5, 3, 3), False, conv_attrs((2, 2), (1, 1), transposed=True)),
]


def ordered(attrs):
    """The keys in the graphs' order; files sort them."""
    return dict(sorted(attrs.items()))


def convolution():
    f = "convolution"
    for label, x, w, bias, attrs in FORMS:
        out_channels = w[1] * attrs.get("groups", 1) if attrs.get("transposed") else w[0]
        b = [rand(out_channels)] if bias else []
        x, w = rand(*x), rand(*w)
        case(f, "aten::convolution", ordered(attrs), [x, w, *b], label=label)
        y = graph_ops.run("aten::convolution", attrs, [x, w], [(None, families[f][-1]["outputs"][0]["shape"])])[0]
        mask = [True, True, bias]
        case(f, "aten::convolution_backward", ordered({**attrs, "output_mask": mask}), [rand(*y.shape), x, w],
             label=label)
    x, w = sliced(2, 3, 5, 5), rand(4, 3, 3, 3)
    attrs = conv_attrs(padding=(1, 1))
    case(f, "aten::convolution", attrs, [x, w], label="slice")
    case(f, "aten::convolution", attrs, [rand(2, 5, 5, 3).permute(0, 3, 1, 2), w], label="channels_last")
    case(f, "aten::convolution", attrs, [rand(2, 3, 8, 5)[:, :, 2:7], w], label="cut_rows")
    for label, mask in (("no_input", [False, True, True]), ("weight_only", [False, True, False]),
                        ("input_only", [True, False, False]), ("all", [True, True, True])):
        case(f, "aten::convolution_backward", ordered({**attrs, "output_mask": mask}),
             [rand(2, 4, 5, 5), rand(2, 3, 5, 5), w], label="mask_" + label)
    both = ordered({**attrs, "output_mask": [True, True, False]})
    case(f, "aten::convolution_backward", both, [sliced(2, 4, 5, 5), x, w], label="slices")
    case(f, "aten::convolution_backward", both, [rand(2, 4, 1, 1).expand(2, 4, 5, 5), rand(2, 3, 5, 5), w],
         label="expanded")
    onnx = lambda x, w, bias, label, kind="Conv", dilations=(1, 1), groups=1, pads=(0, 0, 0, 0), strides=(1, 1): case(
        f, kind, {"dilations": list(dilations), "groups": groups, "kernel_shape": list(w[2:]), "pads": list(pads),
                  "strides": list(strides)},
        [rand(*x), rand(*w)] + ([rand(w[1] if kind == "ConvTranspose" else w[0])] if bias else []), label=label)
    onnx((1, 3, 7, 7), (5, 3, 3, 3), True, "3x3", pads=(1, 1, 1, 1))
    onnx((1, 8, 4, 4), (16, 8, 1, 1), True, "1x1")
    onnx((1, 3, 9, 9), (4, 3, 7, 7), True, "stem", pads=(3, 3, 3, 3), strides=(2, 2))
    onnx((1, 6, 7, 7), (6, 1, 3, 3), True, "depthwise", groups=6, pads=(1, 1, 1, 1), strides=(2, 2))
    onnx((1, 4, 6, 6), (3, 4, 3, 3), False, "dilated", dilations=(2, 2), pads=(2, 2, 2, 2))
    onnx((1, 4, 5, 9), (4, 4, 1, 7), False, "uneven", pads=(0, 3, 0, 3))
    onnx((1, 3, 8, 8), (4, 3, 3, 3), True, "one_sided", pads=(0, 0, 1, 1), strides=(2, 2))
    onnx((1, 6, 4, 4), (6, 4, 2, 2), True, "transposed", kind="ConvTranspose", strides=(2, 2))


# -- pooling ----------------------------------------------------------------------------------------------------------
def pooling():
    f = "pooling"
    maxes = [
        ("plain", (2, 2, 6, 6), {"kernel_size": [2, 2]}),
        ("stride", (1, 3, 7, 7), {"kernel_size": [3, 3], "stride": [2, 2]}),
        ("padded", (2, 2, 6, 5), {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}),
        ("ceil", (1, 2, 8, 8), {"kernel_size": [3, 3], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1],
                                "ceil_mode": True}),
        ("overlapping", (1, 2, 5, 6), {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1],
                                       "ceil_mode": True}),
        ("dilated", (1, 2, 7, 7), {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1], "dilation": [2, 2]}),
    ]
    for label, shape, attrs in maxes:
        for x, more in ((rand(*shape), ""), (with_ties(*shape), "_ties")):
            if more and label in ("plain", "dilated"):
                continue
            case(f, "aten::max_pool2d_with_indices", ordered(attrs), [x], label=label + more)
            y, index = graph_ops.OPS["aten::max_pool2d_with_indices"](attrs, [x], None)
            backward = {"padding": [0, 0], "dilation": [1, 1], **attrs}
            case(f, "aten::max_pool2d_with_indices_backward", ordered(backward), [rand(*y.shape), x, index],
                 label=label + more)
    attrs = {"kernel_size": [3, 3], "padding": [1, 1], "stride": [2, 2]}
    case(f, "aten::max_pool2d_with_indices", attrs, [sliced(2, 2, 5, 5)], label="slice")
    case(f, "aten::max_pool2d_with_indices", attrs, [rand(1, 2, 7, 7) - 9], label="all_negative")
    x = rand(2, 2, 5, 5)
    y, index = graph_ops.OPS["aten::max_pool2d_with_indices"](attrs, [x], None)
    case(f, "aten::max_pool2d_with_indices_backward", ordered({**attrs, "dilation": [1, 1]}),
         [sliced(*y.shape), x, index], label="slice")

    averages = [
        ("1x1", (1, 4, 6, 6), {"kernel_size": [1, 1], "stride": [2, 2]}),
        ("2x2", (2, 3, 6, 6), {"kernel_size": [2, 2], "stride": [2, 2]}),
        ("padded", (1, 3, 6, 5), {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1]}),
        ("padded_stride", (1, 2, 6, 6), {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}),
        ("5x5", (1, 2, 11, 11), {"kernel_size": [5, 5], "stride": [3, 3]}),
    ]
    for label, shape, attrs in averages:
        x = rand(*shape)
        case(f, "aten::avg_pool2d", ordered(attrs), [x], label=label)
        y = graph_ops.OPS["aten::avg_pool2d"](attrs, [x], None)
        full = {"padding": [0, 0], **attrs}
        case(f, "aten::avg_pool2d_backward", ordered({**full, "count_include_pad": True}), [rand(*y.shape), x],
             label=label + "_counting_padding")
        if "padding" in attrs:
            case(f, "aten::avg_pool2d_backward", ordered(full), [rand(*y.shape), x], label=label)
            case(f, "aten::avg_pool2d", ordered({**attrs, "count_include_pad": False}), [x],
                 label=label + "_without_padding")
    case(f, "aten::avg_pool2d", averages[0][2], [rand(1, 4, 7, 7)[:, :, 1:, 1:]], label="slice")
    case(f, "aten::avg_pool2d_backward", ordered({"padding": [0, 0], **averages[1][2]}),
         [sliced(2, 3, 3, 3), rand(2, 3, 6, 6)], label="slice")
    for shape, out in (((2, 3, 6, 6), [6, 6]), ((1, 2, 8, 8), [4, 4]), ((1, 2, 7, 5), [3, 2]), ((1, 3, 4, 4), [1, 1]),
                       ((1, 1, 1, 1), [3, 3])):
        case(f, "aten::_adaptive_avg_pool2d", {"output_size": out}, [rand(*shape)],
             label="%dx%d" % tuple(out))
        case(f, "aten::_adaptive_avg_pool2d_backward", {}, [rand(*shape[:2], *out), rand(*shape)],
             outputs=[shape], label="%dx%d" % tuple(out))
    for ceil, k, pads, strides, shape in ((0, 2, 0, 2, (1, 3, 8, 8)), (0, 3, 0, 2, (1, 2, 9, 9)),
                                          (0, 3, 1, 2, (1, 2, 8, 8)), (1, 2, 0, 2, (1, 3, 7, 7)),
                                          (1, 3, 0, 2, (1, 2, 8, 8)), (1, 3, 1, 1, (1, 2, 5, 5))):
        case(f, "MaxPool", {"ceil_mode": ceil, "kernel_shape": [k, k], "pads": [pads] * 4, "strides": [strides] * 2},
             [rand(*shape)])
    for k, pads, strides, shape in ((2, 0, 2, (1, 3, 6, 6)), (3, 1, 1, (1, 2, 5, 6)), (3, 1, 2, (1, 2, 8, 8)),
                                    (3, 0, 1, (1, 2, 6, 6))):
        case(f, "AveragePool", {"ceil_mode": 0, "kernel_shape": [k, k], "pads": [pads] * 4, "strides": [strides] * 2},
             [rand(*shape)])
    case(f, "AveragePool", {"kernel_shape": [1, 1], "strides": [1, 1]}, [rand(1, 2, 3, 3)])
    case(f, "GlobalAveragePool", {}, [rand(2, 3, 7, 7)])
    case(f, "GlobalAveragePool", {}, [rand(1, 17, 2, 3)])


# -- normalisation ----------------------------------------------------------------------------------------------------
def normalisation():
    f = "normalisation"
    for label, make in (("", lambda: rand(3, 3, 4, 4) * 2 + 3), ("wide", lambda: rand(2, 20, 3, 3)),
                        ("slice", lambda: sliced(2, 3, 4, 4)), ("one_pixel", lambda: rand(6, 5, 1, 1))):
        x = make()
        c = x.shape[1]
        w, b, mean, variance = rand(c), rand(c), rand(c), positive(c)
        case(f, "aten::native_batch_norm", {"training": True}, [x, w, b, mean, variance], label=label)
        _, saved_mean, saved_invstd = graph_ops.OPS["aten::native_batch_norm"]({"training": True},
                                                                              [x, w, b, mean, variance], None)
        for gradient, more in ((rand(*x.shape), ""), (sliced(*x.shape), "_sliced_gradient")):
            case(f, "aten::native_batch_norm_backward", {"output_mask": [True, True, True], "train": True},
                 [gradient, x, w, mean, variance, saved_mean, saved_invstd], label=label + more, tolerance=3e-5)
    for label, shape, make in (("", (2, 3, 8), rand), ("odd", (5, 7), rand), ("long", (1, 2, 70), rand),
                               ("sequence_first", (3, 4, 8), lambda *s: rand(s[1], s[0], s[2]).transpose(0, 1))):
        x, n = make(*shape), shape[-1]
        w, b = rand(n), rand(n)
        case(f, "aten::native_layer_norm", {"normalized_shape": [n]}, [x, w, b], label=label)
        _, mean, rstd = graph_ops.OPS["aten::native_layer_norm"]({"normalized_shape": [n]}, [x.contiguous(), w, b],
                                                                None)
        attrs = {"normalized_shape": [n], "output_mask": [True, True, True]}
        case(f, "aten::native_layer_norm_backward", attrs, [make(*shape), x, mean, rstd, w, b], label=label,
             tolerance=3e-5)
    attrs = {"epsilon": 9.999999747378752e-06, "momentum": 0.8999999761581421}
    case(f, "BatchNormalization", attrs, [rand(2, 3, 4, 4), rand(3), rand(3), rand(3), positive(3)])
    case(f, "BatchNormalization", {**attrs, "epsilon": 0.0010000000474974513},
         [rand(1, 20, 3, 3), rand(20), rand(20), rand(20), positive(20)], label="epsilon")


# -- softmax and losses -----------------------------------------------------------------------------------------------
def softmax():
    f = "softmax"
    for kind in ("_softmax", "_log_softmax"):
        shapes = [((4, 10), 1), ((2, 2, 3, 5), -1), ((3, 4, 4), -1), ((2, 2, 5, 3), 1), ((1, 1), 1)]
        for shape, dim in shapes:
            for scale in (1, 60):
                if scale == 60 and shape != (4, 10):
                    continue
                x = rand(*shape) * scale
                case(f, "aten::" + kind, {"dim": dim}, [x], label="large" if scale > 1 else "", scale=1)
                y = graph_ops.OPS["aten::" + kind]({"dim": dim}, [x.double()], None).float()
                case(f, "aten::" + kind + "_backward_data", {"dim": dim}, [rand(*shape), y],
                     label="large" if scale > 1 else "", tolerance=3e-5, scale=1)
    case(f, "aten::_softmax", {"dim": 1}, [rand(4, 6, 1).squeeze(2)], label="squeezed")
    case(f, "aten::_softmax", {"dim": 1}, [sliced(4, 6)], label="slice")
    case(f, "aten::_log_softmax", {"dim": 1}, [transposed(4, 6)], label="transposed")
    case(f, "aten::_softmax_backward_data", {"dim": -1}, [expanded(2, 3, 4), torch.softmax(rand(2, 3, 4), -1)],
         label="expanded")
    for n, classes in ((5, 7), (1, 3)):
        logits, target = torch.log_softmax(rand(n, classes), 1), ids(classes, n)
        case(f, "aten::nll_loss_forward", {"reduction": 1}, [logits, target])
        case(f, "aten::nll_loss_backward", {"reduction": 1},
             [torch.tensor(1.5), logits, target, torch.tensor(float(n))])
    logits, target = torch.log_softmax(rand(4, 6), 1), ids(6, 4, 5)[:, 2]
    case(f, "aten::nll_loss_forward", {"reduction": 1}, [logits, target], label="column")
    case(f, "aten::nll_loss_backward", {"reduction": 1}, [torch.tensor(0.25), logits, target, torch.tensor(4.0)],
         label="column")
    ignored = target.contiguous().clone()
    ignored[1] = graph_ops.IGNORED
    case(f, "aten::nll_loss_forward", {"reduction": 1}, [logits, ignored], label="ignored")
    case(f, "aten::nll_loss_backward", {"reduction": 1}, [torch.tensor(1.0), logits, ignored, torch.tensor(3.0)],
         label="ignored")
    logits, target = torch.log_softmax(rand(2, 3, 4, 5), 1), ids(3, 2, 4, 5)
    case(f, "aten::nll_loss2d_forward", {"reduction": 1}, [logits, target])
    case(f, "aten::nll_loss2d_backward", {"reduction": 1},
         [torch.tensor(0.5), logits, target, torch.tensor(40.0)])
    for shape, axis in (((2, 3, 4, 4), -1), ((4, 5), 1), ((3, 4, 5), -1), ((2, 3, 4), 0)):
        case(f, "Softmax", {"axis": axis}, [rand(*shape)])


# -- elementwise ------------------------------------------------------------------------------------------------------
def elementwise():
    f = "elementwise"
    def binary(kind, *pairs, attrs={}, other=rand):
        for k, pair in enumerate(pairs):
            case(f, kind, attrs, list(pair) if isinstance(pair, tuple) else [pair])
    same = [(rand(3, 5), positive(3, 5)), (rand(33), positive(33)), (torch.tensor(1.25), torch.tensor(-0.5)),
            (rand(2, 3, 4, 5), positive(2, 3, 4, 5))]
    views = [(transposed(4, 6), positive(4, 6)), (positive(4, 6), sliced(4, 6, of=torch.exp)), (expanded(4, 6), positive(4, 6)),
             (rand(2, 3, 4, 4)[:, 1:3], positive(2, 2, 4, 4)), (transposed(5, 3), positive(3, 5).t())]
    scalars = [rand(7), rand(2, 3, 5), sliced(3, 4)]
    broadcast = [(rand(2, 3, 4), rand(3, 4)), (rand(2, 2, 3, 3), rand(3, 3)), (rand(2, 3, 4), rand(4)),
                 (rand(2, 3, 4), rand(2, 1, 4)), (rand(2, 3, 1, 1), rand(2, 3, 4, 5)), (rand(2, 2, 3, 3), rand(2, 1, 1, 3)),
                 (rand(1, 5), rand(4, 1))]
    for kind in ("aten::add", "aten::mul"):
        binary(kind, *same, *views, *scalars, *broadcast)
    binary("aten::add", (rand(9), rand(9)), (transposed(3, 4), rand(3, 4)), (torch.tensor(1.0), torch.tensor(2.0)),
           (rand(2, 3, 4, 4)[:, :2], rand(2, 2, 4, 4)), attrs={"alpha": -0.1})
    binary("aten::add", (rand(2, 1, 6), rand(2, 1, 6)), attrs={"alpha": 0.09999999999999998})
    binary("aten::div", *same, *scalars, torch.tensor(3.0), rand(2, 3).unsqueeze(2).expand(2, 3, 4),
           (rand(2, 3, 4), positive(4)))
    binary("aten::rsub", rand(2, 5), sliced(2, 5))
    for kind in ("aten::addcmul", "aten::addcdiv"):
        for x, y, z in ((rand(7), rand(7), positive(7)), (rand(3, 4), transposed(3, 4), positive(3, 4)),
                        (rand(2, 3, 3, 3), rand(2, 3, 3, 3), positive(2, 3, 3, 3)),
                        (rand(4, 5), rand(4, 5), positive(5, 4).t())):
            case(f, kind, {}, [x, y, z])
    case(f, "aten::addcmul", {}, [rand(4, 6)] + [transposed(4, 6)] * 2, label="square")
    far = torch.tensor([-90.0, -20.0, -6.0, -3.0, -1e-3, 0.0, 1e-3, 3.0, 6.0, 20.0, 90.0, 2.999, -2.999])
    for kind in ("sigmoid", "tanh", "relu", "gelu", "hardswish", "hardsigmoid"):
        for x, label in ((rand(3, 7), ""), (far, "far"), (sliced(4, 5, of=thrice), "slice"), (rand(2, 3, 4, 4) * 4, "image")):
            case(f, "aten::" + kind, {}, [x], label=label)
    for x in (positive(3, 4), torch.tensor([0.0, 1.0, 4.0, 1e-12, 1e12]), positive(2, 3, 2, 2)):
        case(f, "aten::sqrt", {}, [x])
    # At a kink the framework's value counts; for hardswish at 3 it has two, with vector instructions and without.
    steps = torch.tensor([-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0, 2.5, -2.5])
    for kind in ("hardswish", "hardsigmoid", "gelu", "threshold"):
        at = torch.where(steps == 3, torch.tensor(3.125), steps) if kind == "hardswish" else steps
        for x, label in ((rand(3, 5) * 3, ""), (at, "kinks"), (sliced(3, 5, of=thrice), "slice")):
            case(f, "aten::%s_backward" % kind, {}, [rand(*x.shape), x], label=label)
        case(f, "aten::%s_backward" % kind, {}, [sliced(2, 3, 4, 4), rand(2, 3, 4, 4) * 3], label="slice_of_gradient")
    case(f, "aten::threshold_backward", {}, [rand(2, 3, 1, 1).expand(2, 3, 4, 4), rand(2, 3, 4, 4)],
         label="expanded")
    for kind, of in (("sigmoid", torch.sigmoid), ("tanh", torch.tanh)):
        for y, label in ((of(rand(3, 5)), ""), (of(rand(2, 3, 4)), "rank_3"), (sliced(4, 6, of=of), "slice")):
            case(f, "aten::%s_backward" % kind, {}, [rand(*y.shape), y], label=label)
        case(f, "aten::%s_backward" % kind, {}, [sliced(4, 6), of(rand(4, 6))], label="slice_of_gradient")
    onnx = [(rand(2, 3, 4), rand(2, 3, 4)), (rand(2, 3, 1), torch.tensor(0.75)), (rand(2, 3, 4), rand(4)),
            (rand(4), rand(2, 3, 4)), (rand(2, 2, 3, 3), rand(2, 1, 1, 3)), (rand(3, 4), rand(3, 4)),
            (rand(2, 3, 5), rand(3, 5)), (rand(2, 1, 3), rand(2, 4, 3))]
    for kind in ("Add", "Mul", "Sub"):
        binary(kind, *onnx)
    binary("Sub", (torch.tensor(1.0), rand(2, 5)), (rand(2, 3, 4), rand(2, 3, 1)))
    binary("Div", *[(x, torch.exp(y)) for x, y in onnx[:6]], (rand(2, 3, 4), positive(2, 3, 1)))
    binary("Pow", (rand(2, 3, 4), torch.tensor(2.0)), (positive(2, 5), torch.tensor(0.5)),
           (positive(3, 4), rand(3, 4)), (rand(2, 6), torch.tensor(3.0)))
    for x, label in ((rand(2, 3, 4), ""), (far, "far"), (sliced(3, 4), "slice")):
        for kind in ("Erf", "Relu", "Sigmoid", "Tanh"):
            case(f, kind, {}, [x], label=label)
        case(f, "HardSigmoid", {"alpha": 0.1666666716337204}, [x], label=label)
    case(f, "HardSigmoid", {"alpha": 0.25, "beta": 0.4000000059604645}, [rand(3, 4) * 3], label="beta")
    case(f, "Sqrt", {}, [positive(2, 3, 1)])


# -- reductions -------------------------------------------------------------------------------------------------------
def reduction():
    f = "reduction"
    for kind in ("aten::sum", "aten::mean"):
        for x, attrs in ((rand(8, 5), {"dim": [0], "keepdim": True}), (rand(2, 3, 4, 4), {"dim": [2, 3], "keepdim": True}),
                         (rand(2, 5, 3), {"dim": [1], "keepdim": True}), (rand(2, 3, 4, 4), {"dim": [-1, -2], "keepdim": True}),
                         (rand(2, 6, 3, 3), {"dim": [2, 3]}), (rand(4, 6), {"dim": [0]}), (rand(3, 4, 5), {"dim": [0, 2]}),
                         (transposed(6, 4), {"dim": [0], "keepdim": True}), (sliced(4, 3, 5), {"dim": [1], "keepdim": True}),
                         (rand(1, 7), {"dim": [0], "keepdim": True}), (rand(3, 4), {}),
                         (rand(2, 3, 1).expand(2, 3, 4), {"dim": [1], "keepdim": True})):
            case(f, kind, attrs, [x])
    case(f, "aten::sum", {"dim": [0], "keepdim": True}, [rand(700, 3)], label="long", tolerance=3e-5)
    for x, attrs in ((rand(2, 3, 8), {"axes": [-1]}), (rand(2, 3, 4, 4), {"axes": [2, 3], "keepdims": 0}),
                     (rand(3, 4), {"axes": [0], "keepdims": 1})):
        case(f, "ReduceMean", attrs, [x])


# -- movement ---------------------------------------------------------------------------------------------------------
def movement():
    f = "movement"
    pieces = lambda *sizes: [rand(2, n, 3, 3) for n in sizes]
    for attrs, kind in (({"dim": 1}, "aten::cat"), ({"axis": 1}, "Concat")):
        case(f, kind, attrs, pieces(2))
        case(f, kind, attrs, pieces(2, 3))
        case(f, kind, attrs, pieces(4, 1, 2, 1, 3, 2, 1))
        case(f, kind, attrs, [rand(4, 3), rand(4, 5, 2)[:, :, 0]], label="select")
    case(f, "aten::cat", {"dim": 1}, [sliced(2, 3, 4, 4), rand(2, 2, 4, 4), transposed(2, 1, 4, 4)], label="views")
    case(f, "aten::cat", {"dim": 1}, [expanded(3, 1, 5), rand(3, 5, 4).permute(0, 2, 1)], label="tokens")
    case(f, "aten::cat", {"dim": 2}, [rand(2, 3, 4), rand(3, 2, 4).transpose(0, 1), rand(2, 3, 4)], label="last")
    case(f, "aten::cat", {"dim": 0}, [rand(2, 3), rand(4, 3)], label="rows")
    case(f, "aten::cat", {}, [rand(2, 3), rand(1, 3)], label="by_default")
    case(f, "aten::cat", {"dim": -1}, [rand(2, 3), rand(2, 1)], label="from_behind")
    case(f, "Concat", {"axis": 0}, [rand(1, 2, 3)] * 3, label="rows")
    case(f, "Concat", {"axis": -1}, [rand(2, 3), rand(2, 2)], label="from_behind")
    case(f, "aten::stack", {"dim": 1}, [rand(3, 4) for _ in range(5)])
    case(f, "aten::stack", {}, [rand(3, 4), transposed(3, 4), sliced(3, 4)], label="views")
    case(f, "aten::clone", {}, [rand(2, 3)])
    case(f, "aten::clone", {}, [rand(2, 4, 3, 5).transpose(1, 2)], label="heads")
    case(f, "aten::clone", {}, [transposed(2, 3, 5, 4)], label="keys")
    case(f, "aten::clone", {}, [rand(3, 2, 12).split(4, -1)[1]], label="split")
    case(f, "aten::clone", {}, [expanded(4, 3)], label="expanded")
    case(f, "aten::clone", {}, [rand(1, 1, 1).expand(2, 3, 4)], label="of_one")
    case(f, "aten::clone", {}, [rand(3, 4, 5).permute(2, 0, 1)], label="turned")
    for n, x, dim in ((4, rand(3, 8), 1), (2, rand(4, 2, 6)[:, 1], 1), (3, rand(6, 4), 0), (4, sliced(2, 8), 1)):
        shape = list(x.shape)
        shape[dim] //= n
        case(f, "aten::unsafe_split", {"dim": dim}, [x], outputs=[shape] * n)
    case(f, "aten::constant_pad_nd", {"pad": [0, 1, 0, 1]}, [rand(1, 3, 4, 4)])
    case(f, "aten::constant_pad_nd", {"pad": [2, 1]}, [rand(2, 3)], label="last_only")
    case(f, "aten::constant_pad_nd", {"pad": [0, 1, 1, 0]}, [sliced(2, 2, 3, 3)], label="slice")
    case(f, "aten::constant_pad_nd", {"pad": [-1, 0, 0, -1]}, [rand(1, 2, 4, 4)], label="cut")
    case(f, "aten::slice_backward", {"dim": 0, "start": 0, "step": 1}, [rand(3, 4, 5)], outputs=[[3, 4, 5]],
         label="whole")
    case(f, "aten::slice_backward", {"dim": 3, "start": 1, "step": 1}, [rand(1, 2, 3, 4)], outputs=[[1, 2, 3, 5]])
    case(f, "aten::slice_backward", {"dim": 2, "start": 1, "step": 1}, [sliced(2, 2, 3, 4)], outputs=[[2, 2, 4, 4]],
         label="slice")
    case(f, "aten::slice_backward", {"dim": 1, "start": 1, "end": 3, "step": 1}, [rand(2, 2, 3)],
         outputs=[[2, 5, 3]], label="middle")
    case(f, "aten::slice_backward", {"dim": 1, "start": 1, "step": 2}, [rand(2, 3)], outputs=[[2, 6]], label="step")
    case(f, "aten::select_backward", {"dim": 1, "index": 0}, [rand(2, 4)], outputs=[[2, 3, 4]])
    case(f, "aten::select_backward", {"dim": 0, "index": 2}, [transposed(3, 4)], outputs=[[5, 3, 4]], label="rows")
    case(f, "aten::select_backward", {"dim": 1, "index": -1}, [rand(2, 4)], outputs=[[2, 3, 4]], label="from_behind")
    case(f, "Transpose", {"perm": [0, 2, 1, 3]}, [rand(2, 3, 4, 5)])
    case(f, "Transpose", {"perm": [0, 2, 1]}, [rand(2, 3, 4)])
    case(f, "Transpose", {"perm": [2, 0, 1]}, [sliced(2, 3, 4)], label="slice")
    case(f, "Transpose", {}, [rand(2, 3, 4)], label="reversed")
    pads = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
    case(f, "Pad", {"mode": "constant"}, [rand(1, 2, 4, 4), pads], outputs=[[1, 2, 5, 5]])
    case(f, "Pad", {"mode": "constant"}, [sliced(1, 2, 4, 4), 0 * pads], outputs=[[1, 2, 4, 4]], label="nothing")
    resize = {"coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75, "mode": "linear",
              "nearest_mode": "floor"}
    for shape, out in (((1, 2, 4, 4), [1, 2, 16, 16]), ((1, 3, 5, 4), [1, 3, 7, 9]), ((2, 1, 6, 6), [2, 1, 3, 3])):
        case(f, "Resize", resize, [rand(*shape), torch.tensor(out)], outputs=[out], label="linear")
    nearest = {**resize, "coordinate_transformation_mode": "asymmetric", "mode": "nearest"}
    case(f, "Resize", nearest, [rand(1, 2, 3, 4), torch.tensor([1, 2, 6, 8])], outputs=[[1, 2, 6, 8]], label="nearest")


# -- lookup, creation -------------------------------------------------------------------------------------------------
def lookup():
    f = "lookup"
    case(f, "aten::embedding", {}, [rand(9, 4), ids(9, 2, 5)])
    case(f, "aten::embedding", {}, [rand(3, 17), ids(3, 6)], label="flat")
    case(f, "aten::embedding", {}, [rand(7, 4), ids(7, 5, 3).t()], label="transposed_ids")
    for rows, shape, label in ((6, (3, 4), ""), (2, (8,), "collisions"), (30, (2, 2), "sparse")):
        tokens = ids(rows, *shape)
        case(f, "aten::embedding_dense_backward", {"num_weights": rows, "padding_idx": -1},
             [rand(*shape, 5), tokens], label=label)
    case(f, "aten::embedding_dense_backward", {"num_weights": 5, "padding_idx": 2},
         [rand(3, 4, 3), ids(5, 3, 4)], label="padding")
    case(f, "aten::embedding_dense_backward", {"num_weights": 5, "padding_idx": -1},
         [rand(4, 3, 6).transpose(0, 1), ids(5, 4, 3).t()], label="sequence_first")
    case(f, "Gather", {}, [rand(9, 4), ids(9, 2, 5)])
    case(f, "Gather", {"axis": 1}, [rand(2, 6, 4), torch.tensor(3)], label="token")
    case(f, "Gather", {"axis": 1}, [rand(2, 6, 4), torch.tensor([5, 0, 5])], label="several")
    case(f, "Gather", {"axis": 0}, [sliced(6, 4), ids(6, 3)], label="slice")


def creation():
    f = "creation"
    case(f, "aten::new_zeros", {}, [rand(4, 6)], outputs=[[4, 3]])
    case(f, "aten::new_zeros", {}, [rand(2, 5, 3)], outputs=[[2, 3]], label="rank")
    case(f, "aten::new_zeros", {}, [rand(2, 5, 3)[:, 1]], outputs=[[2, 7]], label="view")
    case(f, "aten::ones_like", {}, [torch.tensor(0.5)])
    case(f, "aten::ones_like", {}, [rand(3, 4)], label="matrix")
    case(f, "aten::empty_like", {}, [rand(3, 5)], outputs=[[3, 5]])
    case(f, "aten::empty_like", {}, [rand(2, 7, 1, 1)], outputs=[[2, 7, 1, 1]], label="image")
    case(f, "aten::bernoulli", {}, [rand(8, 16)])
    case(f, "aten::bernoulli", {}, [rand(1, 21, 1, 1)], label="odd")


# -- ops of other networks --------------------------------------------------------------------------------------------
def others():
    f = "others"
    spread = torch.tensor([-7.5, -2.5, -1.5, -0.5, -0.25, 0.25, 0.5, 1.5, 2.5, 7.5])  # Halves: where rounding decides.
    for name in graph_ops.UNARY:
        below_zero = name not in ("log", "log10", "log1p", "log2", "rsqrt")
        case(f, "aten::" + name, {}, [rand(3, 5) if below_zero else positive(3, 5)])
        case(f, "aten::" + name, {}, [spread if below_zero else spread.abs()], label="spread")
    for name in graph_ops.BINARY:
        x = positive(3, 4) if name == "pow" else 3 * rand(3, 4)
        case(f, "aten::" + name, {}, [x, positive(3, 4) if name in ("fmod", "remainder", "floor_divide") else rand(3, 4)])
        case(f, "aten::" + name, {}, [x, x.clone()], label="equal")
    for name in graph_ops.ACTIVATIONS:
        case(f, "aten::" + name, {}, [4 * rand(3, 5)])
        case(f, "aten::" + name, {}, [sliced(3, 4, of=thrice)], label="slice")
    case(f, "aten::where", {}, [rand(3, 4) > 0, rand(3, 4), rand(3, 4)])
    case(f, "aten::where", {}, [rand(2, 1, 4) > 0, rand(2, 3, 4), torch.tensor(0.5)], label="broadcast")
    for name in ("silu", "leaky_relu", "softplus"):
        case(f, "aten::%s_backward" % name, {}, [rand(3, 5), 3 * rand(3, 5)])
    for name in ("amax", "amin"):
        case(f, "aten::" + name, {"dim": [-1], "keepdim": True}, [rand(2, 3, 4)])
        case(f, "aten::" + name, {"dim": [0, 2]}, [rand(2, 3, 4)], label="outer")
    for name in ("argmax", "argmin", "max", "prod", "cumsum"):
        case(f, "aten::" + name, {"dim": 1}, [rand(3, 5)])
        case(f, "aten::" + name, {"dim": 1}, [rand(2, 5, 3)], label="middle")
    case(f, "aten::gather", {"dim": 1}, [rand(3, 6), ids(6, 3, 4)])
    case(f, "aten::scatter", {"dim": 1}, [rand(2, 5), torch.tensor([[4, 0, 2], [1, 3, 0]]), rand(2, 3)])
    case(f, "aten::scatter_add", {"dim": 1}, [rand(2, 5), ids(5, 2, 7), rand(2, 7)])
    case(f, "aten::index_select", {"dim": 1}, [rand(3, 6, 2), ids(6, 4)])
    case(f, "aten::index_add", {"dim": 0}, [rand(4, 3), ids(4, 6), rand(6, 3)])
    case(f, "aten::flip", {"dims": [0, 2]}, [rand(2, 3, 4)])
    case(f, "aten::repeat", {"repeats": [2, 1, 3]}, [rand(2, 3)], outputs=[[2, 2, 9]])
    for x, size in ((rand(1, 2, 3, 4), [6, 8]), (rand(2, 1, 4, 5), [7, 3])):
        for name in ("nearest", "bilinear"):
            case(f, "aten::upsample_%s2d" % name, {"output_size": size}, [x])
            case(f, "aten::upsample_%s2d_backward" % name, {"input_size": list(x.shape), "output_size": size},
                 [rand(*x.shape[:2], *size)], outputs=[x.shape])
    case(f, "aten::upsample_bilinear2d", {"align_corners": True, "output_size": [5, 7]}, [rand(1, 2, 3, 4)],
         label="corners")


def kinds_in(folder):
    found = set()
    for path in sorted(folder.iterdir()):
        if path.name.endswith((".json", ".json.gz")):
            with (gzip.open if path.suffix == ".gz" else open)(path) as file:
                for o in json.load(file)["ops"]:
                    if not o.get("attrs", {}).get("view") and o["type"] not in (
                            "Parameter", "Buffer", "OptimizerState", "Input", "Constant"):
                        found.add(o["type"])
    return sorted(found)


if __name__ == "__main__":
    training, onnx, out = (pathlib.Path(a) for a in sys.argv[1:])
    for family in (matmul, convolution, pooling, normalisation, softmax, elementwise, reduction, movement, lookup,
                   creation, others):
        family()
    kinds = {"training": kinds_in(training), "onnx": kinds_in(onnx)}
    missing = sorted(set(kinds["training"] + kinds["onnx"]) - set(taken))
    if missing:
        raise SystemExit("no case for " + ", ".join(missing))
    out.mkdir(parents=True, exist_ok=True)
    for family, cases in families.items():
        lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        (out / (family + ".json")).write_text("[\n" + lines + "\n]\n")
    (out / "kinds.json").write_text(json.dumps(kinds, indent=1) + "\n")
    print("%d cases of %d kinds" % (sum(map(len, families.values())), len(taken)))
