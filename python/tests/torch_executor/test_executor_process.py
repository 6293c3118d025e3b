"""The executor process answers its parent as every executor process does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import shop  # noqa: E402
from parent import PYTHON, Parent, device  # noqa: E402

from emplace import EmplaceError  # noqa: E402
from emplace.torch_executor.channel import INVALID, RUN_FAILED, PeerGone  # noqa: E402
from emplace.torch_executor.options import parse  # noqa: E402
from emplace.wire.codec import Section  # noqa: E402
from emplace.wire.executor_messages import (  # noqa: E402
    ExecutorBeat,
    ExecutorReady,
    ExecutorRefused,
    PlacementRan,
    PlacementTraced,
    RunPlacement,
    TaskFailed,
)

TWO = [device("cpu:0"), device("cpu:1")]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    from emplace.tracing import trace

    model, batch, loss, optimizer = shop.make_step()
    return dict(trace(model, batch, loss=loss, optimizer=optimizer).document)


def start(*options: str) -> Parent:
    return Parent(*(options or ("--model=shop:make_step",)), folder=HERE)


def random_bytes(document: dict[str, Any], devices: int, seed: int) -> bytes:
    """A random placement that keeps the graph's colocation."""
    choose, found = random.Random(seed), []
    for op in document["ops"]:
        found.append(found[op["colocate"]] if "colocate" in op else choose.randrange(devices))
    return bytes(found)


def test_answers_the_four_tasks(document: dict[str, Any]) -> None:
    parent = start()
    ready = parent.prepare(document, [device("cpu:0"), device("gpu:0", kind="gpu"), device("cpu:1")])
    assert isinstance(ready, ExecutorReady) and ready.kind == "torch" and ready.synthetic_types == []
    assert ready.version.startswith("torch ") and ready.stand_ins in (["gpu:0"], [])
    placement = random_bytes(document, 3, 1)
    ran = parent.run(1, 0, placement)
    measured = ran.measurement
    assert isinstance(ran, PlacementRan) and ran.id == 1 and measured.valid and measured.label == 4
    samples = measured.samples_s
    assert len(samples) == 3 and measured.step_time_s == np.median(samples) > 0
    peaks, busy = measured.peak_bytes, measured.busy_s
    assert len(peaks) == len(busy) == 3 and (peaks > 0).all() and (busy > 0).all()
    assert (busy <= measured.step_time_s).all()

    traced = parent.run(2, 1, placement)
    schedule = traced.schedule
    assert isinstance(traced, PlacementTraced)
    moved = schedule.transfer_bytes
    assert moved.sum() == measured.bytes_moved == traced.measurement.bytes_moved
    ops, on = schedule.ops, schedule.op_devices
    assert len(set(ops)) == len(ops) and all(placement[op] == where for op, where in zip(ops, on))
    begin, end = schedule.op_start_s, schedule.op_end_s
    assert (begin >= 0).all() and (end >= begin).all() and (np.diff(begin) >= 0).all()
    tensors = sum(len(op["outputs"]) for op in document["ops"])
    first = np.cumsum([0, *(len(op["outputs"]) for op in document["ops"])])
    sizes = {"f32": 4, "f64": 8, "i64": 8, "bool": 1}
    for tensor, size in zip(schedule.tensors, moved):
        assert tensor < tensors
        op = document["ops"][int(np.searchsorted(first, tensor, "right")) - 1]
        output = op["outputs"][int(tensor - first[op["id"]])]
        assert size == np.prod(output["shape"], dtype=int) * sizes[output["dtype"]]
    levels = schedule.level_bytes
    where = schedule.level_devices
    assert [levels[where == d].max() for d in range(3)] == list(
        traced.measurement.peak_bytes
    )

    verified = parent.run(3, 2, placement).verification
    assert verified.identical and verified.compared > 20 and verified.first_difference == ""

    profile = parent.run(4, 3, b"").profile
    kernels = len(profile.us) // 3
    assert profile.devices == 3 and len(profile.ops) == 3 * kernels
    assert len(profile.bytes_per_s) == 6 and profile.step_time_s > 0
    assert sorted(set(profile.ops)) == sorted(set(ops))
    assert parent.beats == sorted(parent.beats) and parent.beats[-1] > parent.beats[0]
    status, errors = parent.close()
    assert status == 0 and errors == ""


def test_a_full_device_is_a_result(document: dict[str, Any]) -> None:
    parent = start()
    small = [device("cpu:0", 40_000), device("cpu:1")]
    assert isinstance(parent.prepare(document, small), ExecutorReady)
    everything = bytes(len(document["ops"]))
    full = parent.run(1, 0, everything).measurement
    assert not full.valid and full.step_time_s == 0 and full.bytes_over > 0
    assert full.failure.startswith("oom: '") and " on cpu:0 requested " in full.failure
    elsewhere = parent.run(2, 0, bytes([1]) * len(document["ops"])).measurement
    assert elsewhere.valid and elsewhere.peak_bytes[0] == 0
    failed = parent.run(3, 3, b"")
    assert (
        isinstance(failed, TaskFailed)
        and failed.code == RUN_FAILED
        and "cpu:0 alone" in failed.error
    )
    parent.close()
    tiny = start()
    assert isinstance(tiny.prepare(document, [device("cpu:0", 100), device("cpu:1")]), ExecutorReady)
    assert "state on cpu:0" in tiny.run(1, 0, everything).measurement.failure
    tiny.close()


def test_peak_of_one_device_is_that_of_the_program(document: dict[str, Any]) -> None:
    sys.path.insert(0, str(HERE.parent / "applying"))
    from simulated import PROGRAM, evaluate

    if PROGRAM is None:
        pytest.skip("the program is not built: set EMPLACE_PROGRAM")
    parent = start()
    parent.prepare(document, [device("gpu:0")])
    measured = parent.run(1, 0, bytes(len(document["ops"]))).measurement
    parent.close()
    simulated = evaluate(document, {op["name"]: "gpu:0" for op in document["ops"]}, "h100 x 1")
    assert measured.peak_bytes[0] == simulated["peak_memory_bytes"][0]


@pytest.mark.parametrize(
    "options, code, what",
    [
        (["--model=shop:other_step"], INVALID, "is not this graph"),
        (["--model=shop:broken_step"], INVALID, "calling it failed: RuntimeError: no data set here"),
        (["--model=shop:answer"], INVALID, "calling it failed"),
        (["--model=shop:nothing"], INVALID, "has no 'nothing'"),
        (["--model=no_such_module:x"], INVALID, "no module 'no_such_module'"),
        (["--model=absent.py:x"], INVALID, "does not exist"),
        ([], INVALID, "no model is named"),
        (["--model=shop:make_step", "--devices=cpu:0=cuda:93"], INVALID, "cuda:93"),
    ],
)
def test_what_cannot_run_here_is_refused_in_one_line(
    document: dict[str, Any], options: list[str], code: int, what: str
) -> None:
    parent = Parent(*options, folder=HERE)
    refused = parent.prepare(document, TWO)
    assert isinstance(refused, ExecutorRefused) and refused.code == code
    assert what in refused.error and "\n" not in refused.error
    assert parent.close()[0] == 0


def test_another_graph_is_refused_with_its_first_op_that_differs(document: dict[str, Any]) -> None:
    ops = [dict(op) for op in document["ops"]]
    ops[3]["outputs"] = [{"dtype": "f32", "shape": [7]}]
    parent = start()
    refused = parent.prepare({**document, "ops": ops}, TWO)
    assert isinstance(refused, ExecutorRefused) and "op 3 has the output" in refused.error
    parent.close()


def test_a_path_names_a_model_too(document: dict[str, Any]) -> None:
    parent = Parent(f"--model={HERE / 'shop.py'}:make_step", folder=HERE.parent)
    assert isinstance(parent.prepare(document, TWO), ExecutorReady)
    parent.close()


def test_failures_on_purpose(document: dict[str, Any]) -> None:
    placement = bytes(len(document["ops"]))
    parent = start("--model=shop:make_step", "--oom-every=2", "--poison-every=3")
    parent.prepare(document, TWO)
    assert parent.run(1, 0, placement).measurement.valid
    assert parent.run(2, 0, placement).measurement.failure.startswith("oom: ")
    with pytest.raises(PeerGone):
        parent.run(3, 0, placement)
    status, errors = parent.close()
    assert status == 75 and errors.strip().endswith("lost its device on purpose")
    crashing = start("--model=shop:make_step", "--crash-every=1")
    crashing.prepare(document, TWO)
    with pytest.raises(PeerGone):
        crashing.run(1, 0, placement)
    assert crashing.close()[0] == -signal.SIGSEGV


def test_a_hang_shows_in_the_heartbeats(document: dict[str, Any]) -> None:
    parent = start("--model=shop:make_step", "--hang-every=1")
    parent.prepare(document, TWO)
    parent.channel.send(RunPlacement(1, 0, Section(0, 0)))
    seen: list[int] = []
    while len(seen) < 6:
        message = parent.receive()
        assert isinstance(message, ExecutorBeat)
        seen.append(message.progress)
    assert seen[-1] == seen[-4], "the count stands still"
    parent.process.kill()
    parent.close()


def test_ends_with_its_parent(document: dict[str, Any]) -> None:
    parent = start()
    parent.prepare(document, TWO)
    assert parent.close() == (0, "")
    early = start()
    early.socket.close()
    assert early.process.wait(timeout=30) == 0


def test_malformed_messages_end_the_process(document: dict[str, Any]) -> None:
    parent = start()
    parent.socket.sendall(b"\xff" * 64)
    assert parent.process.wait(timeout=30) == 1
    wrong = start()
    wrong.prepare(document, TWO)
    assert isinstance(wrong.run(1, 0, b"\x00"), TaskFailed)
    assert wrong.run(2, 9, bytes(len(document["ops"]))).error.endswith("unknown task")
    wrong.close()


def test_the_command_line() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "emplace.torch_executor", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PYTHON)},
        )

    version = run("--version")
    assert (
        version.returncode == 0
        and version.stdout.startswith("emplace-exec-torch ")
        and ", torch " in version.stdout
    )
    alone = run("--model=shop:make_step")
    assert alone.returncode == 2 and alone.stderr.count("\n") == 1 and "cannot run by itself" in alone.stderr
    assert run("--nonsense").returncode == 2
    for bad in ("--model=shop", "--threads=0", "--threads=x", "--devices=a", "--crash-every", "--model", "x"):
        with pytest.raises(EmplaceError):
            parse([bad])
    for lost in (["--devices=a=cpu", "--devices=b=cpu"], ["--devices=a=cpu,a=cuda:0"]):
        with pytest.raises(EmplaceError, match="given twice|two devices"):
            parse(lost)
    assert parse(["--hang-every=3"]).hang_every == 3


def test_a_traced_graph_is_measured_in_this_process() -> None:
    import torch

    from emplace.here import measure_here
    from emplace.tracing import trace

    model, batch, loss, optimizer = shop.make_step()
    graph = trace(model, batch, loss=loss, optimizer=optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    where = {op.name: "cpu:0" for op in graph.ops}
    machine = [device("cpu:0"), device("gpu:0", kind="gpu")]
    placement: Any = SimpleNamespace(graph=graph, machine=machine, ops_by_device=lambda: where)
    found = measure_here(placement, warmups=1, samples=3, batch=batch)
    assert found["valid"] and found["step_time_s"] > 0 and len(found["samples_s"]) >= 3
    assert found["bytes_moved"] == 0 and found["label"] == "measured in PyTorch"
    where["0.weight"] = "gpu:0"
    assert measure_here(placement, warmups=0, samples=1)["bytes_moved"] > 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters())) and not optimizer.state
