"""Refusals of code that cannot be traced, with the line of the user's source."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType

import torch

from emplace.errors import EmplaceError

_INSIDE = (
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


def _user_lines(frames: Iterable[tuple[FrameType, int]]) -> Iterator[str]:
    """``file:line`` of the frames that are neither PyTorch's nor this package's."""
    for frame, line in frames:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not os.path.abspath(name).startswith(_INSIDE):
            yield f"{name}:{line}"


def user_line_of(error: BaseException) -> str:
    """``file:line`` of the innermost frame of the user's own code in an exception's traceback."""
    return (["trace"] + list(_user_lines(traceback.walk_tb(error.__traceback__))))[-1]


_LOOP = "write a Python loop of a fixed number of turns"
#: What can stand in the place of a function of PyTorch that runs the user's functions, by its file.
_INSTEAD = {
    "cond": "choose by shapes and Python values, or compute both and choose with torch.where",
    "flex_attention": "call scaled_dot_product_attention, with the mask or the bias as attn_mask",
    "while_loop": _LOOP,
    "scan": _LOOP,
    "map": _LOOP,
}


def calls_functions(error: BaseException) -> EmplaceError | None:
    """The exception for an operator that runs functions of the user (``torch.cond``), if one raised."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename.removeprefix(_INSIDE[0]).replace(os.sep, "/")
        if path.startswith("_higher_order_ops/") or path == "nn/attention/flex_attention.py":
            name = path.rpartition("/")[2].removesuffix(".py")
            cure = _INSTEAD.get(name, "compute with plain operations of tensors")
            what = f"calls {name} of torch, which runs functions of its own and is no op of a step"
            return EmplaceError(user_line_of(error), what, cure)
    return None


def refuse(what: str, cure: str) -> EmplaceError:
    """The exception for something in the user's code that has no place in a static graph."""
    return EmplaceError(next(_user_lines(traceback.walk_stack(sys._getframe(1))), "trace"), what, cure)


class Branches(EmplaceError):
    """An optimizer's step that takes another way at some steps than at others."""


def branches(what: str) -> Branches:
    """The exception for a decision on a number that changes from step to step."""
    frames = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(sys._getframe(1)))
    outside = (f"{name}:{line}" for name, line in frames if not os.path.abspath(name).startswith(_INSIDE[1]))
    return Branches(
        next(outside, "optimizer"),
        f"{what} a number that changes from step to step",
        "compute with tensors (torch.where, clamp), or with min() and max()",
    )


def depends_on_data(op: str, backward: bool = False) -> EmplaceError:
    """The exception for control flow, or a shape, that depends on the values of tensors."""
    cure = "compute with tensors (torch.where, masks), or choose by shapes and Python values"
    if op == "aten::_pack_padded_sequence":
        cure = "give the recurrent layer the padded batch"
    elif op == "aten::index" and backward:
        cure = "leave out sparse=True or padding_idx of the embedding"
    what = f"reads the value of a tensor ({op}), so the step is not the same for every batch"
    return refuse(what, cure)
