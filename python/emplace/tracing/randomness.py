"""Random draws in a functional graph.

A draw is a node that takes the next numbers from the default generator; draws run in the order of the
trace. Code that saves the generator's state and puts it back (checkpointing, to recompute the same dropout)
gets the nodes of the first time again, so the graph has each draw once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.fx import Node

from emplace.tracing.refusal import refuse


class Draws:
    """The draws of a trace, in order, and the position in them."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, Node]] = []
        self.position = 0
        self._states: list[tuple[torch.Tensor, int]] = []

    def again(self, key: Any) -> Node | None:
        """The node of the draw at the position if the generator has been put back, else None."""
        if self.position == len(self.nodes):
            return None
        was, node = self.nodes[self.position]
        if was != key:
            raise refuse(
                "draws other random numbers after the generator's state was put back than before",
                "draw the same numbers when a checkpointed part is computed again",
            )
        self.position += 1
        return node

    def add(self, key: Any, node: Node) -> None:
        """A new draw."""
        self.nodes.append((key, node))
        self.position = len(self.nodes)

    def _get(self, *_: Any, **__: Any) -> torch.Tensor:
        state = torch.Generator().get_state()
        self._states.append((state, self.position))
        return state

    def _set(self, new_state: torch.Tensor, *_: Any, **__: Any) -> None:
        for state, position in self._states:
            if state is new_state:
                self.position = position
                return
        raise refuse("sets the random generator's state inside the step", "set it before the step")

    def _seed(self, *_: Any, **__: Any) -> None:
        raise refuse("seeds the random generator inside the step", "seed it before the step")

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """While open, the generator's state is a position in the draws."""
        with contextlib.ExitStack() as stack:
            for place in (torch, torch.random):
                for name, function in (
                    ("get_rng_state", self._get),
                    ("set_rng_state", self._set),
                    ("manual_seed", self._seed),
                    ("seed", self._seed),
                ):
                    stack.enter_context(mock.patch.object(place, name, function))
            yield
