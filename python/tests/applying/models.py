"""Small models with their batch, loss and optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[nn.Module, Any, Callable[[nn.Module, Any], torch.Tensor], torch.optim.Optimizer]


def _classified(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"])


class Recurrent(nn.Module):
    """An LSTM cell, unrolled, with tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.cell = nn.LSTMCell(16, 16)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(16, 20)
        self.out.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            h, c = self.cell(self.drop(self.embed(x[:, t])), (h, c))
        return self.out(h)


class Attention(nn.Module):
    """One layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = (t.view(b, s, 2, 8).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, -1) @ v
        x = x + mixed.transpose(1, 2).reshape(b, s, 16)
        x = x + self.down(nn.functional.gelu(self.up(x)))
        return self.head(x.mean(1))


def convolutional() -> tuple[nn.Module, Any]:
    """Convolution, batch norm with its statistics, pooling and dropout."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8 * 2 * 2, 5),
    )
    return model, {"x": torch.randn(4, 3, 8, 8), "y": torch.randint(0, 5, (4,))}


def make(model: str, optimizer: str, seed: int = 0) -> Made:
    """A model by name, with an optimizer by name."""
    torch.manual_seed(seed)
    if model == "conv":
        net, batch = convolutional()
    elif model == "lstm":
        net, batch = Recurrent(), {"x": torch.randint(0, 20, (4, 5)), "y": torch.randint(0, 20, (4,))}
    else:
        net, batch = Attention(), {"x": torch.randn(2, 6, 16), "y": torch.randint(0, 5, (2,))}
    made = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
        "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    }
    return net, batch, _classified, made[optimizer](net.parameters())


def plain_step(made: Made) -> torch.Tensor:
    """A step of plain PyTorch."""
    model, batch, loss, optimizer = made
    optimizer.zero_grad()
    value = loss(model, batch)
    value.backward()
    optimizer.step()
    return value.detach()
