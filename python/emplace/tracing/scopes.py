"""Scope (module path) and phase of every op, the backward ones those of their forward op."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from emplace.tracing.calls import CallLog

LOSS = "loss"
OPTIMIZER = "optimizer"
_KEY = "emplace_scope"


def path_of(name: str, root: str) -> str:
    """``layers/0/attn`` for the module ``layers.0.attn``; ``root`` for the model itself.

    >>> path_of("layers.0.attn", "Net"), path_of("", "Net")
    ('layers/0/attn', 'Net')
    """
    return name.replace(".", "/") if name else root


class Scopes:
    """Where in the model, and in which phase of the step, the program is now."""

    def __init__(self) -> None:
        self.phase = "forward"
        self.stack: list[str] = []
        self.differentiated: str | None = None
        self.log = CallLog()

    def now(self) -> str:
        """The scope of an op that is issued now (updates have their parameter's instead)."""
        if self.stack:
            return self.stack[-1]
        if self.phase == "backward" and self.differentiated is not None:
            return self.differentiated
        return OPTIMIZER if self.phase == "update" else LOSS

    @contextlib.contextmanager
    def following(self, model: torch.nn.Module) -> Iterator[None]:
        """Follows the calls of the model's modules by hooks."""
        handles: list[Any] = []
        root = type(model).__name__
        try:
            for name, module in model.named_modules():
                enter, leave = self._hooks(name, path_of(name, root))
                handles.append(module.register_forward_pre_hook(enter))
                handles.append(module.register_forward_hook(leave))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hooks(self, name: str, path: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def enter(*_: Any) -> None:
            self.stack.append(path)
            if self.phase == "forward":
                self.log.enter(name)

        def leave(*_: Any) -> None:
            # A module that was left by an exception (checkpointing stops early by one) is still on the stack.
            while self.stack and self.stack.pop() != path:
                pass
            if self.phase == "forward":
                self.log.leave(name)

        return enter, leave

    def mark(self, function: Any) -> None:
        """Writes the scope on autograd nodes that are new, to be restored when they run."""
        todo = [function]
        while todo:
            node = todo.pop()
            if node is None or _KEY in node.metadata:
                continue
            scope = self.now()
            node.metadata[_KEY] = scope
            node.register_prehook(self._restore(scope))
            todo.extend(following for following, _ in node.next_functions)

    def _restore(self, scope: str) -> Callable[..., None]:
        def prehook(*_: Any) -> None:
            self.differentiated = scope
            self.stack.clear()

        return prehook
