"""A thread for the work of one actor, so that the loop of its node never waits for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from emplace.actor.node import Node


class Worker:
    """Runs calls one after the other. The thread ends with the process: an endless call blocks nothing."""

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]]
        self._calls = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, call: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        """Runs `call` on the thread, then `then(result, error)` on the loop."""
        self._calls.put((call, then))

    def _run(self) -> None:
        while True:
            call, then = self._calls.get()
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - Whatever the work raises is the actor's to report.
                error = raised
            self._node.post(lambda then=then, result=result, error=error: then(result, error))  # type: ignore[misc]
