"""Floating-point operations per op, as ``torch.utils.flop_counter.FlopCounterMode`` counts them.

Products of matrices, convolutions and attention are counted, a multiply-add as two; every other op that is
listed here counts 0 and costs the bytes that it moves. An op that is in neither list has an unknown cost,
and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

Shape = Sequence[int]


def _mm(a: Shape, b: Shape) -> int:
    return 2 * a[0] * a[1] * b[1]


def _bmm(a: Shape, b: Shape) -> int:
    return 2 * a[0] * a[1] * a[2] * b[2]


def _convolution(x: Shape, weight: Shape, out: Shape, transposed: bool) -> int:
    """(N, C, *space) by (C_out, C_in / groups, *kernel), or by (C_in, C_out / groups, *kernel) if
    transposed.
    """
    positions = x[2:] if transposed else out[2:]
    return 2 * x[0] * prod(positions) * prod(weight)


def _convolution_backward(
    gradient: Shape, x: Shape, weight: Shape, mask: Sequence[bool], transposed: bool
) -> int:
    """Counted as FlopCounterMode does: the gradient of the weight is not divided by the groups."""
    total = _convolution(gradient, weight, x, not transposed) if mask[0] else 0
    if mask[1]:
        positions = x[2:] if transposed else gradient[2:]
        total += 2 * prod(weight[2:]) * prod(positions) * x[0] * x[1] * gradient[1]
    return total


def _attention(query: Shape, key: Shape, value: Shape) -> int:
    """(batch, heads, length, width): both products."""
    batch, heads, length, width = query
    return 2 * batch * heads * length * key[2] * (width + value[3])


def _attention_backward(query: Shape, key: Shape, value: Shape) -> int:
    """Five products: the scores again, and the gradients of scores, query, key and value."""
    batch, heads, length, width = query
    return 2 * batch * heads * length * key[2] * (3 * width + 2 * value[3])


def _mask(args: Sequence[Any]) -> Sequence[bool]:
    return next(
        (a for a in reversed(args) if isinstance(a, (list, tuple)) and a and isinstance(a[0], bool)),
        (True, True, True),
    )


_ATTENTION = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)

# name -> f(shapes of tensor arguments in order of the schema, all arguments, shapes of the results)
COUNTED: dict[str, Callable[[list[Shape], Sequence[Any], list[Shape]], int]] = {
    "mm": lambda s, a, o: _mm(s[0], s[1]),
    "addmm": lambda s, a, o: _mm(s[1], s[2]),
    "bmm": lambda s, a, o: _bmm(s[0], s[1]),
    "baddbmm": lambda s, a, o: _bmm(s[1], s[2]),
    "convolution": lambda s, a, o: _convolution(s[0], s[1], o[0], bool(a[6])),
    "_convolution": lambda s, a, o: _convolution(s[0], s[1], o[0], bool(a[6])),
    "convolution_backward": lambda s, a, o: _convolution_backward(s[0], s[1], s[2], _mask(a), bool(a[7])),
    **{name: lambda s, a, o: _attention(s[0], s[1], s[2]) for name in _ATTENTION},
    **{name + "_backward": lambda s, a, o: _attention_backward(s[1], s[2], s[3]) for name in _ATTENTION},
}

# Known to cost the bytes that they move.
BYTES_ONLY = frozenset(
    """
    __lshift__ __rshift__ _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
    _adaptive_avg_pool3d_backward _batch_norm_no_update _batch_norm_with_update
    _batch_norm_with_update_functional _cdist_backward _cdist_forward _embedding_bag
    _embedding_bag_dense_backward _fft_c2c _fft_c2r _fft_r2c _foreach_add _foreach_div _foreach_mul
    _foreach_norm _fused_rms_norm _fused_rms_norm_backward _index_put_impl _local_scalar_dense
    _log_softmax _log_softmax_backward_data _masked_scale _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _pdist_forward _prelu_kernel
    _prelu_kernel_backward _safe_softmax _softmax _softmax_backward_data _thnn_fused_gru_cell
    _thnn_fused_lstm_cell _to_copy _unsafe_index _unsafe_index_put _unsafe_view _upsample_bilinear2d_aa
    abs acos adaptive_max_pool2d adaptive_max_pool2d_backward add addcdiv addcmul all amax amin aminmax
    any arange argmax argmin as_strided_scatter asin atan atan2 avg_pool2d avg_pool2d_backward avg_pool3d
    avg_pool3d_backward batch_norm_backward bernoulli binary_cross_entropy binary_cross_entropy_backward
    binary_cross_entropy_with_logits bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor bucketize cat ceil celu channel_shuffle clamp clamp_max clamp_min clip
    clone col2im concat constant_pad_nd constant_pad_nd_backward copy copysign cos cosh count_nonzero
    cudnn_batch_norm cudnn_batch_norm_backward cummax cumprod cumsum cumsum_backward diag_embed
    diagonal_scatter dist div dot elu elu_backward embedding embedding_bag embedding_dense_backward empty
    empty_like empty_strided eq erf erfinv exp exp2 expm1 exponential eye fft_fft fill flip floor
    floor_divide fmod frac full full_like gather ge gelu gelu_backward glu glu_backward grid_sampler_2d
    grid_sampler_2d_backward gt hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh
    hardtanh_backward heaviside histc huber_loss huber_loss_backward hypot im2col im2col_backward index
    index_add index_copy index_fill index_put index_select isfinite isin isinf isnan kl_div kthvalue
    l1_loss le leaky_relu leaky_relu_backward lerp lift_fresh linalg_vector_norm linspace log log10 log1p
    log2 log_sigmoid_backward log_sigmoid_forward logaddexp logical_and logical_not logical_or logical_xor
    logit logit_backward logspace logsumexp lt masked_fill masked_scatter masked_scatter_backward max
    max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
    max_pool3d_with_indices_backward maximum mean median min minimum mish mish_backward mode mse_loss
    mse_loss_backward mul nan_to_num native_batch_norm native_batch_norm_backward native_channel_shuffle
    native_dropout native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
    native_layer_norm_backward native_norm ne neg new_empty new_empty_strided new_full new_ones new_zeros
    nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward norm normal
    normal_functional one_hot ones ones_like pixel_shuffle pixel_unshuffle polar pow prod rad2deg rand
    rand_like randint randint_like randn randn_like random randperm reciprocal reflection_pad1d
    reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward relu remainder renorm repeat
    replication_pad2d replication_pad2d_backward reshape resolve_conj resolve_neg roll round
    rrelu_with_noise rsqrt rsub scalar_tensor scatter scatter_add scatter_reduce searchsorted
    select_backward select_scatter selu sgn sigmoid sigmoid_backward sign silu silu_backward sin sinh
    slice_backward slice_scatter smooth_l1_loss smooth_l1_loss_backward soft_margin_loss softplus
    softplus_backward sort sqrt square stack std std_mean sub sum tan tanh tanh_backward threshold
    threshold_backward topk tril tril_indices triu triu_indices trunc unfold_backward uniform unsafe_chunk
    unsafe_split unsafe_split_with_sizes upsample_bicubic2d upsample_bilinear2d
    upsample_bilinear2d_backward upsample_nearest2d upsample_nearest2d_backward var var_mean
    view_as_complex view_as_real where xlogy zero zeros zeros_like
    """.split()
)


def flops(name: str, func: Any, shapes: list[Shape], args: Sequence[Any], results: list[Shape]) -> int | None:
    """Operations of an op; None if its cost is unknown.

    >>> flops("mm", None, [(2, 3), (3, 5)], (), [(2, 5)])
    60
    >>> flops("add", None, [(2, 3)], (), [(2, 3)]), flops("my_op", None, [], (), [])
    (0, None)
    """
    count = COUNTED.get(name)
    if count is not None:
        return count(shapes, args, results)
    return 0 if name in BYTES_ONLY else None
