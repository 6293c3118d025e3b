"""Sees the calls of PyTorch's functions while a step is traced."""

from __future__ import annotations

from typing import Any

import torch

from emplace.tracing import scalars
from emplace.tracing.recorder import Recorder, bind
from emplace.tracing.refusal import refuse
from emplace.tracing.values import Cell, TensorInfo, Value


class Watcher(torch.overrides.TorchFunctionMode):
    """Sees the calls of PyTorch's functions: marks autograd nodes, and follows traced numbers into ops."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        scopes = self.recorder.scopes
        if scopes.phase != "update":
            result = func(*args, **kwargs)
            for each in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                    scopes.mark(each.grad_fn)
            return result
        return self._update(func, args, kwargs)

    def _update(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A call from the optimizer."""
        recorder = self.recorder
        if func is torch.Tensor.item:
            tensor = recorder.faked(args[0])
            if recorder.plain_numbers:
                if getattr(tensor, "constant", None) is not None:
                    return func(*args)
                return 1.0 if tensor.is_floating_point() else 1
            count = recorder._counts.get("local_scalar_dense", 0) % 89
            return recorder.item(
                tensor, 2.0 + 0.6180339887 * count if tensor.is_floating_point() else 2 + count
            )
        if (
            func in (torch.tensor, torch.as_tensor, torch.scalar_tensor)
            and args
            and isinstance(args[0], scalars.TracedNumber)
        ):
            dtype = kwargs.get("dtype") or (
                torch.get_default_dtype() if isinstance(args[0], float) else torch.int64
            )
            return self.tensor_of(args[0], dtype)
        numbers = [(a, False) for a in (*args, *kwargs.values()) if isinstance(a, scalars.TracedNumber)]
        saved, recorder.in_flight = recorder.in_flight, numbers
        try:
            result = func(*_plain(args), **{key: scalars.plain(value) for key, value in kwargs.items()})
            if not all(used for _, used in recorder.in_flight):
                name = getattr(func, "__name__", str(func))
                raise refuse(
                    f"gives {name} a number that changes from step to step, which no op takes as it is",
                    "give it to an op that computes with it",
                )
        finally:
            recorder.in_flight = saved
        return result

    def tensor_of(self, number: Any, dtype: torch.dtype) -> torch.Tensor:
        """A scalar tensor with a traced number."""
        recorder = self.recorder
        fake = torch.empty((), dtype=dtype)
        info = TensorInfo.of(fake)
        node = recorder.emit(torch.ops.aten.scalar_tensor.default, (number.node,), {"dtype": dtype}, (info,))
        bind(fake, Value(Cell(node, info), (), node))
        return fake


def _plain(args: Any) -> tuple[Any, ...]:
    return tuple(scalars.plain(arg) for arg in args)
