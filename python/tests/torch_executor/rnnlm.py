"""The shape of the graph rnnlm-bs4-hidden512-steps10: two layers of LSTM cells, unrolled, momentum."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, words: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.cells = nn.ModuleList([nn.LSTMCell(hidden, hidden), nn.LSTMCell(hidden, hidden)])
        self.out = nn.Linear(hidden, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = [(torch.zeros(x.shape[0], self.out.in_features),) * 2 for _ in self.cells]
        found = []
        for t in range(x.shape[1]):
            value = self.embed(x[:, t])
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(value, states[layer])
                value = states[layer][0]
            found.append(self.out(value))
        return torch.stack(found, 1).flatten(0, 1)


def make_step(words: int = 10000, hidden: int = 512, steps: int = 10, size: int = 4) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = LanguageModel(words, hidden)
    batch = (torch.randint(0, words, (size, steps)), torch.randint(0, words, (size * steps,)))

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    return model, batch, loss, torch.optim.SGD(model.parameters(), lr=0.1)
