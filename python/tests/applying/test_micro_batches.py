"""A placement with micro-batches computes the bits of a loop that adds up gradients; bad input is refused."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import emplace as em

sys.path.insert(0, str(Path(__file__).parent))
from drawn_plans import choices  # noqa: E402
from models import make  # noqa: E402
from test_plans import loss_of, made  # noqa: E402

CPUS = {"gpu:0": "cpu", "gpu:1": "cpu"}
Tensors = list[torch.Tensor]


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    kept = [value for entry in optimizer.state.values() for value in entry.values()]
    return [*model.parameters(), *model.buffers(), *(one for one in kept if isinstance(one, torch.Tensor))]


def micro_batches_of(batch: Any, count: int) -> list[Any]:
    """As many batches like one, each with other numbers."""
    found = []
    for number in range(count):
        generator = torch.Generator().manual_seed(number)
        found.append(torch.utils._pytree.tree_map(lambda one: drawn(one, generator), batch))
    return found


def drawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if like.dtype.is_floating_point:
        return torch.randn(like.shape, generator=generator)
    return torch.randint(0, 4, like.shape, generator=generator)


def plain_steps(model: Any, optimizer: Any, loss: Any, batches: list[Any], steps: int = 3) -> Tensors:
    """Accumulation as in PyTorch's own loop; the losses of the steps, then the state."""
    torch.manual_seed(2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        total = torch.zeros(())
        for number, batch in enumerate(batches):
            one = loss(model, batch)
            one.backward()
            total = one.detach() if number == 0 else total + one.detach()
        optimizer.step()
        losses.append(total)
    return [*losses, *state_of(model, optimizer)]


def placed_steps(
    placement: em.Placement, model: Any, optimizer: Any, batches: list[Any], **options: Any
) -> Tensors:
    with placement.apply(devices=CPUS, threads=1, **options) as step:
        torch.manual_seed(2)
        losses = [step(batches) for _ in range(3)]
        assert step.moved_bytes == placement.moved_bytes
    return [*losses, *state_of(model, optimizer)]


def equal(found: Tensors, expected: Tensors) -> bool:
    return all(itertools.starmap(torch.equal, zip(found, expected, strict=True)))


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("method", ["single-gpu", "random", "auto"])
@pytest.mark.parametrize("lean", [False, True])
def test_three_steps_have_the_bits_of_accumulation(schedule: str, method: str, lean: bool) -> None:
    """With dropout, running statistics and a weight that two layers share."""
    model, optimizer, batch = made()
    batches = micro_batches_of(batch, 5)
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(
        graph, "h100 x 2", method=method, micro_batches=5, schedule=schedule, budget=0.2, progress=False
    )
    found = placed_steps(placement, model, optimizer, batches, lean=lean)
    model, optimizer, _ = made()
    expected = plain_steps(model, optimizer, loss_of, batches)
    if lean and method != "single-gpu":  # Copies without gaps round otherwise.
        torch.testing.assert_close(found, expected)
    else:
        assert equal(found, expected)


@pytest.mark.parametrize("name", ["conv", "lstm", "attention"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
def test_models_and_optimizers_have_the_bits_of_accumulation(name: str, optimizer: str) -> None:
    net, batch, loss, steps = make(name, optimizer)
    batches = micro_batches_of(batch, 3)
    graph = em.trace(net, batch, loss=loss, optimizer=steps)
    placement = em.place(graph, "h100 x 2", method="random", micro_batches=3, seed=4, progress=False)
    found = placed_steps(placement, net, steps, batches)
    net, _, loss, steps = make(name, optimizer)
    assert equal(found, plain_steps(net, steps, loss, batches))


class Sparse(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = torch.nn.Embedding(20, 8, sparse=True), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(x).mean(1))  # type: ignore[no-any-return]


def test_sparse_gradients_are_added_up() -> None:
    def new() -> tuple[Sparse, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = Sparse()
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    batch = torch.randint(0, 20, (6, 3)), torch.randint(0, 4, (6,))
    batches = micro_batches_of(batch, 4)
    model, optimizer = new()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(graph, "h100 x 2", method="random", micro_batches=4, progress=False)
    with placement.apply(devices=CPUS, threads=1) as step:
        found = [step(batches) for _ in range(3)] + state_of(model, optimizer)
    model, optimizer = new()
    assert equal(found, plain_steps(model, optimizer, loss_of, batches))


def test_recomputed_ops_draw_the_same_numbers_in_every_micro_batch(tmp_path: Path) -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(graph, "h100 x 2", method="random", micro_batches=4, progress=False)
    document = placement.document | {"version": 2, "recompute": sorted(choices(graph)[0])[::2], "move": []}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    planned = em.open_placement(tmp_path / "plan.json", graph, "h100 x 2")
    batches = micro_batches_of(batch, 4)
    found = placed_steps(planned, model, optimizer, batches)
    model, optimizer, _ = made()
    assert equal(found, plain_steps(model, optimizer, loss_of, batches))


def test_a_divided_loss_gives_the_mean() -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=lambda m, b: loss_of(m, b) / 4, optimizer=optimizer)
    placement = em.place(graph, "h100 x 2", method="random", micro_batches=4, progress=False)
    batches = micro_batches_of(batch, 4)
    found = placed_steps(placement, model, optimizer, batches)
    model, optimizer, _ = made()
    assert equal(found, plain_steps(model, optimizer, lambda m, b: loss_of(m, b) / 4, batches))


def test_a_stage_holds_no_more_micro_batches_than_its_schedule() -> None:
    """The forward pass of the first of two stages is at most two micro-batches ahead."""
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(2, 8), torch.randint(0, 4, (2,))
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    rules = {"0": "gpu:0", "1": "gpu:0", "*": "gpu:1"}
    most = {}
    for schedule in ("1f1b", "gpipe"):
        placement = em.place(
            graph,
            "h100 x 2",
            method="random",
            rules=rules,
            micro_batches=6,
            schedule=schedule,
            progress=False,
        )
        with placement.apply(devices=CPUS, threads=1) as step:
            step(micro_batches_of(batch, 6))
            tasks, ends = step._plan.tasks, step._bound.times.end
            first = [t for t in tasks if t.device == 0 and t.kind.value == "kernel" and "@" in t.op]
            done = sorted((ends[t.number], phase_of(t), int(t.op.rpartition("@")[2])) for t in first)
            entered: set[int] = set()
            returned, ahead = dict.fromkeys(range(6), 0), 0
            whole = sum(phase == "backward" and number == 0 for _, phase, number in done)
            for _, phase, number in done:
                if phase == "forward":
                    entered.add(number)
                    ahead = max(ahead, sum(returned[one] < whole for one in entered))
                elif phase == "backward":
                    returned[number] += 1
            most[schedule] = ahead
    assert most == {"1f1b": 2, "gpipe": 6}


def phase_of(task: Any) -> str:
    return "sum" if "@accumulate" in task.op or "@sum" in task.op else str(task.node.meta["phase"])


def test_a_placement_states_its_strategy(tmp_path: Path) -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(
        graph, "h100 x 2", method="random", micro_batches=6, schedule="gpipe", progress=False
    )
    found = placement.strategy
    assert found is not None and (found.micro_batches, found.schedule) == (6, "gpipe") and found.stages > 1
    used = [seconds for seconds in placement.busy.values() if seconds > 0]
    assert found.busy_share == pytest.approx(sum(used) / len(used) / placement.step_time)
    assert found.samples_per_s == pytest.approx(6 * 32 / placement.step_time)
    assert "6 micro-batches" in str(placement) and "gpipe" in str(placement)
    assert em.place(graph, "h100 x 2", method="random", progress=False).strategy is None

    placement.save(tmp_path / "p.json")
    again = em.open_placement(tmp_path / "p.json", graph, "h100 x 2")
    assert (again.strategy, again.step_time, again.bound) == (found, placement.step_time, placement.bound)
    measured = em.evaluate(graph, placement)
    assert measured.strategy == found and measured.step_time == placement.step_time
    other = em.evaluate(graph, placement, micro_batches=2).strategy
    assert other is not None and other.micro_batches == 2
    compared = em.compare(
        graph, "h100 x 2", methods=["single-gpu", "stages"], micro_batches=6, progress=False
    )
    assert compared.columns()["method"] == ["single-gpu", "stages"]
    # The schedule's slices belong to ops of the graph.
    columns = placement.ops()
    per_op = dict(zip(columns["op"], columns["time_s"]))
    assert sum(per_op.values()) <= sum(placement.busy.values()) * 1.1
    kernels = [op for op in graph.ops if op.type == "aten::addmm" or op.type == "aten::mm"]
    assert kernels and all(per_op[op.name] > 0 for op in kernels)


def test_what_cannot_be_is_refused() -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(graph, "h100 x 2", method="single-gpu", micro_batches=3, progress=False)
    with placement.apply(devices=CPUS, threads=1) as step:
        with pytest.raises(em.EmplaceError, match="has 2, the placement has 3 micro-batches; pass a list"):
            step([batch, batch])
        with pytest.raises(em.EmplaceError, match="micro-batch 1, batch .* was traced with"):
            step([batch, (batch[0][:5], batch[1]), batch])
    with pytest.raises(em.EmplaceError, match="one micro-batch per step"):
        em.evaluate(graph, placement, executor="torch")
    with pytest.raises(em.EmplaceError, match="unknown schedule 'zb'"):
        em.place(graph, "h100 x 2", micro_batches=3, schedule="zb", progress=False)
    with pytest.raises(em.EmplaceError, match="need a training step"):
        em.place(em.trace(model, batch[0]), "h100 x 2", micro_batches=3, progress=False)


def test_verify_runs_all_micro_batches() -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(graph, "h100 x 2", method="random", micro_batches=3, progress=False)
    one = em.place(graph, "h100 x 2", method="random", progress=False)
    assert em.verify(graph, placement, threads=1)
    assert em.verify(graph, placement, micro_batches_of(batch, 3), threads=1)
    assert em.verify(graph, placement).compared > 1.5 * em.verify(graph, one).compared
