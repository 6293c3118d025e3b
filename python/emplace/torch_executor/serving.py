"""An executor process: requests of its parent in order, and heartbeats meanwhile."""

from __future__ import annotations

import ctypes
import os
import queue
import resource
import signal
import socket
import stat
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from emplace.errors import EmplaceError
from emplace.torch_executor.channel import INVALID, UNSUPPORTED, Channel, PeerGone, Refused
from emplace.torch_executor.options import NAME, Options, torch_version
from emplace.version import __version__
from emplace.wire.codec import Message, WireError, unpack
from emplace.wire.executor_messages import (
    ExecutorBeat,
    ExecutorProfiled,
    ExecutorReady,
    ExecutorRefused,
    Measurement,
    PlacementRan,
    PlacementTraced,
    PlacementVerified,
    PrepareExecutor,
    RunPlacement,
    TaskFailed,
    VerificationFacts,
)
from emplace.wire.frames import Incoming

if TYPE_CHECKING:
    from emplace.torch_executor.executor import TorchExecutor

#: The descriptor of the channel, and the exit status after a lost device
#: (``launcher/worker/helper_process.h``).
CHANNEL_FD = 3
DEVICE_LOST_STATUS = 75
_BEAT_S = 0.2
_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8


class Line:
    """The channel: threads receive requests and send heartbeats while the main thread computes."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._requests: queue.SimpleQueue[Incoming] = queue.SimpleQueue()
        self._progress = 0
        for work in (self._listen, self._beat):
            threading.Thread(target=work, name=f"{NAME} {work.__name__}", daemon=True).start()

    def progress(self) -> None:
        """Counts progress: the heartbeats of a process that hangs repeat the count."""
        self._progress += 1

    def next(self) -> Incoming:
        """The next request."""
        return self._requests.get()

    def send(self, message: Message) -> None:
        """Sends an answer; the process ends if the parent is gone."""
        try:
            self._channel.send(message)
        except PeerGone:
            os._exit(0)

    def _listen(self) -> None:
        while True:
            try:
                self._requests.put(self._channel.receive())
            except PeerGone:
                os._exit(0)
            except WireError as error:
                _print_error(f"the parent's message: {error}")
                os._exit(1)

    def _beat(self) -> None:
        while True:
            self.send(ExecutorBeat(self._progress))
            time.sleep(_BEAT_S)


def _print_error(line: str) -> None:
    os.write(2, (line + "\n").encode("utf-8", "replace"))


def serve(options: Options) -> int:
    """Answers the parent's requests until it is gone; the exit status if there is no parent."""
    for number in (signal.SIGINT, signal.SIGHUP):
        # A terminal sends them to the whole group; the parent handles them.
        signal.signal(number, signal.SIG_IGN)
    system = ctypes.CDLL(None)
    system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if hasattr(system, "mallopt"):
        # The threads of devices allocate as the main thread does, in whose arena plain PyTorch runs: in an
        # arena of their own they would return memory to the system and fault it in again.
        system.mallopt(_M_ARENA_MAX, 1)
    if not _has_parent() or (options.parent and os.getppid() != options.parent):
        _print_error(f"error: {NAME}: cannot run by itself; use emplace evaluate --executor torch")
        return 2
    os.set_inheritable(CHANNEL_FD, False)
    line = Line(Channel(socket.socket(fileno=CHANNEL_FD)))
    request = line.next()
    try:
        executor, stand_ins = _prepared(request, options, line)
    except (EmplaceError, Refused) as error:
        line.send(ExecutorRefused(error.code if isinstance(error, Refused) else INVALID, str(error)))
        while True:
            line.next()  # The process ends when the parent closes the channel.
    version = f"torch {torch_version()} (emplace {__version__})"
    line.send(ExecutorReady("torch", version, stand_ins=stand_ins))
    _requests(executor, options, line)


def _has_parent() -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(CHANNEL_FD).st_mode)
    except OSError:
        return False


def _prepared(request: Incoming, options: Options, line: Line) -> tuple[TorchExecutor, list[str]]:
    """Imports torch, traces the model, compares it with the parent's graph."""
    if request.number != PrepareExecutor.NUMBER:
        raise Refused(INVALID, f"executor process: message {request.number} was not expected")
    if not options.model:
        raise Refused(INVALID, "executor 'torch': no model is named; give --model MODULE:FUNCTION")
    prepare = request.read(PrepareExecutor)
    if prepare.link_shaped.any():
        raise Refused(
            UNSUPPORTED, "executor 'torch': does not slow links down; remove 'shaped' from the links"
        )
    import torch

    from emplace.torch_executor.executor import TorchExecutor, on_this_machine
    from emplace.torch_executor.model import compare, load
    from emplace.torch_executor.timing import Timing

    line.progress()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    graph, batch = load(options.model)
    line.progress()
    document = unpack(request.section(prepare.graph), "graph")
    compare(options.model, graph.document, document)
    line.progress()
    devices, stand_ins = on_this_machine(prepare.devices, options.devices, options.threads)
    timing = Timing(
        prepare.warmups, prepare.samples, prepare.most_samples, prepare.statistic == 1, prepare.stop_ratio
    )
    assert graph.step is not None
    executor = TorchExecutor(
        graph.step,
        document,
        prepare.devices,
        devices,
        timing,
        batch=batch,
        seed=prepare.seed & (1 << 63) - 1,
        progress=line.progress,
    )
    _test_itself(devices)
    line.progress()
    return executor, stand_ins


def _test_itself(devices: list[Any]) -> None:
    """Each device computes a product that is known."""
    import torch

    for device in devices:
        ones = torch.ones(64, 64, device=device.device)
        if float((ones @ ones).sum()) != 64.0**3:
            raise Refused(UNSUPPORTED, f"device '{device.name}': computes wrong products")


def _requests(executor: TorchExecutor, options: Options, line: Line) -> NoReturn:
    from emplace.torch_executor.executor import DeviceLost

    while True:
        request = line.next()
        line.progress()
        if request.number != RunPlacement.NUMBER:
            _print_error(f"message: type {request.number} was not expected")
            os._exit(1)
        try:
            run = request.read(RunPlacement)
        except WireError as error:
            _print_error(f"message: {error}")
            os._exit(1)
        try:
            line.send(_answer(executor, options, run, bytes(request.section(run.placement))))
        except DeviceLost as lost:
            _print_error(str(lost))
            os._exit(DEVICE_LOST_STATUS)
        except (EmplaceError, Refused) as error:
            line.send(TaskFailed(run.id, error.code if isinstance(error, Refused) else INVALID, str(error)))


def _answer(executor: TorchExecutor, options: Options, run: RunPlacement, placement: bytes) -> Message:
    if run.task == 0:
        failing = _failing(executor, options, placement, run.id)
        return PlacementRan(run.id, failing or executor.measure(placement))
    if run.task == 1:
        return PlacementTraced(run.id, *executor.trace(placement))
    if run.task == 2:
        found = executor.verify(placement)
        first = found.first_difference or ""
        return PlacementVerified(
            run.id, VerificationFacts(found.identical, found.compared, found.skipped, first)
        )
    if run.task == 3:
        return ExecutorProfiled(run.id, executor.profile())
    return TaskFailed(run.id, INVALID, "executor process: received an unknown task")


def _failing(executor: TorchExecutor, options: Options, placement: bytes, number: int) -> Measurement | None:
    """The failure that is due at this measurement, as ``launcher/worker/chaos.h`` has it."""

    def due(every: int) -> bool:
        return every > 0 and number % every == 0

    if due(options.crash_every):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    while due(options.hang_every):
        time.sleep(3600)
    if due(options.poison_every):
        _print_error(f"measurement {number} lost its device on purpose")
        os._exit(DEVICE_LOST_STATUS)
    if not due(options.oom_every):
        return None
    at = number % len(placement)
    fact = executor.facts[placement[at]]
    found = executor.nothing()
    found.bytes_over = 1
    found.failure = (
        f"oom: '{executor.ops[at]}' on {fact.name} requested {fact.memory_bytes + 1} bytes,"
        f" the largest free block has {fact.memory_bytes}"
    )
    return found
