"""The calls of PyTorch's dispatcher in a traced forward pass, in order, and the modules that issued them.

Other programs see the same calls when the model trains: those that checkpoint it find its ops by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Ops whose results share the memory of their first argument, although their schema does not show it.
ALIASES = frozenset({"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes"})


def ignored(func: Any) -> bool:
    """Whether a call may come more or less often than in the trace; torch's checkpoints ignore it, too."""
    return func.namespace in ("prim", "profiler") or str(func) == "aten.detach.default"


@dataclass(frozen=True)
class Call:
    """One call."""

    func: str
    """The operator with its overload."""
    nodes: tuple[str, ...]
    """Nodes of the step that it made; none if its result is a constant or is not needed."""
    writes: tuple[str, ...]
    """First nodes of the tensors that it writes to: what made them."""
    random: bool
    view: bool

    @property
    def alias(self) -> bool:
        """Whether it is one of the ALIASES."""
        return self.func.split(".")[1] in ALIASES


@dataclass
class Visit:
    """One call of a module: its calls are ``calls[begin:end]``."""

    module: str
    """As PyTorch names it; empty for the model itself."""
    begin: int
    end: int | None = None


@dataclass
class CallLog:
    """All calls of the forward pass and the loss."""

    calls: list[Call] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    """The first call of each micro-batch, and the end."""
    trainable: set[str] = field(default_factory=set)
    """Names of parameters that required a gradient."""

    def enter(self, module: str) -> None:
        """A module is called."""
        self.visits.append(Visit(module, len(self.calls)))

    def leave(self, module: str) -> None:
        """A module returns."""
        for visit in reversed(self.visits):
            if visit.module == module and visit.end is None:
                visit.end = len(self.calls)
                return
