"""Which devices PyTorch has a kernel of an op for, and what a device without one runs in its place.

A trace has the ops that a CPU runs, since their bits are the reference. Some of them are kernels of a CPU
alone. PyTorch's dispatcher knows which: its table has an entry for each op and type of device, also where no
such device is there.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload

_LAYOUTS = ("", "Sparse", "SparseCsr", "Quantized", "NestedTensor")
#: Devices of a graph's op that has a kernel for a torch device of this type only.
PATTERNS = {"cpu": "cpu:*", "cuda": "gpu:*"}


@cache
def has_kernel(func: OpOverload, device: str) -> bool:
    """Whether an op runs on a type of torch device, "cpu" or "cuda"; True where that is not known.

    A build of PyTorch for CPUs has no entries of GPUs. It has the list that the table is made from,
    of PyTorch's own ops.
    """
    schema = func._schema
    name = f"{schema.name}.{schema.overload_name}".rstrip(".")
    kind = device.upper()
    if _in_table("aten::empty.memory_format", kind):
        return any(_in_table(name, layout + kind) for layout in _LAYOUTS)
    return _listed().get(name.removeprefix("aten::"), True)


def _in_table(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key))


@cache
def _listed() -> dict[str, bool]:
    """Whether GPUs have a kernel, for each op of the list of PyTorch's ops; empty where that is missing."""
    spec = importlib.util.find_spec("torchgen")
    where = Path(str(spec.origin)).parent / "packaged/ATen/native/native_functions.yaml" if spec else None
    if where is None or not where.is_file():
        return {}
    found: dict[str, bool] = {}
    delegates: dict[str, str] = {}
    for entry in where.read_text().split("\n- func: ")[1:]:
        name = entry.partition("(")[0]
        delegate = re.search(r"^  structured_delegate: (\S+)", entry, re.MULTILINE)
        found[name] = "\n  dispatch:" not in entry or bool(re.search(r"^    .*(CUDA|Composite)", entry, re.M))
        if delegate:
            delegates[name] = delegate.group(1)
    return found | {name: found.get(to, True) for name, to in delegates.items()}


@dataclass(frozen=True)
class Counterpart:
    """A function of PyTorch with the results of an op: on each device it takes that device's own kernel.

    The op's last result is what its backward reads; no other op does. The function makes the others, and
    its own gradient takes the place of the op's backward.
    """

    compute: Callable[..., Sequence[torch.Tensor]]
    #: The first arguments of the op, as many as the backward has results: the gradients of these.
    differentiable: int
    #: The backward's arguments: gradients of the op's results, what was saved, and those of the op itself.
    gradients: slice
    saved: int
    arguments: tuple[int, ...]


def _attention(
    query: Any, key: Any, value: Any, dropout: float = 0.0, causal: bool = False, **named: Any
) -> Sequence[torch.Tensor]:
    if query.shape[1] != key.shape[1]:
        named["enable_gqa"] = True
    mask = named.pop("attn_mask", None)
    attend = torch.nn.functional.scaled_dot_product_attention
    return (attend(query, key, value, mask, dropout, causal, **named),)


def _lstm_layer(
    x: Any, wi: Any, wh: Any, bi: Any, bh: Any, h: Any, c: Any, reverse: bool, *rest: Any
) -> Sequence[torch.Tensor]:
    """One layer in one direction. ``x`` [steps, rows, width]   ``h`` ``c`` [rows, width]"""
    biases = bool(rest[4])
    weights = [wi, wh, bi, bh] if biases else [wi, wh]
    state = [h.reshape(1, *h.shape[-2:]), c.reshape(1, *c.shape[-2:])]
    # Training or not is the same without dropout, but cuDNN differentiates training only.
    out, h, c = torch._VF.lstm(
        x.flip(0) if reverse else x, state, weights, biases, 1, 0.0, torch.is_grad_enabled(), False, False
    )
    return (out.flip(0) if reverse else out), h, c


_FORWARD = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": Counterpart(
        _attention, 3, slice(0, 1), 5, (1, 2, 3, 6, 7)
    ),
    "aten::mkldnn_rnn_layer": Counterpart(
        _lstm_layer, 7, slice(10, 13), 22, (*range(7), 13, 20, 14, 15, 16, 17, 19, 21, 18)
    ),
}
_BACKWARD = {f"{name}_backward": counterpart for name, counterpart in _FORWARD.items()}


def counterpart(func: OpOverload) -> tuple[Counterpart, bool] | None:
    """What a device without a kernel of an op runs in its place, and whether the op is the backward."""
    name = str(func._schema.name)
    if name in _FORWARD:
        return _FORWARD[name], False
    return (_BACKWARD[name], True) if name in _BACKWARD else None


@cache
def only_device(func: OpOverload) -> str | None:
    """The one type of device that can run an op; None if each can."""
    runs = [device for device in PATTERNS if has_kernel(func, device)]
    return runs[0] if len(runs) == 1 and counterpart(func) is None else None
