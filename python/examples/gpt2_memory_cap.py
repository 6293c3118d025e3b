"""A GPT-2 that does not fit on the GPU: its step is placed on the GPU and the CPU, and trains there.

The GPU of the machine has half of the memory that the whole step needs. Without a GPU both devices are
logical ones on the CPU; the caps then hold in the simulator, and the bytes that move are real.

usage: python gpt2_memory_cap.py
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

import emplace as em

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 2048, 64, 128, 4, 4


class Block(nn.Module):
    """A block of GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.reshape(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-2, -1) / (WIDTH / HEADS) ** 0.5).masked_fill(later, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.out(mixed)
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


class Gpt2(nn.Module):
    """GPT-2 in small; the head shares the weights of the token embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.norm(x))
        return out


def loss_of(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def machine(folder: Path, gpu_bytes: int | None = None) -> em.Machine:
    """A desktop: an RTX 4090, with this memory, and a Ryzen."""
    file = folder / "desktop.toml"
    memory = f'memory = "{gpu_bytes}B"\n' if gpu_bytes else ""
    file.write_text(
        f'[[device]]\nname = "gpu:0"\nprofile = "rtx4090"\n{memory}\n'
        '[[device]]\nname = "cpu:0"\nprofile = "ryzen7950x"\n',
        encoding="utf-8",
    )
    return em.machine(file)


def main() -> None:
    torch.manual_seed(1)
    model = Gpt2()
    tokens = torch.randint(0, VOCABULARY, (8, CONTEXT))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    graph = em.trace(model, tokens, loss=loss_of, optimizer=optimizer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = em.place(graph, machine(folder), method="single-gpu", progress=False)
        cap = whole.peak["gpu:0"] // 2
        placement = em.place(graph, machine(folder, cap), budget="8s", progress=False)
        print(f"{len(graph)} ops; on the GPU alone {whole.peak['gpu:0'] / 2**20:.1f} MiB")
        used, moved = placement.peak["gpu:0"] / 2**20, placement.moved_bytes / 2**20
        print(f"with {cap / 2**20:.1f} MiB there: {used:.1f} MiB used, the rest on the CPU")
        print(f"simulated step {1e3 * placement.step_time:.2f} ms, {moved:.2f} MiB moved")
        print(em.verify(graph, placement))
        gpu = "cuda:0" if torch.cuda.is_available() else "cpu"
        step = placement.apply(devices={"gpu:0": gpu, "cpu:0": "cpu"})
        losses = [float(step(tokens)) for _ in range(10)]
        moved = step.moved_bytes / 2**20
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in ten steps; {moved:.2f} MiB moved in each")


if __name__ == "__main__":
    main()
