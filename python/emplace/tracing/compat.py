"""Everything that differs between torch 1.13 and the newest torch, and nothing else."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def fake_like(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor with the shape, strides, type and device of a tensor; ``meta`` stands for the CPU."""
    device = tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device
    if device.type == "meta":
        device = torch.device("cpu")
    if tensor.layout == torch.sparse_coo:
        sparse = tensor.sparse_dim()
        with mode:
            return fake_sparse(tuple(tensor.size()), sparse, tensor.dtype, device)
    with mode, torch.no_grad():
        return torch.empty_strided(
            tuple(tensor.size()), tuple(tensor.stride()), dtype=tensor.dtype, device=device
        )


def fake_sparse(shape: tuple[int, ...], sparse: int, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """A sparse fake tensor in the mode that is on; it stands for any number of elements that are stored."""
    indices = torch.empty((sparse, shape[0]), dtype=torch.int64, device=device)
    values = torch.empty((shape[0], *shape[sparse:]), dtype=dtype, device=device)
    made: torch.Tensor = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors.default(
        *(sparse, len(shape) - sparse, shape, indices, values),
        dtype=dtype,
        layout=torch.sparse_coo,
        device=device,
    )
    return made


def _like_mask(mask: Any, *tensors: Callable[[], torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    return tuple(make() if wanted else None for wanted, make in zip(mask, tensors))


def _batch_norm_backward(gy: Any, x: Any, *rest: Any) -> Any:
    _, _, _, mean, _, _, _, mask = rest
    channel = lambda: x.new_empty((x.shape[1],), dtype=mean.dtype)  # noqa: E731
    return _like_mask(mask, lambda: torch.empty_like(x), channel, channel)


def _layer_norm_backward(gy: Any, x: Any, shape: Any, *rest: Any) -> Any:
    weight = lambda: x.new_empty(shape)  # noqa: E731
    return _like_mask(rest[-1], lambda: x.new_empty(x.shape), weight, weight)


def _group_norm_backward(gy: Any, x: Any, *rest: Any) -> Any:
    _, _, _, _, channels, _, _, mask = rest
    weight = lambda: x.new_empty((channels,))  # noqa: E731
    return _like_mask(mask, lambda: torch.empty_like(x), weight, weight)


def _convolution_backward(gy: Any, x: Any, w: Any, *rest: Any) -> Any:
    def channels_last(t: Any) -> bool:
        return bool(
            t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last) and not t.is_contiguous()
        )

    last = x.dim() == 4 and (channels_last(x) or channels_last(w))
    form = torch.channels_last if last else torch.contiguous_format
    return _like_mask(
        rest[-1],
        lambda: torch.empty_like(x, memory_format=form),
        lambda: torch.empty_like(w, memory_format=form),
        lambda: gy.new_empty((gy.shape[1],)),
    )


def _embedding_bag(weight: Any, indices: Any, offsets: Any, *rest: Any) -> Any:
    """Sums of whole rows take a short way on a CPU, which does not give the bags of the indices."""
    results = torch.ops.aten._embedding_bag.default(weight, indices, offsets, *rest)
    given = [*rest, *[False, 0, False, None, False, -1][len(rest) :]]
    mode, scale, padding = given[1], given[3], given[5]
    plain = weight.dtype in (torch.float32, torch.float16) and weight.stride(1) == 1
    if mode == 0 and plain and padding < 0 and (scale is None or scale.stride(0) == 1):
        return (results[0], results[1].new_empty((0,)), *results[2:])
    return results


# Shapes of results that torch 1.13 would otherwise learn by running the op for real on zeros.
_SHAPES: dict[str, Callable[..., Any]] = {
    "native_batch_norm_backward": _batch_norm_backward,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm_backward": _group_norm_backward,
    "convolution_backward": _convolution_backward,
    "embedding_dense_backward": lambda gy, index, n, padding, scale: gy.new_empty((n, gy.shape[-1])),
    "_embedding_bag": _embedding_bag,
    "nll_loss2d_forward": lambda x, target, w, reduction, ignore: (
        x.new_empty(() if reduction else target.shape),
        x.new_empty(()),
    ),
    "nll_loss2d_backward": lambda gy, x, *rest: torch.empty_like(x),
    "_adaptive_avg_pool2d": lambda x, size: x.new_empty(tuple(x.shape[:-2]) + tuple(size)),
    "_adaptive_avg_pool2d_backward": lambda gy, x: torch.empty_like(x),
    "bernoulli": lambda x, *rest, **named: torch.empty_like(x),
}


def shape_rule(func: OpOverload) -> Callable[..., Any] | None:
    """A function that makes the results of an op on fake tensors, for ops of torch 1.13 without one."""
    if not OLD:
        return None
    return _SHAPES.get(func._schema.name.removeprefix("aten::"))


@contextlib.contextmanager
def without_ranges() -> Iterator[None]:
    """While open, torch 1.13 issues no ranges for its profiler, which it cannot do on fake tensors."""
    with contextlib.ExitStack() as stack:
        if OLD:
            kind = torch.autograd.profiler.record_function
            stack.enter_context(mock.patch.object(kind, "__enter__", lambda self: self))
            stack.enter_context(mock.patch.object(kind, "__exit__", lambda self, *_: None))
        yield


def backward(loss: torch.Tensor) -> None:
    """``loss.backward()``, with the modes that watch PyTorch's functions still watching inside of it."""
    run = torch.autograd.Variable._execution_engine.run_backward
    start = torch.ones_like(loss, memory_format=torch.preserve_format)
    run((loss,), (start,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def storage_address(tensor: torch.Tensor) -> tuple[str, int]:
    """Where a tensor's storage starts; equal for tensors that share it. Each empty tensor has an address of
    its own.
    """
    if tensor.layout == torch.sparse_coo:
        tensor = tensor._values()
    storage: Any = getattr(tensor, "storage" if OLD else "untyped_storage")()
    return (str(tensor.device), int(storage.data_ptr()) or id(tensor))


def copied(tensor: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """``aten.copy``, whose result may be the source itself in torch 1.13."""
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return made.copy_(source, non_blocking=non_blocking)


OLD = tuple(int(part) for part in itertools.islice(torch.__version__.split("."), 2)) < (2, 0)


def graph_module(
    constants: dict[str, torch.Tensor], graph: torch.fx.Graph, name: str
) -> torch.fx.GraphModule:
    """A module that runs a graph; constants are the tensors themselves."""
    root = torch.nn.Module()
    for key, tensor in constants.items():
        root.register_buffer(key, tensor.detach(), persistent=False)
    return torch.fx.GraphModule(root, graph, class_name="".join(c if c.isalnum() else "_" for c in name))
