#!/usr/bin/env python3
"""How far the memory of a step that PyTorch runs is from the simulator's: 20 models, five memory plans each.

usage: bench/real_peak.py [--program P] [--only REGEX] [--budget S] [--seed N] [--threads] [--safe]

Models are placed on two devices: two plans are drawn at random, three are found by `place --allow` with
less memory than the model needs (drawn, where none is found). `apply(lean=True)` runs each step on logical
devices of this CPU, its tasks in the order of the simulated step, and the storages that exist on each
device are counted (python/tests/applying/live_storages.py). The table is Markdown, with peaks in bytes.

  --threads    devices run at one time, as they always do: a task starts when it can, not as simulated
  --safe       without `lean`: new values of state are beside the old ones until all ops are done
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests/applying")]
_PROGRAM = str(ROOT / "build/release/emplace")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import emplace as em  # noqa: E402
from drawn_plans import drawn_plan  # noqa: E402
from models import Attention, Recurrent, convolutional  # noqa: E402
from measured_peaks import peaks_as_simulated, peaks_of_threads  # noqa: E402

DEVICES = """
[[device]]
name = "gpu:0"
profile = "h100"
memory = "{0}B"
[[device]]
name = "gpu:1"
profile = "h100"
memory = "{1}B"
[[link]]
between = ["*", "*"]
bandwidth = "50GB/s"
latency = "0.01us"
"""


class Residual(nn.Module):
    """What a module computes, added to its input."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Tied(nn.Module):
    """An autoencoder whose decoder has the weights of its encoder."""

    def __init__(self) -> None:
        super().__init__()
        shapes = (48, 64), (16, 48)
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(shape) * 0.1) for shape in shapes])

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = torch.tanh(F.linear(x, weight))
        for weight in list(self.weights)[::-1]:
            x = torch.tanh(F.linear(x, weight.t()))
        return x


class Gpt(nn.Module):
    """Two causal layers; the head is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(64, 32), nn.Embedding(24, 32)
        self.norms = nn.ModuleList([nn.LayerNorm(32) for _ in range(5)])
        self.qkv = nn.ModuleList([nn.Linear(32, 96) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(32, 32) for _ in range(2)])
        self.mlp = nn.ModuleList([mlp(32, 128, 32).append(nn.Dropout(0.1)) for _ in range(2)])
        self.register_buffer("mask", torch.full((24, 24), -1e9).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        b, s = x.shape
        h = self.embed(x) + self.place(torch.arange(s))
        for layer in range(2):
            qkv = self.qkv[layer](self.norms[2 * layer](h)).view(b, s, 3, 4, 8)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            weights = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5 + self.mask, -1)
            h = h + self.out[layer]((weights @ v).transpose(1, 2).reshape(b, s, 32))
            h = h + self.mlp[layer](self.norms[2 * layer + 1](h))
        return F.linear(self.norms[4](h), self.embed.weight).flatten(0, 1)


class Transformer(nn.Module):
    """An encoder's or a decoder's layer of PyTorch."""

    def __init__(self, decoder: bool) -> None:
        super().__init__()
        kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
        self.layer, self.head = kind(32, 4, 64, batch_first=True), nn.Linear(32, 5)
        self.memory = nn.Parameter(torch.randn(8, 6, 32)) if decoder else None

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x) if self.memory is None else self.layer(x, self.memory)
        return self.head(made.mean(1))


class Cells(nn.Module):
    """A recurrent cell, unrolled."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell, self.head = kind(16, 32), nn.Linear(32, 5)  # type: ignore[call-arg]

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 32)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


class Lstm(nn.Module):
    """PyTorch's own LSTM of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class UNet(nn.Module):
    """Two levels with a skip connection each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = conv(3, 8), conv(8, 16)
        self.middle, self.back = conv(16, 16), conv(32, 8)
        self.last = nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        c = F.interpolate(self.middle(F.max_pool2d(b, 2)), scale_factor=2.0)
        d = F.interpolate(self.back(torch.cat([b, c], 1)), scale_factor=2.0)
        return self.last(torch.cat([a, d], 1))


class Dense(nn.Module):
    """A dense block: each layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([conv(4 + 4 * i, 4) for i in range(4)])
        self.stem, self.head = nn.Conv2d(3, 4, 1), nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return self.head(torch.cat(found, 1).mean((2, 3)))


class Vae(nn.Module):
    """Random numbers between an encoder and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32))
        self.decoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation = self.encoder(x).chunk(2, -1)
        return self.decoder(mean + torch.randn_like(deviation) * torch.exp(0.5 * deviation))


class Recommender(nn.Module):
    """Embeddings of several features, their products, and layers above."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(40, 16) for _ in range(4)])
        self.top = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 5))

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.stack([table(x[:, i]) for i, table in enumerate(self.tables)], 1)
        return self.top(torch.bmm(rows, rows.transpose(1, 2)).flatten(1))


class Mixer(nn.Module):
    """Layers over patches and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(4)])
        self.patches = nn.ModuleList([mlp(12, 24, 12) for _ in range(2)])
        self.channels = nn.ModuleList([mlp(16, 32, 16) for _ in range(2)])
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(2):
            x = x + self.patches[i](self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + self.channels[i](self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


class Experts(nn.Module):
    """A gate that weighs four layers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(32, 4), nn.ModuleList([mlp(32, 48, 5) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.gate(x), -1)
        return sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))  # type: ignore


class Twins(nn.Module):
    """One network for both halves of a batch, which are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(32, 64, 16)

    def forward(self, x: Tensor) -> Tensor:
        a, b = (F.normalize(self.net(half), dim=-1) for half in x.chunk(2))
        return a @ b.t() / 0.1


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.GELU()]
    return nn.Sequential(*layers[:-1])


def conv(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())


def resnet() -> nn.Module:
    inner = (nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    blocks = [Residual(*inner, nn.BatchNorm2d(8)), nn.ReLU(inplace=True)]
    return nn.Sequential(conv(3, 8), *blocks, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8 * 8 * 8, 5))


def diffusion() -> nn.Module:
    blocks = [Residual(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1)) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(3, 8, 1), *blocks, nn.Conv2d(8, 3, 1))


def classes(x: Tensor, count: int = 5, rows: int | None = None) -> dict[str, Tensor]:
    return {"x": x, "y": torch.randint(0, count, (rows or x.shape[0],))}


def images(size: int = 16) -> Tensor:
    return torch.randn(8, 3, size, size)


def same(x: Tensor) -> dict[str, Tensor]:
    return {"x": x, "y": x.clone()}


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


Made = tuple[nn.Module, dict[str, Tensor]]
#: Name -> what makes model and batch, and the optimizer.
MODELS: dict[str, tuple[Callable[[], Made], Callable[[Any], torch.optim.Optimizer]]] = {
    "mlp": (lambda: (mlp(32, 64, 64, 64, 5), classes(torch.randn(128, 32))), adam),
    "autoencoder, tied": (lambda: (Tied(), same(torch.randn(64, 64))), adamw),
    "convnet, batch norm, dropout": (convolutional, momentum),
    "resnet": (lambda: (resnet(), classes(images())), momentum),
    "densenet": (lambda: (Dense(), classes(images())), adam),
    "u-net": (lambda: (UNet(), same(images())), adam),
    "diffusion, group norm": (lambda: (diffusion(), same(images())), adamw),
    "attention": (lambda: (Attention(), classes(torch.randn(8, 12, 16))), adam),
    "encoder": (lambda: (Transformer(False), classes(torch.randn(8, 12, 32))), adamw),
    "decoder": (lambda: (Transformer(True), classes(torch.randn(8, 12, 32))), adam),
    "gpt, tied": (lambda: (Gpt(), classes(torch.randint(0, 64, (4, 24)), 64, 96)), adamw),
    "mixer": (lambda: (Mixer(), classes(torch.randn(8, 12, 16))), sgd),
    "experts": (lambda: (Experts(), classes(torch.randn(64, 32))), adam),
    "rnn cell": (lambda: (Cells(nn.RNNCell), classes(torch.randn(8, 6, 16))), momentum),
    "gru cell": (lambda: (Cells(nn.GRUCell), classes(torch.randn(8, 6, 16))), adam),
    "lstm cell, tied": (lambda: (Recurrent(), classes(torch.randint(0, 20, (8, 5)), 20)), sgd),
    "lstm": (lambda: (Lstm(), classes(torch.randn(8, 6, 16))), adam),
    "vae": (lambda: (Vae(), same(torch.randn(64, 64))), momentum),
    "recommender": (lambda: (Recommender(), classes(torch.randint(0, 40, (64, 4)))), adam),
    "twins": (lambda: (Twins(), classes(torch.randn(64, 32), 32, 32)), sgd),
}


def loss_of(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Cross entropy for classes, else the squared error."""
    found, wanted = model(batch["x"]), batch["y"]
    return F.mse_loss(found, wanted) if wanted.is_floating_point() else F.cross_entropy(found, wanted)


def plans(graph: em.Graph, folder: Path, seed: int, budget: str) -> Iterator[tuple[str, em.Placement]]:
    """Five placements with a memory plan, each with what it is."""
    draw = random.Random(seed)

    def machine(*shares: float) -> em.Machine:
        file = folder / f"{'-'.join(map(str, shares))}.toml"
        file.write_text(DEVICES.format(*(int(share * needs) for share in shares)))
        return em.machine(file)

    needs = 1 << 40
    ample = machine(1.0, 1.0)
    whole = em.place(graph, ample, method="single-gpu", progress=False)
    needs = max(whole.peak.values())
    for method in ("random", "single-gpu"):
        placed = em.place(graph, ample, method=method, seed=draw.randrange(1000), progress=False)
        yield f"drawn, {method}", drawn_plan(graph, placed, ample, draw, folder)
    for allow in ("recompute", "offload", "recompute,offload"):
        first = draw.choice((50, 60, 70, 80, 90))
        for share in range(first, 101, 10):
            # All that computes is on gpu:0, or on two devices that have so much together.
            here = (share / 100, 1.0) if "," not in allow else (0.6 * share / 100, 0.6 * share / 100)
            rules = {"*": "gpu:0"} if "," not in allow else None
            try:
                found = em.place(
                    graph, machine(*here), allow=allow, rules=rules, budget=budget, progress=False, threads=1
                )
            except em.NoPlacement:
                continue
            if found.memory_plan:
                yield f"{allow.replace(',', ', ')}, {share} %", found
                break
        else:
            placed = em.place(graph, ample, method="contiguous", progress=False)
            yield "drawn, contiguous", drawn_plan(graph, placed, ample, draw, folder)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--program", default=os.environ.get("EMPLACE_PROGRAM", _PROGRAM))
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name matches")
    parser.add_argument("--budget", default="1s", help="of a search")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", action="store_true", help="run the devices at one time")
    parser.add_argument("--safe", action="store_true", help="run steps that are not lean")
    options = parser.parse_args()
    os.environ["EMPLACE_PROGRAM"] = options.program
    torch.set_num_threads(1)
    measure = peaks_of_threads if options.threads else peaks_as_simulated
    print("| model | plan | recomputed, moved | simulated | real | difference |")
    print("|---|---|--:|--:|--:|--:|")
    shares, bytes_apart = [], []
    for name, (make, optimizer) in MODELS.items():
        if not re.search(options.only, name):
            continue
        torch.manual_seed(options.seed)
        model, batch = make()
        graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer(model.parameters()))
        with tempfile.TemporaryDirectory() as folder:
            for what, placement in plans(graph, Path(folder), options.seed, options.budget):
                real, simulated = measure(placement, batch, lean=not options.safe), placement.peak
                apart = [real[device] - simulated[device] for device in simulated]
                share = max(abs(a) / max(1, s) for a, s in zip(apart, simulated.values()))
                shares.append(share)
                bytes_apart.append(max(map(abs, apart)))
                plan = placement.memory_plan or {"recompute": [], "move": []}
                cells = [
                    name,
                    what,
                    f"{len(plan['recompute'])}, {len(plan['move'])}",
                    *(" / ".join(f"{n:,}" for n in peaks.values()) for peaks in (simulated, real)),
                    f"{share:.2%}",
                ]
                print("| " + " | ".join(cells) + " |", flush=True)
    few, near = sum(each <= 16 for each in bytes_apart), sum(each <= 0.02 for each in shares)
    print(
        f"\n{len(shares)} plans: {few} within 16 B, {near} within 2 %;"
        f" difference median {statistics.median(shares):.2%}"
        f" ({statistics.median(bytes_apart):.0f} B), largest {max(shares):.2%} ({max(bytes_apart)} B)"
    )


if __name__ == "__main__":
    main()
