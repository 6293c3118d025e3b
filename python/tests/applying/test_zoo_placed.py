"""Thirty-two models by name, trained as placed: plain PyTorch's bits after three steps, for random and for
searched placements on two and three devices. Long: ``--newest`` runs it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tracing")]
import replay  # noqa: E402
import zoo  # noqa: E402
from simulated import needs_program  # noqa: E402

import emplace as em  # noqa: E402

STEPS, RANDOM, SEARCHED = 3, 20, 5


class Snapshot:
    """Values of parameters, buffers and optimizer state."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.tensors = [*model.parameters(), *model.buffers()]
        for parameter in model.parameters():
            state = optimizer.state.get(parameter, {})
            assert all(isinstance(v, torch.Tensor) for v in state.values() if v is not None)
            self.tensors += [v for _, v in sorted(state.items()) if v is not None]
        self.values = [t.detach().clone() for t in self.tensors]

    def restore(self) -> None:
        with torch.no_grad():
            for tensor, value in zip(self.tensors, self.values):
                tensor.copy_(value)

    def differences(self, other: Snapshot) -> int:
        """The number of tensors whose bits differ now from the other's values."""
        assert len(self.tensors) == len(other.values)
        return sum(not replay.same_bits(t, v) for t, v in zip(self.tensors, other.values))


def placements(graph: em.Graph, count: int) -> list[tuple[str, dict[str, str]]]:
    """Random placements, then those that a short search finds."""
    names = [f"gpu:{k}" for k in range(count)]
    found = []
    for seed in range(RANDOM):
        choose = random.Random(seed)
        found.append((f"random {seed}", {op.name: choose.choice(names) for op in graph.ops}))
    machine = em.machine(f"v100 x {count}")
    for seed in range(SEARCHED):
        placed = em.place(graph, machine, budget="0.5s", seed=seed, progress=False)
        found.append((f"searched {seed}", {k: v for k, v in placed.ops_by_device().items()}))
    return found


@needs_program
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*zoo.CASES, *zoo.MORE])
def test_every_placement_trains_as_plain_pytorch(name: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--newest"):
        pytest.skip("long: --newest runs it")
    if name in zoo.TEXT or name in ("mixtral_grouped", "qwen3_moe", "albert"):
        pytest.importorskip("transformers")
    if name in zoo.VISION or name in ("mobilenet_v2", "convnext_tiny"):
        pytest.importorskip("torchvision")
    torch.set_num_threads(1)
    case = {**zoo.CASES, **zoo.MORE}[name]
    replay.seed(0)
    model, batch = case.model(), case.batch()
    optimizer = case.optimizer(model.parameters())
    replay.plain_step(model, batch, case.loss, optimizer)  # Creates the state of the optimizer.
    optimizer.zero_grad()
    start = Snapshot(model, optimizer)
    losses = []
    for turn in range(STEPS):
        replay.seed(100 + turn)
        losses.append(replay.plain_step(model, batch, case.loss, optimizer))
    end = Snapshot(model, optimizer)
    optimizer.zero_grad()
    start.restore()

    graph = em.trace(model, batch, loss=case.loss, optimizer=optimizer)
    assert graph.step is not None
    from emplace.applying import apply

    wrong, moved = [], 0
    for count in (2, 3):
        for label, placement in placements(graph, count):
            start.restore()
            devices = {f"gpu:{k}": "cpu" for k in range(count)}
            with apply(graph.step, placement, devices, threads=1) as step:
                for turn in range(STEPS):
                    replay.seed(100 + turn)
                    if not replay.same_bits(step(batch).detach(), losses[turn]):
                        wrong.append(f"{label} on {count}: loss of step {turn}")
                moved += step.moved_bytes > 0
            different = start.differences(end)
            if different:
                wrong.append(f"{label} on {count}: {different} tensors")
    count = 2 * (RANDOM + SEARCHED)
    print(f"{name}: {count} placements, {moved} move bytes; {len(graph)} ops, {len(end.values)} tensors")
    assert wrong == []
    assert moved >= 2 * RANDOM
