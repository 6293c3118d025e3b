"""Executors in Python: they join a dispatcher, get leases, measure, and answer
(docs/reference/wire_format.md, "Executors").
"""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.actor.graph import Graph
from emplace.actor.link import HEARTBEAT
from emplace.actor.node import DISPATCHER, VERSION, Actor, host_name, random_number
from emplace.actor.run import EXECUTORS_PER_NODE, Run
from emplace.actor.worker import Worker
from emplace.errors import EmplaceError
from emplace.wire.executor_messages import Measurement
from emplace.wire.frames import Incoming
from emplace.wire.messages import (
    CreditGranted,
    ExecutorJoined,
    ExecutorLeft,
    ExecutorUnknown,
    Heartbeat,
    LeaseGranted,
    PlacementMeasured,
)

log = logging.getLogger("emplace.actor")
SIMULATED, MEASURED, PARTLY_SYNTHETIC, EMULATED, PYTORCH = range(5)  # Labels of a measurement.
_WINDOW_BYTES = 64 << 20


class Executor(ABC):
    """What measures placements. Subclass it: measure() is all that is needed."""

    kind = ""  # "sim", "cpu", …; empty: that of the run. The run must count it.

    def prepare(self, run: Run) -> None:
        """Called once, before the executor joins."""

    @abstractmethod
    def measure(self, graph: Graph, placement: NDArray[np.uint8]) -> Measurement:
        """One training step under a placement: the device of each op, by position in the run's device list.

        Runs on a thread of its own; its duration is not limited. A placement that does not run is a
        Measurement with valid=False and a failure ("oom: …"). An exception means that this executor cannot
        measure: the lease goes to another one, and three of them quarantine this one for a while.
        """


@dataclass
class _Work:
    lease: LeaseGranted
    placements: bytes
    dispatcher: int


class ExecutorActor(Actor):
    """The protocol around an Executor. Everything but measure() is here."""

    def __init__(self, run: Run, executor: Executor) -> None:
        self.run, self.executor = run, executor
        own = str(run.setting("executor", "kind", "sim"))
        self.kind = executor.kind or own
        counted = run.setting("executor", "counts", []) or [own]
        if self.kind not in counted:  # The dispatcher would give it no work, and only log it.
            raise EmplaceError(
                f"executor kind '{self.kind}'",
                "gets no work in this run",
                f"use {', '.join(counted)} (executor.counts)",
            )
        self.measured = 0  # Placements answered.
        self._work: deque[_Work] = deque()  # The front lease is being measured.
        self._measuring = self._left = False
        self._epoch_now = self._seen = 0
        self._busy_s = self._since = 0.0
        self._withheld = (0, 0)  # Credit that a lease of an earlier incarnation still uses.
        self._joined = False

    def on_start(self) -> None:
        self._worker = Worker(self.node, self.name)
        self._worker.do(lambda: self.executor.prepare(self.run), self._prepared)

    def _prepared(self, _: object) -> None:
        self._epoch_now = self.next_epoch()
        self._join()
        self.after(HEARTBEAT, self._beat)

    def _join(self) -> None:
        window = int(self.run.setting("executor", "window", 512))
        per_lease = int(self.run.setting("pipeline", "placements_per_lease", 4))
        most_ops = max(graph.num_ops for graph in self.run.graphs)
        window_bytes = max(_WINDOW_BYTES, 4 * per_lease * most_ops)
        self._withheld = (0, 0)
        if self._measuring:
            self._withheld = (self._work[0].lease.count, len(self._work[0].placements))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._joined = self.send(
            DISPATCHER,
            ExecutorJoined(
                name=self.name,
                host=host_name(),
                kind=self.kind,
                graph_sha256=self.run.task,
                devices=len(self.run.devices),
                epoch=self._epoch_now,
                placements=max(0, window - self._withheld[0]),
                bytes=max(0, window_bytes - self._withheld[1]),
                node=self.node.name,
                cores=os.cpu_count() or 0,
                memory_bytes=memory,
                version=VERSION,
            ),
        )

    def _beat(self) -> None:
        if self._left:
            return
        busy = self._busy_s + (time.monotonic() - self._since if self._measuring else 0.0)
        leases = np.array([work.lease.lease_epoch for work in self._work], np.uint64)
        self.send(DISPATCHER, Heartbeat(self.name, self._epoch_now, leases, busy, self._seen))
        self.after(HEARTBEAT, self._beat)

    def on_message(self, incoming: Incoming) -> None:
        if incoming.number == LeaseGranted.NUMBER:
            self._on_lease(incoming.read(LeaseGranted), incoming)
        elif incoming.number == ExecutorUnknown.NUMBER:
            unknown = incoming.read(ExecutorUnknown)
            if unknown.epoch != self._epoch_now or self._left:
                return
            # The dispatcher does not expect this work; leases in flight are for the earlier incarnation.
            while len(self._work) > (1 if self._measuring else 0):
                self._work.pop()
            self._epoch_now = self.next_epoch()
            self._join()

    def _on_lease(self, lease: LeaseGranted, incoming: Incoming) -> None:
        if self._left or lease.executor_epoch not in (0, self._epoch_now):
            return
        self._seen = max(self._seen, lease.lease_epoch)
        placements = bytes(incoming.section(lease.placements))
        self._work.append(_Work(lease, placements, incoming.envelope.sender))
        if not self._measuring:
            self._start()

    def _start(self) -> None:
        work = self._work[0]
        self._measuring, self._since = True, time.monotonic()
        self._worker.do(lambda: self._measure(work), self._answer, self._cannot)

    def _measure(self, work: _Work) -> PlacementMeasured:
        """Measures a lease, on the thread."""
        lease = work.lease
        graph = self.run.graph(lease.graph_sha256)
        if graph is None or len(work.placements) != graph.num_ops * lease.count:
            raise ValueError("its placements do not match the graph")
        rows = np.frombuffer(work.placements, np.uint8).reshape(lease.count, graph.num_ops)
        results = []
        for row in rows:
            if self._left:
                break
            results.append(self.executor.measure(graph, row))
        return columns_of(results, lease.num_devices)

    def _cannot(self, cause: BaseException) -> None:
        """Reported: the lease goes to another executor."""
        if not isinstance(cause, Exception):
            raise cause
        if self._left:
            return
        error = " ".join(str(cause).split()) or type(cause).__name__
        log.warning("%s cannot measure: %s", self.name, error)
        self._answer(PlacementMeasured(error=error))

    def _answer(self, answer: PlacementMeasured) -> None:
        if self._left:
            return
        work = self._work.popleft()
        lease = work.lease
        answer.placement_id, answer.lease_epoch = lease.placement_id, lease.lease_epoch
        answer.host, answer.executor, answer.executor_kind = host_name(), self.name, self.kind
        answer.wall_s = time.monotonic() - self._since
        self._busy_s += answer.wall_s
        self._measuring = False
        self.measured += lease.count
        self.send(work.dispatcher, answer)
        if self._withheld != (0, 0):
            self.send(DISPATCHER, CreditGranted(self.name, self._epoch_now, *self._withheld))
            self._withheld = (0, 0)
        if self._work:
            self._start()

    def on_stop(self) -> None:
        """Returns the unfinished leases: other executors get them at once."""
        self._left = True
        if not self._joined:
            return
        leases = np.array([work.lease.lease_epoch for work in self._work], np.uint64)
        self.send(DISPATCHER, ExecutorLeft(self.name, self._epoch_now, "the node stops", leases, self._seen))


def columns_of(results: Sequence[Measurement], devices: int) -> PlacementMeasured:
    """Measurements as columns. Raises ValueError for values that the dispatcher would refuse."""
    answer = PlacementMeasured(count=len(results), num_devices=devices)
    answer.valid = np.array([result.valid for result in results], np.uint8)
    answer.step_time_s = np.array([result.step_time_s for result in results], np.float64)
    answer.bytes_over = np.array([result.bytes_over for result in results], np.int64)
    answer.bytes_moved = np.array([result.bytes_moved for result in results], np.int64)
    answer.peak_bytes = np.zeros((len(results), devices), np.int64)
    answer.busy_s = np.zeros((len(results), devices), np.float64)
    for row, result in enumerate(results):
        for column, given in ((answer.peak_bytes, result.peak_bytes), (answer.busy_s, result.busy_s)):
            column[row, : len(given)] = given[:devices]
    if any(result.synthetic_share for result in results):
        answer.synthetic_shares = np.array([result.synthetic_share for result in results], np.float64)
    if any(result.failure for result in results):
        answer.failures = [result.failure for result in results]
    if any(result.label for result in results):
        answer.labels = np.array([result.label for result in results], np.uint8)
    if any(len(result.samples_s) for result in results):
        answer.sample_counts = np.array([len(result.samples_s) for result in results], np.uint32)
        answer.samples_s = np.concatenate([np.asarray(result.samples_s, np.float64) for result in results])
    times = np.concatenate([answer.step_time_s, answer.busy_s.ravel(), answer.samples_s])
    if not np.all(np.isfinite(times)) or np.any((times < 0) | (times > 1e9)):
        raise ValueError("a time is not within 0 and 1e9 s")
    if np.any((answer.valid == 1) & ~(answer.step_time_s > 0)):
        raise ValueError("a valid placement has no step time")
    amounts = np.concatenate([answer.bytes_over, answer.bytes_moved, answer.peak_bytes.ravel()])
    if np.any((amounts < 0) | (amounts > 2**53)):
        raise ValueError("a number of bytes is not within 0 and 2^53")
    return answer


def executors(run: Run, make: Callable[[], Executor], count: int = 1) -> dict[str, Actor]:
    """`count` executors under names that no other node has, for join()."""
    if not 1 <= count <= EXECUTORS_PER_NODE:
        raise EmplaceError("count", f"is {count}", f"use 1 to {EXECUTORS_PER_NODE} executors in one process")
    first = random_number() * EXECUTORS_PER_NODE
    return {f"executor/{first + k}": ExecutorActor(run, make()) for k in range(count)}
