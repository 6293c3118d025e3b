"""Refusals of code that cannot be traced, with the line of the user's source."""

from __future__ import annotations

import os
import sys
from types import FrameType

import torch

from emplace.errors import EmplaceError

_INSIDE = (
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


def user_line(frame: FrameType | None = None) -> str:
    """``file:line`` of the innermost frame that is neither PyTorch's nor this package's."""
    frame = frame or sys._getframe(1)
    innermost = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    at: FrameType | None = frame
    while at is not None:
        name = at.f_code.co_filename
        if not name.startswith("<") and not os.path.abspath(name).startswith(_INSIDE):
            return f"{name}:{at.f_lineno}"
        at = at.f_back
    return innermost


def user_line_of(error: BaseException) -> str:
    """``file:line`` of the innermost frame of the user's own code in an exception's traceback."""
    where, trace = "trace", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<") and not os.path.abspath(name).startswith(_INSIDE):
            where = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where


def refuse(what: str, cure: str) -> EmplaceError:
    """The exception for something in the user's code that has no place in a static graph."""
    return EmplaceError(user_line(), what, cure)


class Branches(EmplaceError):
    """An optimizer's step that takes another way at some steps than at others."""


def branches(what: str) -> Branches:
    """The exception for a decision on a number that changes from step to step."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(_INSIDE[1]):
        frame = frame.f_back
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "optimizer"
    return Branches(
        where,
        f"{what} a number that changes from step to step",
        "compute with tensors (torch.where, clamp), or with min() and max()",
    )


def depends_on_data(op: str) -> EmplaceError:
    """The exception for control flow, or a shape, that depends on the values of tensors."""
    return refuse(
        f"reads the value of a tensor ({op}), so the step is not the same for every batch",
        "compute with tensors (torch.where, masks), or choose by shapes and Python values",
    )
