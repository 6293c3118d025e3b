"""A thread for the work of one actor, so that the loop of its node never waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from emplace.actor.node import Node

_Call = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


def fail(error: BaseException) -> None:
    """What a call that raises does by default: its error ends the node."""
    raise error


class Worker:
    """Runs calls one after the other. Calls left when the node ends are made before the process ends,
    for a few seconds at most, so that an endless call does not block the end.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        node.at_end(self.end)

    def do(
        self,
        call: Callable[[], Any],
        then: Callable[[Any], None],
        failed: Callable[[BaseException], None] = fail,
    ) -> None:
        """Runs `call` on the thread, then `then(result)` on the loop, or `failed(error)` if it raises."""
        self._calls.put((call, then, failed))

    def end(self, until: float) -> None:
        self._calls.put(None)
        self._thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            call, then, failed = work
            try:
                after = partial(then, call())
            except BaseException as error:
                after = partial(failed, error)
            self._node.post(after)
