"""A placed step gives the plain one's bits, moves what the simulator counts, changes all or nothing."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path

import pytest
import torch

from emplace import EmplaceError
from emplace.applying import OpFailed, apply

sys.path.insert(0, str(Path(__file__).parent))
from handmade import mlp, random_placement  # noqa: E402
from simulated import evaluate, needs_program  # noqa: E402


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_random_placements_give_the_bits_of_the_plain_step(names: list[str]) -> None:
    made, plain = mlp(), mlp()
    for seed in range(20):
        with apply(
            made.step, random_placement(made, names, seed), {name: "cpu" for name in names}, threads=1
        ) as step:
            for turn in range(3):
                torch.manual_seed(seed * 10 + turn)
                expected = plain.plain(plain.state, plain.batch)
                torch.manual_seed(seed * 10 + turn)
                loss = step(made.batch)
                assert torch.equal(loss, expected)
                for name in made.state:
                    assert torch.equal(made.state[name], plain.state[name]), (seed, turn, name)


@needs_program
def test_moved_bytes_are_those_of_the_simulator() -> None:
    made = mlp()
    names = ["gpu:0", "gpu:1", "gpu:2"]
    for seed in range(25):
        placement = random_placement(made, names, seed)
        with apply(made.step, placement, {name: "cpu" for name in names}, threads=1) as step:
            assert step.moved_bytes == evaluate(made.document, placement)["bytes_moved"], seed


def test_a_failure_in_any_task_changes_nothing_and_names_the_op() -> None:
    made = mlp()
    names = ["a", "b"]
    devices = {name: "cpu" for name in names}
    with apply(made.step, random_placement(made, names, 3), devices, threads=1) as step:
        step(made.batch)
        before = {name: tensor.clone() for name, tensor in made.state.items()}
        addresses = {name: tensor.data_ptr() for name, tensor in made.state.items()}

        def fail(*_: object) -> None:
            raise RuntimeError("broken on purpose")

        for entry in step._bound.bound:
            device = step._bound.devices[entry.task.device]
            call, copy = entry.call, device.copy
            if entry.call is not None:
                entry.call = fail
            else:
                device.copy = fail
            with pytest.raises(OpFailed) as caught:
                step(made.batch)
            entry.call, device.copy = call, copy
            if call is not None:
                assert f"'{entry.task.op}'" in caught.value.where
            assert "broken on purpose" in str(caught.value)
            for name, tensor in made.state.items():
                assert torch.equal(tensor, before[name]), (entry.task.op, name)
                assert tensor.data_ptr() == addresses[name]
        step(made.batch)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in made.state.items())


def test_bad_placements_and_devices_are_refused() -> None:
    made = mlp()
    placement = random_placement(made, ["a", "b"], 0)
    cases = [
        (placement, {"a": "cpu"}, "'b'", "devices={'b': 'cpu'}"),
        (placement, {"a": "cpu", "b": "nonsense"}, "nonsense", "cuda:0"),
        (placement, {"a": "cpu", "b": "cuda:97"}, "cuda:97", "'cpu'"),
        (placement, {"a": "cpu", "b": "meta"}, "meta", "cuda:N"),
        (placement, {}, "empty", "devices="),
        ({**placement, "another": "a"}, {"a": "cpu", "b": "cpu"}, "'another'", "place this step's graph"),
        (
            {k: v for k, v in placement.items() if k != "w1"},
            {"a": "cpu", "b": "cpu"},
            "'w1'",
            "place this step's graph",
        ),
    ]
    for bad, devices, what, cure in cases:
        with pytest.raises(EmplaceError) as caught:
            apply(made.step, bad, devices)
        assert what in str(caught.value) and cure in caught.value.cure and "\n" not in str(caught.value)


def test_a_detached_step_does_not_run() -> None:
    made = mlp()
    step = apply(made.step, random_placement(made, ["a"], 0), {"a": "cpu"})
    step.detach()
    step.detach()
    with pytest.raises(EmplaceError, match="detached"):
        step(made.batch)


def test_tensors_are_freed_when_their_last_reader_is_done() -> None:
    """The tensors in memory at the end of a step are those that the plan keeps."""
    made = mlp()
    names = ["a", "b"]
    with apply(
        made.step, random_placement(made, names, 5), {name: "cpu" for name in names}, threads=1
    ) as step:
        alive: dict[int, weakref.ref[torch.Tensor]] = {}
        for entry in step._bound.bound:
            if entry.call is not None:

                def call(
                    values: list[object], inner: object = entry.call, number: int = entry.task.number
                ) -> object:
                    result = inner(values)  # type: ignore[operator]
                    if isinstance(result, torch.Tensor):
                        alive[number] = weakref.ref(result)
                    return result

                entry.call = call
        values = step._bound.run(step._step.arguments(made.batch))
        kept = {id(value) for value in values if value is not None}
        assert {n for n, ref in alive.items() if ref() is not None and id(ref()) not in kept} == set()
        expected = {w.slot for w in step._plan.writes} | {s for _, s in step._plan.returned}
        initial = {slot for _, slot, _ in step._plan.initial}
        views = {s for _, v in (*step._plan.state_views, *step._plan.input_views) for _, s in v.outputs}
        assert {s for s, value in enumerate(values) if value is not None} <= expected | initial | views
