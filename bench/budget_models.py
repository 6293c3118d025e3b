"""The models of bench/torch_budget.py: layers as in the papers, without dropout, narrow and with small batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Layer(nn.Module):
    """A Transformer layer with eager attention, its norms first (GPT, ViT) or last (BERT)."""

    def __init__(self, width: int, heads: int, norm_first: bool) -> None:
        super().__init__()
        self.heads, self.norm_first = heads, norm_first
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x: Tensor, mask: Tensor | None) -> Tensor:
        b, s, width = x.shape
        q, k, v = (f(x).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, s, width))

    def mlp(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class Words(nn.Module):
    """GPT (causal, a head without bias) or BERT (with its transform before the head), 12 layers."""

    def __init__(self, causal: bool, width: int = 256, words: int = 128, vocabulary: int = 2048) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(words, width)
        self.layers = nn.ModuleList([Layer(width, width // 64, causal) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=not causal)
        self.transform = None if causal else nn.Linear(width, width)
        mask = torch.full((words, words), -1e9).triu(1) if causal else torch.zeros(1, 1, 1, words)
        self.register_buffer("mask", mask)
        self.register_buffer("places", torch.arange(words))

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x) + self.place(self.places)
        h = h if self.transform is None else self.norm(h)
        for layer in self.layers:
            h = layer(h, self.mask)
        h = self.norm(h) if self.transform is None else F.gelu(self.transform(h))
        return self.head(h).flatten(0, 1)


class ViT(nn.Module):
    """ViT-B/16's 12 layers over 197 tokens."""

    def __init__(self, width: int = 192, classes: int = 1000) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.zeros(1, 197, width))
        self.layers = nn.ModuleList([Layer(width, width // 64, True) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = self.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.token.expand(h.shape[0], -1, -1), h], 1) + self.place
        for layer in self.layers:
            h = layer(h, None)
        return self.head(self.norm(h)[:, 0])


def conv(before: int, after: int, size: int = 1, stride: int = 1) -> nn.Module:
    made = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
    return nn.Sequential(made, nn.BatchNorm2d(after))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, before: int, inner: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = conv(before, inner), conv(inner, inner, 3, stride)
        self.third = conv(inner, 4 * inner)
        same = stride == 1 and before == 4 * inner
        self.shortcut = nn.Identity() if same else conv(before, 4 * inner, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(self.third(h) + self.shortcut(x))


class ResNet50(nn.Module):
    """ResNet-50 of its usual widths."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 64, 7, 2)
        blocks, before = [], 64
        for stage, depth in enumerate((3, 4, 6, 3)):
            for i in range(depth):
                blocks.append(Bottleneck(before, 64 << stage, 2 if stage and not i else 1))
                before = 256 << stage
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.head(self.blocks(h).mean((2, 3)))


def words(batch: int = 8) -> Tensor:
    return torch.randint(0, 2048, (batch, 128))


#: Name -> what makes model, input and classes of the output's rows.
MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor, Tensor]]] = {
    "GPT": lambda: (Words(True), words(), torch.randint(0, 2048, (1024,))),
    "BERT": lambda: (Words(False), words(), torch.randint(0, 2048, (1024,))),
    "ViT": lambda: (ViT(), torch.randn(6, 3, 224, 224), torch.randint(0, 1000, (6,))),
    "ResNet-50": lambda: (ResNet50(), torch.randn(8, 3, 128, 128), torch.randint(0, 1000, (8,))),
}


def loss_of(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])
