"""A model that executor processes of the tests import."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def make_step() -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    batch = (torch.randn(16, 32), torch.randint(0, 10, (16,)))

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    return model, batch, loss, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def other_step() -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))
    return model, torch.randn(16, 32)


def broken_step() -> tuple[Any, ...]:
    raise RuntimeError("no data set here\nand more")


answer = 42
