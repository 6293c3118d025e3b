"""Saved tensors that wait on another device, by hooks of autograd."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from emplace.errors import EmplaceError
from emplace.tracing import compat
from emplace.tracing.calls import Call, ignored
from emplace.tracing.step import TracedStep

Moves = Mapping[tuple[str, int], torch.device]


class _Copying(threading.local):
    on = False


_copying = _Copying()


@contextlib.contextmanager
def unseen(on: bool = True) -> Iterator[None]:
    """While open, calls are not those of the forward pass (or they are again)."""
    before, _copying.on = _copying.on, on
    try:
        yield
    finally:
        _copying.on = before


class Waiting:
    """A tensor that waits on another device. It is copied there and back once, however many read it."""

    def __init__(self, tensor: torch.Tensor, device: torch.device) -> None:
        self._layout = tensor.size(), tensor.stride()
        self.offset, self.dtype, self._home, self._device = (
            tensor.storage_offset(), tensor.dtype, tensor.device, device,
        )  # fmt: skip
        self.readers = 0
        self._there: torch.Tensor | None = None
        self._back: torch.Tensor | None = None
        self._left = 0

    def leave(self, tensor: torch.Tensor) -> int:
        """Copies it, once, from a tensor that shares its memory; returns the bytes that were copied."""
        if self._there is not None:
            return 0
        with unseen():
            value = tensor.detach().as_strided(*self._layout, self.offset)
            self._there = self._copy(value, self._device)
        return value.numel() * value.element_size()

    def come_back(self) -> torch.Tensor:
        """The tensor on its own device; kept there until all of its readers have it."""
        assert self._there is not None
        if self._back is None:
            self._back, self._left = self._copy(self._there, self._home), self.readers
        back, self._left = self._back, self._left - 1
        if self._left <= 0:
            self._back = None
        return back

    def _copy(self, value: torch.Tensor, device: torch.device) -> torch.Tensor:
        pinned = device.type == "cpu" and value.device.type == "cuda"
        with unseen():
            made = torch.empty_strided(*self._layout, dtype=self.dtype, device=device, pin_memory=pinned)
            return made.copy_(value, non_blocking=True)


class Offload(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context for forward pass and loss, in which the tensors of a plan leave when autograd saves them.

    Calls are matched with the traced ones in order, starting over where a module is entered or left.
    """

    def __init__(self, model: torch.nn.Module, step: TracedStep, moves: Moves, batch: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved_bytes = 0
        """Bytes that were copied to other devices."""
        begin, end = step.log.starts[batch : batch + 2]
        self._model, self._log, self._calls, self._at = model, step.log, step.log.calls[:end], begin
        called = {node: index for index in range(begin, end) for node in self._calls[index].nodes}
        indices = {op: called[node] for node, op in step.op_of.items() if node in called}
        self._expected = {indices[op]: op for op, _ in moves if op in indices}
        self._moves: dict[int, dict[int, torch.device]] = defaultdict(dict)
        for (op, output), device in moves.items():
            if op in indices:
                self._moves[indices[op]][output] = device
        self._begin, self._end = begin, end
        self._waiting: dict[tuple[str, int], Waiting] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Any:
        self._stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack))
        for name, module in self._model.named_modules():
            self._follow(name, module)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, kind: Any, *rest: Any) -> None:
        super().__exit__(kind, *rest)  # type: ignore[no-untyped-call]
        self._stack.close()
        self._waiting.clear()
        if kind is None and self._expected:
            raise EmplaceError(
                "offload()",
                f"op '{next(iter(self._expected.values()))}' of the plan did not run as in the traced step",
                "trace the step again, with the model and the batch as they are trained",
            )

    def _follow(self, name: str, module: torch.nn.Module) -> None:
        visits = self._log.visits
        own = iter([v for v in visits if v.module == name and self._begin <= v.begin < self._end])
        entered: list[Any] = []

        def enter(*_: Any) -> None:
            entered.append(next(own, None))
            self._at = entered[-1].begin if entered[-1] else -1

        def leave(*_: Any) -> None:
            visit = entered.pop() if entered else None
            self._at = visit.end if visit and visit.end is not None else -1

        for handle in (module.register_forward_pre_hook(enter), module.register_forward_hook(leave)):
            self._stack.callback(handle.remove)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _copying.on or ignored(func):
            return result
        index, self._at = self._at, self._at + 1
        if not 0 <= index < len(self._calls) or self._calls[index].func != str(func):
            index = self._at = -1  # Other calls than traced, until a module is entered or left.
        given = tensors_in(*args, *(kwargs or {}).values())
        addresses = {compat.storage_address(each) for each in given}
        moved = self._moves.get(index, {})
        for output, tensor in enumerate(tensors_in(result), first_output(self._calls[index], result, given)):
            address = compat.storage_address(tensor)
            if address not in addresses:  # New memory, maybe where a tensor was before.
                self._waiting.pop(address, None)
            storage: Any = getattr(tensor, "storage" if compat.OLD else "untyped_storage")()
            if output in moved and storage.nbytes() == tensor.numel() * tensor.element_size():
                self._waiting[address] = Waiting(tensor, moved[output])
        self._expected.pop(index, None)
        return result

    def _pack(self, tensor: torch.Tensor) -> Any:
        waiting = self._waiting.get(compat.storage_address(tensor))
        if waiting is None or waiting.dtype != tensor.dtype:
            return (
                tensor if tensor.grad_fn is None else tensor.detach()
            )  # Not itself: that would be a circle.
        self.moved_bytes += waiting.leave(tensor)
        waiting.readers += 1
        return waiting, tensor.size(), tensor.stride(), tensor.storage_offset() - waiting.offset

    def _unpack(self, packed: Any) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        waiting, *layout = packed
        with unseen():
            back: torch.Tensor = waiting.come_back().as_strided(*layout)
            return back


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """The tensors among values and in lists of them."""
    flat = [one for each in values for one in (each if isinstance(each, (tuple, list)) else (each,))]
    return [each for each in flat if isinstance(each, torch.Tensor)]


def first_output(call: Call, result: Any, given: list[torch.Tensor]) -> int:
    """The number of a call's first result in its op, whose first outputs are what the call writes to."""
    own = tensors_in(result)
    return 0 if own and any(own[0] is each for each in given) else len(call.writes)
