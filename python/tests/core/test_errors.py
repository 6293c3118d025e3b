"""Bad input raises one exception with place and cure, which is the program's line."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import emplace as em
from emplace.program import check_processor, error_of, find_program

CNN = "cifar10_cnn-bs4.json.gz"
TWO = "k80 x 2"


def line_of(*arguments: str) -> str:
    """The line that the program itself prints."""
    ended = subprocess.run([find_program(), *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    return ended.stderr.splitlines()[-1].removeprefix("error: ")


# What Python is asked, what the program is asked, and the cure that the program's line lacks.
CASES: dict[str, tuple[Callable[[str], object], list[str], str]] = {
    "missing graph": (lambda g: em.read("nope.onnx"), ["inspect", "nope.onnx"], "; give the name of a file"),
    "unknown machine": (lambda g: em.machine("k81"), ["inspect", "GRAPH", "--devices", "k81"], ""),
    "malformed machine": (lambda g: em.machine("k80 x"), ["inspect", "GRAPH", "--devices", "k80 x"], ""),
    "unknown method": (
        lambda g: em.place(g, TWO, method="hefty"),
        ["place", "GRAPH", "--devices", TWO, "--method", "hefty"],
        "",
    ),
    "budget without unit": (
        lambda g: em.place(g, TWO, budget="4"),
        ["place", "GRAPH", "--devices", TWO, "--budget", "4"],
        "",
    ),
    "unknown objective": (
        lambda g: em.place(g, TWO, objective="fast"),
        ["place", "GRAPH", "--devices", TWO, "--objective", "fast"],
        "",
    ),
    "malformed reserve": (
        lambda g: em.place(g, TWO, reserve="500"),
        ["place", "GRAPH", "--devices", TWO, "--reserve", "500"],
        "",
    ),
    "unknown order": (
        lambda g: em.place(g, TWO, order="any"),
        ["place", "GRAPH", "--devices", TWO, "--order", "any"],
        "",
    ),
    "missing rules": (
        lambda g: em.place(g, TWO, rules="no.toml"),
        ["place", "GRAPH", "--devices", TWO, "--rules", "no.toml"],
        "; ",
    ),
    "unknown method of compare": (
        lambda g: em.compare(g, TWO, methods=["hefty"]),
        ["compare", "GRAPH", "--devices", TWO, "--methods", "hefty"],
        "",
    ),
    "unknown format": (
        lambda g: em.read(g, format="onyx"),
        ["inspect", "GRAPH", "--from", "onyx"],
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_exception_is_the_line_of_the_program(case: str, graphs: Path) -> None:
    ask, arguments, added = CASES[case]
    graph = str(graphs / CNN)
    with pytest.raises(em.EmplaceError) as caught:
        ask(graph)
    line = line_of(*[graph if argument == "GRAPH" else argument for argument in arguments])
    assert str(caught.value).startswith(line + added), (str(caught.value), line)
    assert added or str(caught.value) == line
    assert caught.value.where and caught.value.what and caught.value.cure
    assert "\n" not in str(caught.value)


def test_no_placement_has_its_own_class(graphs: Path, tmp_path: Path) -> None:
    box = tmp_path / "box.toml"
    box.write_text('[[device]]\nname = "gpu:0"\nprofile = "k80_gk210"\nmemory = "1MiB"\n')
    with pytest.raises(em.NoPlacement) as caught:
        em.place(graphs / CNN, box)
    assert caught.value.cure


def test_a_rule_is_named_as_it_was_written(cnn: em.Graph, machine: em.Machine) -> None:
    with pytest.raises(em.EmplaceError) as caught:
        em.place(cnn, machine, rules={"conv1.*": "gpu:0", "conv2.*": "gpu:9"})
    assert caught.value.where == "rules['conv2.*']"
    with pytest.raises(em.EmplaceError) as caught:
        em.place(cnn, machine, rules=[{"match": {"name": "zzz"}, "pin": "gpu:0"}])
    assert caught.value.where == "rules[0]"
    with pytest.raises(em.EmplaceError, match="put the special case first"):
        em.place(cnn, machine, rules={"*": "gpu:0", "conv1.*": "gpu:1"})


@pytest.mark.parametrize(
    "rules", [7, {3: "gpu:0"}, {"conv1": 3}, [{"pin": "gpu:0"}], [{"match": {"name": "a"}}]]
)
def test_values_that_are_no_rules(rules: object, cnn: em.Graph, machine: em.Machine) -> None:
    with pytest.raises(em.EmplaceError):
        em.place(cnn, machine, rules=rules)  # type: ignore[arg-type]


def test_unknown_names(placed: em.Placement) -> None:
    with pytest.raises(em.UnknownName, match="nearest is 'conv2'"):
        placed["convv2"]
    with pytest.raises(KeyError):
        placed["convv2"]
    with pytest.raises(em.EmplaceError, match="matches no op"):
        placed.explain("convv2")
    with pytest.raises(em.EmplaceError, match="9 stages at most"):
        placed.stages(40)
    with pytest.raises(em.EmplaceError):
        placed.stages(0)


def test_a_placement_of_another_graph(graphs: Path, placed: em.Placement, tmp_path: Path) -> None:
    placed.save(tmp_path / "p.json")
    with pytest.raises(em.EmplaceError) as caught:
        em.open_placement(tmp_path / "p.json", graphs / "nmt-tiny.json.gz", placed.machine)
    assert "p.json" in caught.value.where and caught.value.cure


def test_files_that_cannot_be_written(placed: em.Placement, tmp_path: Path) -> None:
    for write in (placed.save, placed.report().save):
        with pytest.raises(em.EmplaceError, match="folder that exists"):
            write(tmp_path / "no" / "p.json")


def test_a_graph_that_was_not_traced_is_not_applied(placed: em.Placement) -> None:
    with pytest.raises(em.EmplaceError, match="em.trace"):
        placed.apply({"gpu:0": "cpu"})


def test_a_device_map_of_an_onnx_model_needs_its_modules(graphs: Path) -> None:
    placement = em.place(graphs / "resnet50.onnx", TWO, method="round-robin", progress=False)
    with pytest.raises(em.EmplaceError, match="modules=") as caught:
        placement.device_map()
    assert "FILE" not in str(caught.value)
    with pytest.raises(em.EmplaceError, match="has no module 'relu'"):
        placement.device_map(["conv1", "fc"])


def test_a_missing_run(tmp_path: Path) -> None:
    with pytest.raises(em.EmplaceError, match="no run.db"):
        em.open_run(tmp_path)


def test_a_missing_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EMPLACE_PROGRAM", str(tmp_path / "emplace"))
    with pytest.raises(em.EmplaceError) as caught:
        em.machine("k80")
    assert caught.value.where == "EMPLACE_PROGRAM"
    (tmp_path / "emplace").write_text("no program")
    (tmp_path / "emplace").chmod(0o755)
    with pytest.raises(em.EmplaceError, match="cannot be started .*; set EMPLACE_PROGRAM"):
        em.machine("k80")


def test_the_console_script_without_a_program(tmp_path: Path) -> None:
    code = "from emplace.program import main; main()"
    for program in (tmp_path / "missing", tmp_path / "text"):
        (tmp_path / "text").write_bytes(b"\0not a program")
        (tmp_path / "text").chmod(0o755)
        ended = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(em.__file__).parents[1],
            env=os.environ | {"EMPLACE_PROGRAM": str(program)},
        )
        assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and ended.stderr.startswith("error: ")


def test_a_program_that_dies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "emplace").write_text("#!/bin/sh\nkill -SEGV $$\n")
    (tmp_path / "emplace").chmod(0o755)
    monkeypatch.setenv("EMPLACE_PROGRAM", str(tmp_path / "emplace"))
    with pytest.raises(em.EmplaceError, match="ended by signal 11"):
        em.machine("k80")


def test_an_old_processor_is_reported_in_one_line(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse sse2 avx abm movbe\nflags\t\t: avx2\n")
    with pytest.raises(em.EmplaceError) as caught:
        check_processor(cpuinfo)
    assert "avx2, bmi1, bmi2, f16c, fma" in str(caught.value) and "x86-64-v3" in str(caught.value)
    cpuinfo.write_text("flags : avx avx2 bmi1 bmi2 f16c fma abm movbe\n")
    check_processor(cpuinfo)
    check_processor(tmp_path / "missing")
    if os.path.exists("/proc/cpuinfo"):
        check_processor()


def test_the_place_of_an_error_may_contain_a_colon() -> None:
    error = error_of('error: a: b.json: op "x; y": is wrong; use z', 2, "place", ["a: b.json"])
    assert (error.where, error.cure) == ("a: b.json", "use z") or error.where.startswith("a: b.json")
    assert str(error) == 'a: b.json: op "x; y": is wrong; use z'
    assert error_of("error: what", 2, "place").where == "emplace place"


def test_exceptions_can_be_sent_to_other_processes() -> None:
    error = pickle.loads(pickle.dumps(em.NoPlacement("g", "does not fit", "add memory")))
    assert (str(error), error.where) == ("g: does not fit; add memory", "g")
