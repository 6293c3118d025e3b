"""Traced models trained as placed: plain PyTorch's bits, the simulator's bytes, refusals."""

from __future__ import annotations

import copy
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from emplace import EmplaceError
from emplace.applying import OpFailed, apply, verify
from emplace.applying.devices import CpuDevice
from emplace.applying.lowering import LoweredStep
from emplace.applying.plan import StepPlan
from emplace.applying.step import BoundPlan
from emplace.applying.verifying import arguments_of
from emplace.tracing import trace

sys.path.insert(0, str(Path(__file__).parent))
from models import make, plain_step  # noqa: E402
from simulated import evaluate, needs_program  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def placements(request: pytest.FixtureRequest) -> int:
    """Random placements of a model: few by default, twenty with ``--newest``."""
    return 20 if request.config.getoption("--newest") else 4


def traced(made: Any) -> Any:
    return trace(made[0], made[1], loss=made[2], optimizer=made[3])


def randomly(graph: Any, names: list[str], seed: int, keep: bool = True) -> dict[str, str]:
    """Every op on a device of its own choice; updates with their parameter if `keep`."""
    choose, ops = random.Random(seed), graph.document["ops"]
    found: dict[str, str] = {}
    for op in ops:
        found[op["name"]] = (
            found[ops[op["colocate"]]["name"]] if keep and "colocate" in op else choose.choice(names)
        )
    return found


def assert_same(plain: Any, placed: Any) -> None:
    """Parameters, buffers and optimizer state have the same bits."""
    for (name, a), b in zip(plain[0].state_dict().items(), placed[0].state_dict().values()):
        assert torch.equal(a, b), name
    for p, q in zip(plain[0].parameters(), placed[0].parameters()):
        for key, value in plain[3].state[p].items():
            if value is not None:
                other = placed[3].state[q][key]
                assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, key


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("model", ["conv", "lstm", "attention"])
def test_random_placements_train_as_plain_pytorch(model: str, optimizer: str, placements: int) -> None:
    plain, placed = make(model, optimizer), make(model, optimizer)
    graph = traced(placed)
    objects = [id(p) for p in placed[0].parameters()]
    addresses = [p.data_ptr() for p in placed[0].parameters()]
    for names in (["a", "b"], ["a", "b", "c"]):
        for seed in range(placements):
            placement = randomly(graph, names, seed, keep=seed % 2 == 0)
            with apply(graph.step, placement, {name: "cpu" for name in names}, threads=1) as step:
                for turn in range(3):
                    torch.manual_seed(turn)
                    expected = plain_step(plain)
                    torch.manual_seed(turn)
                    assert torch.equal(step(placed[1]), expected), (names, seed, turn)
            assert_same(plain, placed)
            assert seed % 2 or step.returned_bytes == 0 or model == "conv"
    assert objects == [id(p) for p in placed[0].parameters()]
    assert addresses == [p.data_ptr() for p in placed[0].parameters()]


@pytest.mark.parametrize(
    "model, optimizer", [("conv", "adamw"), ("conv", "adam"), ("lstm", "momentum"), ("attention", "adam")]
)
def test_updates_in_place_give_the_same_bits(model: str, optimizer: str) -> None:
    """Runs steps as the executor does: state is overwritten as soon as no op reads the old value."""
    plain, placed = make(model, optimizer), make(model, optimizer)
    graph = traced(placed)
    lowered, names = LoweredStep(graph.step), ["a", "b", "c"]
    used = 0
    for seed in range(12):
        plan = StepPlan(lowered, randomly(graph, names, seed, keep=seed % 3 > 0), names, early=True)
        used += sum(task.in_place for task in plan.tasks)
        bound = BoundPlan(plan, [CpuDevice(name, 1) for name in names])
        state = arguments_of(graph.step, placed[1])
        other = make(model, optimizer)
        for turn in range(3):
            torch.manual_seed(turn)
            expected = plain_step(other)
            torch.manual_seed(turn)
            values = bound.run(state)
            assert torch.equal(values[plan.returned[0][1]], expected)
        found = {(i.kind, i.name): t for i, t in zip(graph.step.inputs, state)}
        for name, parameter in other[0].named_parameters():
            assert torch.equal(found["parameter", name], parameter), (seed, name)
            for key, value in other[3].state[parameter].items():
                assert torch.equal(found["optimizer", f"{name}/{key}"], value), (seed, name, key)
        for name, buffer in other[0].named_buffers():
            assert torch.equal(found["buffer", name], buffer), (seed, name)
        bound.pool.close()
    assert used > 12 * len(list(placed[0].parameters())), (
        "every parameter is updated in place where it can be"
    )
    assert_same(plain, placed)


@needs_program
@pytest.mark.parametrize("model, optimizer", [("conv", "adam"), ("lstm", "momentum"), ("attention", "adamw")])
def test_moved_bytes_are_those_of_the_simulator(model: str, optimizer: str) -> None:
    graph = traced(make(model, optimizer))
    names = ["gpu:0", "gpu:1", "gpu:2"]
    for seed in range(12):
        placement = randomly(graph, names, seed)
        with apply(graph.step, placement, {name: "cpu" for name in names}, threads=1) as step:
            assert step.moved_bytes == evaluate(graph.document, placement)["bytes_moved"], seed
            assert step.moved_bytes == sum(size for *_, size in step.crossings) - step.returned_bytes


def test_verify_a_traced_model() -> None:
    made = make("conv", "adam")
    before = copy.deepcopy(made[0].state_dict())
    graph = traced(made)
    placement = randomly(graph, ["a", "b", "c"], 1)
    graph_of = type("G", (), {"step": graph.step})()
    found = verify(graph_of, placement, made[1])
    assert found and found.compared > 100
    assert verify(graph_of, placement)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), made[0].state_dict().values()))
    assert not made[3].state


def test_inference_returns_what_the_model_returns() -> None:
    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 6)

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            y = self.inner(x)
            return {"halves": y.chunk(2, -1), "weight": self.inner.weight, "twice": y * 2}

    model, x = Named(), torch.randn(3, 4)
    graph = trace(model, x)
    placement = randomly(graph, ["a", "b"], 2)
    with apply(graph.step, placement, {"a": "cpu", "b": "cpu"}, threads=1) as step, torch.no_grad():
        got, wanted = step(x), model(x)
    assert torch.equal(got["twice"], wanted["twice"]) and torch.equal(got["weight"], model.inner.weight)
    assert all(torch.equal(a, b) for a, b in zip(got["halves"], wanted["halves"]))


def test_a_learning_rate_may_change_between_steps() -> None:
    plain, placed = make("attention", "adam"), make("attention", "adam")
    graph = traced(placed)
    with apply(graph.step, randomly(graph, ["a", "b"], 0), {"a": "cpu", "b": "cpu"}, threads=1) as step:
        for turn in range(4):
            for made in (plain, placed):
                made[3].param_groups[0]["lr"] = 0.01 / (turn + 1)
            torch.manual_seed(turn)
            plain_step(plain)
            torch.manual_seed(turn)
            step(placed[1])
    assert_same(plain, placed)


def test_state_that_changed_since_the_trace_is_refused_and_left_alone() -> None:
    made = make("attention", "momentum")
    graph = traced(made)
    placement = randomly(graph, ["a", "b"], 0)
    with apply(graph.step, placement, {"a": "cpu", "b": "cpu"}, threads=1) as step:
        step(made[1])
        before = copy.deepcopy(made[0].state_dict())

        def refused(what: str) -> None:
            with pytest.raises(EmplaceError) as caught:
                step(made[1])
            assert what in str(caught.value) and caught.value.cure and "\n" not in str(caught.value)
            assert all(torch.equal(a, b) for a, b in zip(before.values(), made[0].state_dict().values()))

        made[3].param_groups[0]["momentum"] = 0.5
        refused("momentum")
        made[3].param_groups[0]["momentum"] = 0.9
        first = next(made[0].parameters())
        buffer = made[3].state[first]["momentum_buffer"]
        made[3].state[first]["momentum_buffer"] = torch.zeros(2, 2)
        refused("[2, 2]")
        made[3].state[first]["momentum_buffer"] = buffer
        with pytest.raises(EmplaceError):
            step({"x": torch.randn(3, 6, 16), "y": torch.zeros(3, dtype=torch.int64)})
        with pytest.raises(EmplaceError):
            step({"x": torch.randn(2, 6, 16)})
        step(made[1])


def test_loading_a_state_between_steps_is_seen() -> None:
    plain, placed = make("attention", "adam"), make("attention", "adam")
    graph = traced(placed)
    with apply(graph.step, randomly(graph, ["a", "b"], 0), {"a": "cpu", "b": "cpu"}, threads=1) as step:
        step(placed[1])
        plain_step(plain)
        for made in (plain, placed):
            made[3].load_state_dict(copy.deepcopy(made[3].state_dict()))
            with torch.no_grad():
                for parameter in made[0].parameters():
                    parameter.mul_(0.5)
        step(placed[1])
        plain_step(plain)
    assert_same(plain, placed)


def test_an_op_that_fails_is_named_with_its_scope() -> None:
    made = make("lstm", "adam")
    graph = traced(made)
    with apply(graph.step, randomly(graph, ["a", "b"], 0), {"a": "cpu", "b": "cpu"}, threads=1) as step:
        before = copy.deepcopy(made[0].state_dict())
        with pytest.raises(OpFailed) as caught:
            step({"x": torch.full((4, 5), 99), "y": made[1]["y"]})  # No such row of the embedding.
        assert "embed" in caught.value.where and "index" in str(caught.value).lower()
        assert all(torch.equal(a, b) for a, b in zip(before.values(), made[0].state_dict().values()))
        assert not made[3].state
        step(made[1])
