"""The executor process answers its parent as every executor process does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import shop  # noqa: E402
from parent import PYTHON, Parent, device  # noqa: E402

from emplace.torch_executor import channel as wire  # noqa: E402
from emplace.torch_executor import msgpack  # noqa: E402
from emplace.torch_executor.options import BadOption, parse  # noqa: E402

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
    assert ready.type == wire.READY and ready.body["kind"] == "torch" and ready.body["synthetic_types"] == []
    assert ready.body["version"].startswith("torch ") and ready.body["stand_ins"] in (["gpu:0"], [])
    placement = random_bytes(document, 3, 1)
    ran = parent.run(1, 0, placement)
    measured = ran.body["measurement"]
    assert ran.type == wire.RAN and ran.body["id"] == 1 and measured["valid"] and measured["label"] == 4
    samples = np.frombuffer(measured["samples_s"], "<f8")
    assert len(samples) == 3 and measured["step_time_s"] == np.median(samples) > 0
    peaks, busy = np.frombuffer(measured["peak_bytes"], "<i8"), np.frombuffer(measured["busy_s"], "<f8")
    assert len(peaks) == len(busy) == 3 and (peaks > 0).all() and (busy > 0).all()
    assert (busy <= measured["step_time_s"]).all()

    traced = parent.run(2, 1, placement)
    schedule = traced.body["schedule"]
    assert traced.type == wire.TRACED
    moved = np.frombuffer(schedule["transfer_bytes"], "<i8")
    assert moved.sum() == measured["bytes_moved"] == traced.body["measurement"]["bytes_moved"]
    ops, on = np.frombuffer(schedule["ops"], "<u4"), np.frombuffer(schedule["op_devices"], "<u4")
    assert len(set(ops)) == len(ops) and all(placement[op] == where for op, where in zip(ops, on))
    begin, end = np.frombuffer(schedule["op_start_s"], "<f8"), np.frombuffer(schedule["op_end_s"], "<f8")
    assert (begin >= 0).all() and (end >= begin).all() and (np.diff(begin) >= 0).all()
    tensors = sum(len(op["outputs"]) for op in document["ops"])
    first = np.cumsum([0, *(len(op["outputs"]) for op in document["ops"])])
    sizes = {"f32": 4, "f64": 8, "i64": 8, "bool": 1}
    for tensor, size in zip(np.frombuffer(schedule["tensors"], "<u4"), moved):
        assert tensor < tensors
        op = document["ops"][int(np.searchsorted(first, tensor, "right")) - 1]
        output = op["outputs"][int(tensor - first[op["id"]])]
        assert size == np.prod(output["shape"], dtype=int) * sizes[output["dtype"]]
    levels = np.frombuffer(schedule["level_bytes"], "<i8")
    where = np.frombuffer(schedule["level_devices"], "<u4")
    assert [levels[where == d].max() for d in range(3)] == list(
        np.frombuffer(traced.body["measurement"]["peak_bytes"], "<i8")
    )

    verified = parent.run(3, 2, placement).body["verification"]
    assert verified["identical"] and verified["compared"] > 20 and verified["first_difference"] == ""

    profile = parent.run(4, 3, b"").body["profile"]
    kernels = len(np.frombuffer(profile["us"], "<f8")) // 3
    assert profile["devices"] == 3 and len(np.frombuffer(profile["ops"], "<u4")) == 3 * kernels
    assert len(np.frombuffer(profile["bytes_per_s"], "<f8")) == 6 and profile["step_time_s"] > 0
    assert sorted(set(np.frombuffer(profile["ops"], "<u4"))) == sorted(set(ops))
    assert parent.beats == sorted(parent.beats) and parent.beats[-1] > parent.beats[0]
    status, errors = parent.close()
    assert status == 0 and errors == ""


def test_a_full_device_is_a_result(document: dict[str, Any]) -> None:
    parent = start()
    small = [device("cpu:0", 40_000), device("cpu:1")]
    assert parent.prepare(document, small).type == wire.READY
    everything = bytes(len(document["ops"]))
    full = parent.run(1, 0, everything).body["measurement"]
    assert not full["valid"] and full["step_time_s"] == 0 and full["bytes_over"] > 0
    assert full["failure"].startswith("oom: '") and " on cpu:0 requested " in full["failure"]
    elsewhere = parent.run(2, 0, bytes([1]) * len(document["ops"])).body["measurement"]
    assert elsewhere["valid"] and np.frombuffer(elsewhere["peak_bytes"], "<i8")[0] == 0
    failed = parent.run(3, 3, b"")
    assert (
        failed.type == wire.FAILED
        and failed.body["code"] == wire.RUN_FAILED
        and "cpu:0 alone" in failed.body["error"]
    )
    parent.close()
    tiny = start()
    assert tiny.prepare(document, [device("cpu:0", 100), device("cpu:1")]).type == wire.READY
    assert "state on cpu:0" in tiny.run(1, 0, everything).body["measurement"]["failure"]
    tiny.close()


def test_peak_of_one_device_is_that_of_the_program(document: dict[str, Any]) -> None:
    sys.path.insert(0, str(HERE.parent / "applying"))
    from simulated import PROGRAM, evaluate

    if PROGRAM is None:
        pytest.skip("the program is not built: set EMPLACE_PROGRAM")
    parent = start()
    parent.prepare(document, [device("gpu:0")])
    measured = parent.run(1, 0, bytes(len(document["ops"]))).body["measurement"]
    parent.close()
    simulated = evaluate(document, {op["name"]: "gpu:0" for op in document["ops"]}, "h100 x 1")
    assert np.frombuffer(measured["peak_bytes"], "<i8")[0] == simulated["peak_memory_bytes"][0]


@pytest.mark.parametrize(
    "options, code, what",
    [
        (["--model=shop:other_step"], wire.INVALID, "is not this graph"),
        (["--model=shop:broken_step"], wire.INVALID, "calling it failed: RuntimeError: no data set here"),
        (["--model=shop:answer"], wire.INVALID, "calling it failed"),
        (["--model=shop:nothing"], wire.INVALID, "has no 'nothing'"),
        (["--model=no_such_module:x"], wire.INVALID, "no module 'no_such_module'"),
        (["--model=absent.py:x"], wire.INVALID, "does not exist"),
        ([], wire.INVALID, "no model is named"),
        (["--model=shop:make_step", "--devices=cpu:0=cuda:93"], wire.INVALID, "cuda:93"),
    ],
)
def test_what_cannot_run_here_is_refused_in_one_line(
    document: dict[str, Any], options: list[str], code: int, what: str
) -> None:
    parent = Parent(*options, folder=HERE)
    refused = parent.prepare(document, TWO)
    assert refused.type == wire.REFUSED and refused.body["code"] == code
    assert what in refused.body["error"] and "\n" not in refused.body["error"]
    assert parent.close()[0] == 0


def test_another_graph_is_refused_with_its_first_op_that_differs(document: dict[str, Any]) -> None:
    ops = [dict(op) for op in document["ops"]]
    ops[3]["outputs"] = [{"dtype": "f32", "shape": [7]}]
    parent = start()
    refused = parent.prepare({**document, "ops": ops}, TWO)
    assert refused.type == wire.REFUSED and "op 3 has the output" in refused.body["error"]
    parent.close()


def test_a_path_names_a_model_too(document: dict[str, Any]) -> None:
    parent = Parent(f"--model={HERE / 'shop.py'}:make_step", folder=HERE.parent)
    assert parent.prepare(document, TWO).type == wire.READY
    parent.close()


def test_failures_on_purpose(document: dict[str, Any]) -> None:
    placement = bytes(len(document["ops"]))
    parent = start("--model=shop:make_step", "--oom-every=2", "--poison-every=3")
    parent.prepare(document, TWO)
    assert parent.run(1, 0, placement).body["measurement"]["valid"]
    assert parent.run(2, 0, placement).body["measurement"]["failure"].startswith("oom: ")
    with pytest.raises(wire.PeerGone):
        parent.run(3, 0, placement)
    status, errors = parent.close()
    assert status == 75 and errors.strip().endswith("lost its device on purpose")
    crashing = start("--model=shop:make_step", "--crash-every=1")
    crashing.prepare(document, TWO)
    with pytest.raises(wire.PeerGone):
        crashing.run(1, 0, placement)
    assert crashing.close()[0] == -signal.SIGSEGV


def test_a_hang_shows_in_the_heartbeats(document: dict[str, Any]) -> None:
    parent = start("--model=shop:make_step", "--hang-every=1")
    parent.prepare(document, TWO)
    parent.channel.send(wire.RUN, {"id": 1, "task": 0, "placement": [0, 0]})
    seen: list[int] = []
    while len(seen) < 6:
        message = parent.channel.receive()
        assert message.type == wire.BEAT
        seen.append(message.body["progress"])
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
    assert wrong.run(1, 0, b"\x00").type == wire.FAILED
    assert wrong.run(2, 9, bytes(len(document["ops"]))).body["error"].endswith("unknown task")
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
        with pytest.raises(BadOption):
            parse([bad])
    assert parse(["--hang-every=3"]).chaos.hang == 3


def test_messagepack_agrees_with_the_package() -> None:
    package = pytest.importorskip("msgpack")
    values = [
        None,
        True,
        False,
        0,
        127,
        128,
        255,
        256,
        65535,
        65536,
        2**32,
        2**63,
        -1,
        -32,
        -33,
        -129,
        -(2**40),
        0.5,
        "",
        "é" * 40,
        "x" * 300,
        "y" * 70000,
        b"",
        b"z" * 300,
        b"z" * 70000,
        [],
        list(range(20)),
        [[]] * 70000,
        {},
        {str(i): [i] for i in range(20)},
    ]
    for value in values:
        assert package.unpackb(msgpack.pack(value), raw=False) == value
        assert msgpack.unpack(package.packb(value, use_bin_type=True)) == value
    assert package.unpackb(msgpack.pack(np.array([1.5, 2.5]))) == np.array([1.5, 2.5]).tobytes()


def test_damaged_messagepack_is_refused() -> None:
    whole = msgpack.pack({"a": [1, 2.5, "text", b"bytes"], "b": {"c": -7}})
    for cut in range(len(whole)):
        with pytest.raises(msgpack.Malformed):
            msgpack.unpack(whole[:cut])
    choose = random.Random(3)
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(choose.randrange(1, 4)):
            damaged[choose.randrange(len(damaged))] = choose.randrange(256)
        try:
            msgpack.unpack(bytes(damaged))
        except msgpack.Malformed:
            pass
    with pytest.raises(msgpack.Malformed):
        msgpack.unpack(b"\x91" * 100 + b"\x00")


def test_a_traced_graph_is_measured_in_this_process() -> None:
    import torch

    from emplace import EmplaceError
    from emplace.torch_executor import evaluate_traced
    from emplace.tracing import trace

    model, batch, loss, optimizer = shop.make_step()
    graph = trace(model, batch, loss=loss, optimizer=optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    where = {op["name"]: "cpu:0" for op in graph.document["ops"]}
    found = evaluate_traced(graph, where, warmups=1, samples=3, batch=batch)
    assert found["valid"] and found["step_time_s"] > 0 and len(found["samples_s"]) >= 3
    assert found["bytes_moved"] == 0 and found["label"] == "measured in PyTorch" and found["stand_ins"] == []
    assert evaluate_traced(graph, {**where, "0.weight": "gpu:0"}, warmups=0, samples=1)["bytes_moved"] > 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters())) and not optimizer.state
    with pytest.raises(EmplaceError, match="no device"):
        evaluate_traced(graph, {"0.weight": "cpu:0"}, samples=1)
