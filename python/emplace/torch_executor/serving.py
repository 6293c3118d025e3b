"""An executor process: requests of its parent in order, and heartbeats meanwhile."""

from __future__ import annotations

import ctypes
import os
import queue
import resource
import signal
import socket
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from emplace.errors import EmplaceError
from emplace.torch_executor import channel as wire
from emplace.torch_executor import msgpack
from emplace.torch_executor.options import NAME, Chaos, Options, no_torch, torch_version
from emplace.version import __version__

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

    def __init__(self, channel: wire.Channel) -> None:
        self._channel = channel
        self._requests: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()
        self._progress = 0
        for work in (self._listen, self._beat):
            threading.Thread(target=work, name=f"{NAME} {work.__name__}", daemon=True).start()

    def progress(self) -> None:
        """Counts progress: the heartbeats of a process that hangs repeat the count."""
        self._progress += 1

    def next(self) -> wire.Message:
        """The next request."""
        return self._requests.get()

    def send(self, type: int, body: dict[str, Any]) -> None:
        """Sends an answer; the process ends if the parent is gone."""
        try:
            self._channel.send(type, body)
        except wire.PeerGone:
            os._exit(0)

    def _listen(self) -> None:
        while True:
            try:
                self._requests.put(self._channel.receive())
            except wire.PeerGone:
                os._exit(0)
            except msgpack.Malformed as error:
                _print_error(f"the parent's message {error}")
                os._exit(1)

    def _beat(self) -> None:
        while True:
            self.send(wire.BEAT, {"progress": self._progress})
            time.sleep(_BEAT_S)


def _print_error(line: str) -> None:
    os.write(2, (line + "\n").encode("utf-8", "replace"))


def serve(options: Options) -> int:
    """Answers the parent's requests until it is gone; the exit status if there is no parent."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # A terminal sends them to the whole group; the parent handles them.
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
    line = Line(wire.Channel(socket.socket(fileno=CHANNEL_FD)))
    request = line.next()
    try:
        executor, stand_ins = _prepared(request, options, line)
    except (EmplaceError, _Refusal) as error:
        code = error.code if isinstance(error, _Refusal) else wire.INVALID
        line.send(wire.REFUSED, {"code": code, "error": str(error)})
        while True:
            line.next()  # The process ends when the parent closes the channel.
    line.send(
        wire.READY,
        {
            "kind": "torch",
            "version": f"torch {torch_version()} (emplace {__version__})",
            "synthetic_types": [],
            "stand_ins": stand_ins,
        },
    )
    _requests(executor, options.chaos, line)


class _Refusal(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _has_parent() -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(CHANNEL_FD).st_mode)
    except OSError:
        return False


def _prepared(request: wire.Message, options: Options, line: Line) -> tuple[TorchExecutor, list[str]]:
    """Imports torch, traces the model, compares it with the parent's graph."""
    if request.type != wire.PREPARE:
        raise _Refusal(wire.INVALID, f"executor process: message {request.type} was not expected")
    if not options.model:
        raise _Refusal(wire.INVALID, "executor 'torch': no model is named; give --model MODULE:FUNCTION")
    if not torch_version():
        raise _Refusal(wire.UNSUPPORTED, f"{no_torch()}; pip install emplace torch")
    if request.vector("link_shaped", "u1").any():
        raise _Refusal(
            wire.UNSUPPORTED, "executor 'torch': does not slow links down; remove 'shaped' from the links"
        )
    import torch

    from emplace.torch_executor.device_facts import DeviceFacts
    from emplace.torch_executor.executor import TorchExecutor, on_this_machine
    from emplace.torch_executor.model import compare, load
    from emplace.torch_executor.timing import Timing

    line.progress()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    graph, batch = load(options.model)
    line.progress()
    document = msgpack.unpack(request.section("graph"))
    compare(options.model, graph.document, document)
    line.progress()
    facts = [DeviceFacts(d["name"], d["kind"], d["memory_bytes"]) for d in request.body["devices"]]
    devices, stand_ins = on_this_machine(facts, options.devices, options.threads)
    body = request.body
    timing = Timing(
        body.get("warmups", 5),
        body.get("samples", 5),
        body.get("most_samples", 15),
        body.get("statistic", 0) == 1,
        body.get("stop_ratio", 0.0),
    )
    assert graph.step is not None
    executor = TorchExecutor(
        graph.step,
        document,
        facts,
        devices,
        timing,
        batch=batch,
        seed=body.get("seed", 0) & (1 << 63) - 1,
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
            raise _Refusal(wire.UNSUPPORTED, f"device '{device.name}': computes wrong products")


def _requests(executor: TorchExecutor, chaos: Chaos, line: Line) -> NoReturn:
    from emplace.torch_executor.executor import DeviceLost, TaskError

    while True:
        request = line.next()
        line.progress()
        if request.type != wire.RUN:
            _print_error(f"message: type {request.type} was not expected")
            os._exit(1)
        number = int(request.body.get("id", 0))
        try:
            line.send(*_answer(executor, chaos, request, number))
        except DeviceLost as lost:
            _print_error(str(lost))
            os._exit(DEVICE_LOST_STATUS)
        except TaskError as error:
            line.send(wire.FAILED, {"id": number, "code": error.code, "error": str(error)})
        except EmplaceError as error:
            line.send(wire.FAILED, {"id": number, "code": wire.INVALID, "error": str(error)})


def _answer(
    executor: TorchExecutor, chaos: Chaos, request: wire.Message, number: int
) -> tuple[int, dict[str, Any]]:
    placement = request.section("placement")
    task = request.body.get("task", 0)
    if task == 0:
        measured = _failing(executor, chaos, placement, number)
        return wire.RAN, {"id": number, "measurement": measured or executor.measure(placement)}
    if task == 1:
        measured, schedule = executor.trace(placement)
        return wire.TRACED, {"id": number, "measurement": measured, "schedule": schedule}
    if task == 2:
        found = executor.verify(placement)
        return wire.VERIFIED, {
            "id": number,
            "verification": {
                "identical": found.identical,
                "compared": found.compared,
                "skipped": found.skipped,
                "first_difference": found.first_difference or "",
            },
        }
    if task == 3:
        return wire.PROFILED, {"id": number, "profile": executor.profile()}
    return wire.FAILED, {
        "id": number,
        "code": wire.INVALID,
        "error": "executor process: received an unknown task",
    }


def _failing(executor: TorchExecutor, chaos: Chaos, placement: bytes, number: int) -> dict[str, Any] | None:
    """The failure that is due at this measurement, as ``launcher/worker/chaos.h`` has it."""
    if chaos.due("crash", number):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    while chaos.due("hang", number):
        time.sleep(3600)
    if chaos.due("poison", number):
        _print_error(f"measurement {number} lost its device on purpose")
        os._exit(DEVICE_LOST_STATUS)
    if not chaos.due("oom", number):
        return None
    count = len(executor.facts)
    at = number % len(placement)
    fact = executor.facts[placement[at]]
    return {
        "valid": False,
        "step_time_s": 0.0,
        "peak_bytes": np.zeros(count, "<i8"),
        "busy_s": np.zeros(count, "<f8"),
        "bytes_moved": 0,
        "bytes_over": 1,
        "synthetic_share": 0.0,
        "samples_s": np.zeros(0, "<f8"),
        "label": 4,
        "failure": f"oom: '{executor.ops[at]}' on {fact.name} requested {fact.memory_bytes + 1} bytes,"
        f" the largest free block has {fact.memory_bytes}",
    }


def main(arguments: list[str] | None = None) -> int:
    """The command ``emplace-exec-torch``."""
    from emplace.torch_executor.options import BadOption, parse, version_line

    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except BadOption as error:
        _print_error(f"error: {error}")
        return 2
    if options.version:
        if not torch_version():
            _print_error(no_torch())
            return 2
        print(version_line())
        return 0
    return serve(options)
