"""`place` and the methods of a Placement give what the program gives."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import emplace as em
from emplace.program import find_program
from emplace.settings import request_arguments
from emplace.stages import STATE


def command(*arguments: str | Path) -> dict[str, object]:
    line = [find_program(), *arguments, "--json", "--quiet"]
    return dict(json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout))


def without_times(result: object) -> object:
    """JSON without what differs from run to run: measured durations."""
    if isinstance(result, dict):
        drop = ("wall_s", "at_s", "placement")
        return {key: without_times(value) for key, value in result.items() if key not in drop}
    return [without_times(each) for each in result] if isinstance(result, list) else result


def test_a_placement_is_that_of_the_command(cnn: em.Graph, machine: em.Machine, tmp_path: Path) -> None:
    placement = em.place(cnn, machine, method="heft", seed=3, progress=False)
    file = tmp_path / "p.json"
    arguments = ["place", cnn.path, "--devices", machine.text, "--method", "heft", "--seed", "3", "-o", file]
    expected = command(*arguments)
    assert without_times(placement.to_dict()) == without_times(expected)
    document = json.loads(file.read_text())
    assert placement.ops_by_device() == document["ops"]
    assert placement.graph_sha256 == document["graph_sha256"] == cnn.sha256
    assert placement.devices == machine.names == document["devices"]
    assert placement.step_time == document["measured"]["step_time_s"]
    assert 0 < placement.bound <= placement.step_time
    peaks = document["measured"]["peak_memory_bytes"]
    assert [placement.peak[name] for name in placement.devices] == peaks


def test_every_command_has_the_cost_version(cnn: em.Graph, tmp_path: Path) -> None:
    machine = em.machine("h100 x 2")
    old = em.place(cnn, machine, method="single-gpu", cost_version=1, progress=False)
    new = em.place(cnn, machine, method="single-gpu", progress=False)
    assert old.costs is not None and old.costs.version == 1 and "±" not in str(old)
    assert new.costs is not None and new.costs.version == 2 and "±" in str(new)
    assert old.step_time != new.step_time
    assert sum(new.costs.sources.values()) == pytest.approx(1)
    assert old.explain().to_dict()["step_time_s"] == old.step_time
    measured = em.evaluate(cnn, old)
    assert measured.step_time == old.step_time and measured.costs == old.costs
    old.save(tmp_path / "p.json")
    assert em.open_placement(tmp_path / "p.json", cnn, machine, cost_version=1).step_time == old.step_time
    assert em.open_placement(tmp_path / "p.json", cnn, machine).step_time == new.step_time
    compared = em.compare(cnn, machine, methods=["single-gpu"], cost_version=1, progress=False)
    assert compared.columns()["step_time_s"] == [old.step_time]


def test_float32_decides_the_arithmetic(cnn: em.Graph) -> None:
    def placed(word: str) -> em.Placement:
        return em.place(cnn, "h100", method="single-gpu", float32=word, progress=False)

    assert placed("tf32").step_time < placed("ieee").step_time


def test_results_are_frozen_and_copies(placed: em.Placement) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        placed.document = {}  # type: ignore[misc]
    placed.to_dict()["measured"]["step_time_s"] = 0
    placed.ops_by_device().clear()
    assert placed.step_time > 0 and len(placed) == 91


def test_the_seed_decides(cnn: em.Graph, machine: em.Machine) -> None:
    def found(seed: int) -> dict[str, str]:
        return em.place(cnn, machine, method="random", seed=seed, progress=False).ops_by_device()

    assert found(1) == found(1) != found(2)


def test_rules_hold(cnn: em.Graph, machine: em.Machine) -> None:
    rules = {"conv1.*": "gpu:1", "conv2": ["gpu:*"], re.compile("^local3[.]"): {"forbid": ["gpu:0"]}}
    placement = em.place(cnn, machine, budget="1s", rules=rules, progress=False)
    assert set(placement["conv1.*"].values()) == {"gpu:1"}
    assert set(placement["conv2"].values()) <= {"gpu:0", "gpu:1"}
    assert "gpu:0" not in {placement.ops_by_device()[name] for name in ("local3.weight", "local3.bias")}
    assert placement.rules.count("[[rule]]") >= 3


def test_the_first_rule_wins(cnn: em.Graph, machine: em.Machine) -> None:
    placement = em.place(
        cnn, machine, method="expert", rules={"conv1.*": "gpu:1", "*": "cpu:0"}, progress=False
    )
    own = placement["conv1.*"]
    assert set(own.values()) == {"gpu:1"}
    tied = {op.name for op in cnn.ops if op.colocate is not None and cnn.ops[op.colocate].name in own}
    others = {name for name in placement.ops_by_device() if name not in own and name not in tied}
    assert {placement.ops_by_device()[name] for name in others} == {"cpu:0"}


def test_rules_of_a_file_and_of_a_list_are_the_same(
    cnn: em.Graph, machine: em.Machine, tmp_path: Path
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("[[rule]]\nmatch = { type = '^aten::mm$' }\npin = \"gpu:1\"\n")
    listed = [{"match": {"type": "^aten::mm$"}, "pin": "gpu:1"}]
    one = em.place(cnn, machine, method="heft", rules=file, progress=False)
    two = em.place(cnn, machine, method="heft", rules=listed, progress=False)
    assert one.ops_by_device() == two.ops_by_device()


def test_patterns(placed: em.Placement, cnn: em.Graph, graphs: Path) -> None:
    scoped = {op.name for op in cnn.ops if op.scope == "conv1" or op.scope.startswith("conv1.")}
    named = {op.name for op in cnn.ops if op.name.startswith("conv1.")}
    assert set(placed["conv1.*"]) == scoped | named
    assert set(placed["*"]) == {op.name for op in cnn.ops}
    assert set(placed["relu_1"]) == {"relu_1"}
    assert set(placed[re.compile("^relu_")]) == {name for name in placed["*"] if name.startswith("relu_")}
    # A path may start inside: the scopes of this file start with the name of the list.
    resnet = em.read(graphs / "resnet50.onnx")
    found = em.place(resnet, "k80 x 2", method="round-robin", progress=False)["layer1.0.conv1"]
    assert found and {op.scope for op in resnet.ops if op.name in found} == {"layer1/layer1.0/conv1"}


def test_ops_are_columns(placed: em.Placement, cnn: em.Graph) -> None:
    columns = placed.ops()
    assert {len(column) for column in columns.values()} == {len(cnn)}
    assert columns["op"] == [op.name for op in cnn.ops]
    assert columns["device"] == [placed.ops_by_device()[name] for name in columns["op"]]
    for kind, start, time in zip(columns["type"], columns["start_s"], columns["time_s"]):
        assert (start is None) == (time == 0)
        assert kind not in STATE or time == 0
    ends = [start + time for start, time in zip(columns["start_s"], columns["time_s"]) if start is not None]
    assert max(ends) <= placed.step_time * (1 + 1e-6)


def test_a_frame_of_pandas(placed: em.Placement, machine: em.Machine, cnn: em.Graph) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(placed.ops())
    busy = frame.groupby("device")["time_s"].sum()
    for device, seconds in placed.busy.items():
        assert busy[device] == pytest.approx(seconds, rel=1e-6)
    assert len(pandas.DataFrame(placed.explain().columns())) > 3
    assert len(pandas.DataFrame(em.compare(cnn, machine, progress=False).columns())) > 5


def test_explanations(placed: em.Placement) -> None:
    scopes = placed.explain()
    assert "scope" in scopes.items[0] and "best" in str(scopes) + scopes._repr_html_()
    ops = placed.explain("conv1.*", top=100)
    assert {item["op"] for item in ops.items} == set(placed["conv1.*"])
    assert len(placed.explain(top=2).items) == 2


def test_the_device_map_names_every_module(cnn: em.Graph, machine: em.Machine) -> None:
    rules = {"conv1": "gpu:0", "conv2": "gpu:1", "local3": "gpu:0", "logits": "cpu:0"}
    placed = em.place(cnn, machine, method="round-robin", rules=rules, progress=False)
    with pytest.warns(em.LossyExport):
        whole = placed.device_map()
    assert {name: whole[name] for name in rules} == {"conv1": 0, "conv2": 1, "local3": 0, "logits": "cpu"}


@pytest.mark.parametrize("count", [None, 1, 2, 4])
def test_stages(placed: em.Placement, cnn: em.Graph, count: int | None) -> None:
    stages = placed.stages(count)
    assert count is None or len(stages) == count
    forward = [op.name for op in cnn.ops if op.phase == "forward" and op.type not in STATE]
    assert [name for stage in stages for name in stage.ops] == forward
    assert sum(stage.state_bytes for stage in stages) == sum(op.param_bytes for op in cnn.ops)
    assert list(stages.split_spec) == [stage.starts_at for stage in stages[1:]]
    devices = [stage.device for stage in stages]
    assert max(devices.count(device) for device in devices) == -(-len(devices) // len(placed.devices))
    assert stages.slowest_s == max(stage.time_s for stage in stages)


def test_stages_are_those_of_the_exports(placed: em.Placement, tmp_path: Path) -> None:
    stages = placed.stages(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        for to in ("pipelining", "deepspeed"):
            made = placed.export(to, tmp_path / to, stages=2)["stages"]
            assert [(each["device"], each["starts_at"]) for each in made][1:] == [
                (stage.device, stage.starts_at) for stage in stages[1:]
            ]
    assert json.loads((tmp_path / "pipelining").read_text())["split_spec"] == stages.split_spec


def test_stages_are_refused(placed: em.Placement) -> None:
    with pytest.raises(em.EmplaceError, match="give 1 or more"):
        placed.stages(0)
    with pytest.raises(em.EmplaceError, match="ask for fewer stages"):
        placed.stages(1000)


def test_the_device_map_is_that_of_the_export(placed: em.Placement, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        made = placed.export("accelerate", tmp_path / "map.json")
        assert json.loads((tmp_path / "map.json").read_text()) == placed.device_map()
    assert made["applied_step_time_s"] <= placed.step_time * 2 and made["peak_memory_bytes"]


def test_what_an_export_loses_is_a_warning(cnn: em.Graph, machine: em.Machine, tmp_path: Path) -> None:
    spread = em.place(cnn, machine, method="round-robin", progress=False)
    with pytest.warns(em.LossyExport, match=r"moves \d+ of \d+ ops"):
        made = spread.export("accelerate", tmp_path / "map.json")
    assert not made["exact"]


def test_stages_that_do_not_fit_are_a_warning(cnn: em.Graph, tmp_path: Path) -> None:
    gpus = "".join(
        f'[[device]]\nname = "gpu:{k}"\nprofile = "rtx3090"\nmemory = "64KiB"\n' for k in range(2)
    )
    (tmp_path / "small.toml").write_text(gpus)
    small = em.machine(str(tmp_path / "small.toml"))
    placed = em.place(cnn, em.machine("rtx3090 x 2"), method="round-robin", progress=False)
    placed.save(tmp_path / "p.json")
    again = em.open_placement(tmp_path / "p.json", cnn, small)
    with pytest.warns(em.LossyExport, match="does not fit.*in stage 0"):
        again.stages(2)


def test_saved_and_read_again(
    placed: em.Placement, cnn: em.Graph, machine: em.Machine, tmp_path: Path
) -> None:
    placed.save(tmp_path / "p.json")
    again = em.open_placement(tmp_path / "p.json", cnn, machine)
    assert again.document == placed.document
    assert (again.step_time, again.bound, again.peak) == (placed.step_time, placed.bound, placed.peak)
    assert not list(tmp_path.glob("*.partial"))


def test_the_page_is_one_file_without_script(placed: em.Placement, tmp_path: Path) -> None:
    placed.report().save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page and "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert placed.report()._repr_html_() in page
    for device in placed.devices:
        assert device in page


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    ops = [
        {"id": 0, "name": "x", "type": "Input", "inputs": [], "outputs": [{"dtype": "f32", "shape": [1024]}]},
        {"id": 1, "name": name, "type": "aten::relu", "inputs": [[0, 0]], "group": name,
         "outputs": [{"dtype": "f32", "shape": [1024]}], "flops": 1024},
    ]  # fmt: skip
    document = {"format": "emplace-graph v1", "name": name, "ops": ops}
    placement = em.place(em.Graph._from_dict(document), "k80 x 2", method="single-gpu", progress=False)
    for page in (placement.report().html, placement._repr_html_(), placement.explain()._repr_html_()):
        assert "<script" not in page
    assert "script" in placement.report().html


def test_orders_objectives_and_reserves(cnn: em.Graph, machine: em.Machine) -> None:
    ordered = em.place(cnn, machine, budget=1, order="search", progress=False)
    assert ordered.to_dict()["order"] in ("issue", "search")
    load = em.place(cnn, machine, method="contiguous", objective="max-load", reserve="10%", progress=False)
    assert load.to_dict()["objective"] == "max-load"
    assert load.explain(top=1).items


def test_a_workload_brings_its_machine(root: Path) -> None:
    files = sorted((root / "tests/fixtures/third_party").rglob("*.json"))
    workload = next(file for file in files if "maxFPGAs" in file.read_text(errors="replace"))
    placement = em.place(workload, method="contiguous", objective="max-load", progress=False)
    assert placement.machine is None and placement.devices and placement.peak


def test_a_warning_of_the_program_is_a_warning(cnn: em.Graph, machine: em.Machine) -> None:
    with pytest.warns(UserWarning, match="slower than running everything on"):
        em.place(cnn, machine, method="round-robin", progress=False)


def test_without_torch(cnn: em.Graph, placed: em.Placement) -> None:
    """Absent torch is one error with its cure."""
    code = (
        "import sys; sys.modules['torch'] = None\nimport emplace as em\n"
        "for call in (lambda: em.trace(None, None), lambda: em.verify(None, None)):\n"
        "    try: call()\n"
        "    except em.EmplaceError as error: print(error.cure)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cwd()
    )
    assert ended.stdout.split("\n")[:2] == ["pip install torch"] * 2


def test_importing_is_quick_and_light() -> None:
    code = (
        "import sys, time, emplace\n"
        "print([m for m in ('torch', 'numpy', 'pandas', 'tqdm') if m in sys.modules])\n"
        "print(time.process_time() < 0.2)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cwd()
    )
    assert ended.stdout.split("\n")[:2] == ["[]", "True"]


def cwd() -> Path:
    return Path(em.__file__).parents[1]


def test_request_arguments_follow_the_list_of_settings() -> None:
    assert request_arguments(threads=2, method="auto", policy=None, best_of=3) == [
        "--method",
        "auto",
        "--best-of",
        "3",
        "--threads",
        "2",
    ]
    with pytest.raises(TypeError, match="no setting of a request: speed"):
        request_arguments(speed=1)


def test_tries_what_would_make_a_graph_fit_and_places_with_it(root: Path, tmp_path: Path) -> None:
    graph = em.read(root / "configs/graphs/nmt-2layer-bs64.json.gz")
    small = {"reserve": "9GiB", "progress": False}
    with pytest.raises(em.NoPlacement) as caught:
        em.place(graph, "k40", budget=6, **small)
    tried = {remedy["what"]: remedy for remedy in caught.value.remedies}
    assert {"another order", "recompute", "one more k40", "a CPU, epyc9654"} <= set(tried)
    assert tried["recompute"]["fits"] and "--allow recompute" in tried["recompute"]["command"]
    assert max(tried["recompute"]["peak_memory_bytes"]) <= 3 * 2**30
    placement = em.place(graph, "k40", budget=3, allow="recompute", **small)
    assert placement.memory_plan is not None
    assert placement.memory_plan["recompute"] and not placement.memory_plan["move"]
    placement.save(tmp_path / "plan.json")
    read = em.open_placement(tmp_path / "plan.json", graph, "k40")
    assert (read.step_time, read.peak) == (placement.step_time, placement.peak)
    with pytest.raises(em.NoPlacement) as caught:
        em.place(graph, "k40", budget=1, allow="none", **small)
    assert not caught.value.remedies


def test_a_forked_child_and_a_cleaner_leave_a_placement_usable(cnn: em.Graph, machine: em.Machine) -> None:
    script = """
import os, shutil, sys
import emplace as em
placement = em.place(sys.argv[1], sys.argv[2], method="expert", progress=False)
before = placement.path
child = os.fork()
if child == 0:
    assert placement.path != before
    sys.exit(0)  # Finalizers run; those of the folder of the parent must not.
assert os.waitpid(child, 0)[1] == 0 and before.exists() and placement.explain()
shutil.rmtree(before.parent)  # As systemd-tmpfiles does after some days.
assert placement.path == before and before.exists() and placement.explain()
"""
    subprocess.run([sys.executable, "-c", script, cnn.path, machine.text], check=True)
