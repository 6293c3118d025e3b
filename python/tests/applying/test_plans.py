"""A step with a memory plan computes the bits of plain PyTorch: random numbers, statistics and all."""

from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path

import pytest
import torch

import emplace as em

sys.path.insert(0, str(Path(__file__).parent))
from drawn_plans import drawn_plan  # noqa: E402

NAMES = ["gpu:0", "gpu:1"]


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
        self.drop = torch.nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.up(self.norm(x)).chunk(2, dim=1)  # Views of a part.
        return x + self.drop(self.down(torch.cat([torch.nn.functional.gelu(left), right.sigmoid()], dim=1)))


class Net(torch.nn.Module):
    """Dropout, batch norm with running statistics, and a weight that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(16) for _ in range(3)])
        self.blocks[2].up.weight = self.blocks[0].up.weight
        self.norm, self.out = torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))  # type: ignore[no-any-return]


def loss_of(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def made() -> tuple[Net, torch.optim.Optimizer, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    model = Net()
    batch = torch.randn(32, 16), torch.randint(0, 4, (32,))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2), batch


def after_plain_steps() -> list[torch.Tensor]:
    model, optimizer, batch = made()
    torch.manual_seed(2)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    return [*model.parameters(), *model.buffers()]


@pytest.mark.parametrize("seed", range(8))
def test_three_steps_have_the_bits_of_plain_pytorch(seed: int, tmp_path: Path) -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    method = "random" if seed % 2 else "single-gpu"
    placement = em.place(graph, "h100 x 2", method=method, seed=seed, progress=False)
    planned = drawn_plan(graph, placement, "h100 x 2", random.Random(seed), tmp_path)
    assert planned.memory_plan and planned.memory_plan["recompute"] and planned.memory_plan["move"]
    with planned.apply(devices=dict.fromkeys(NAMES, "cpu"), threads=1) as step:
        torch.manual_seed(2)
        for _ in range(3):
            step(batch)
        assert step.moved_bytes == planned.moved_bytes
    found = [*model.parameters(), *model.buffers()]
    assert all(itertools.starmap(torch.equal, zip(found, after_plain_steps(), strict=True)))


def test_a_plan_for_other_ops_is_refused(tmp_path: Path) -> None:
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(graph, "h100 x 2", method="single-gpu", progress=False)
    document = placement.document | {"version": 2, "recompute": ["no such op"], "move": []}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(em.EmplaceError, match="its recompute names op 'no such op', which the graph lacks"):
        em.open_placement(tmp_path / "plan.json", graph, "h100 x 2")
