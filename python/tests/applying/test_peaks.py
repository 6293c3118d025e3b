"""The memory of a step that runs is the simulator's: storages that exist, by device, at the peak."""

from __future__ import annotations

import gc
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import emplace as em
from emplace.applying import apply
from emplace.applying.devices import copy_as_it_lies

sys.path.insert(0, str(Path(__file__).parent))
from drawn_plans import drawn_plan  # noqa: E402
from live_storages import LiveStorages  # noqa: E402
from measured_peaks import peaks_as_simulated, peaks_of_threads  # noqa: E402
from models import make, plain_step  # noqa: E402
from simulated import needs_program  # noqa: E402

#: A number that is copied is no storage.
FEW_BYTES = 16


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_storage_counts_once_as_long_as_anything_shows_it() -> None:
    count = LiveStorages(2)
    state = torch.zeros(100)
    count.claim(0, [state, state.view(10, 10), state[3:7], None, 1.5])
    assert count.peak == [400, 0]
    with count.mode(0):
        left, right = torch.cat([state, state]).chunk(2)
        assert count.now(0) == 1200
        del left
        assert count.now(0) == 1200
        del right
        state.add_(1.0)
    assert count.now(0) == 400 and count.peak == [1200, 0]
    with count.mode(1):
        for _ in range(3):  # Addresses come again: each storage is another one.
            other = state.clone()
            assert count.now(1) == 400
            del other
        pair = state.to(torch.float64), state + 1
    assert (count.now(0), count.now(1)) == (400, 1200) and count.peak == [1200, 1200]
    del pair
    gc.collect()
    assert count.now(1) == 0 and count.peak == [1200, 1200]


def test_parts_of_a_sparse_tensor_count() -> None:
    count = LiveStorages(1)
    count.claim(0, [torch.eye(4).to_sparse()])
    assert count.peak == [2 * 4 * 8 + 4 * 4]


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_without_gaps_has_the_views_of_the_original(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [draw.choice((1, 2, 3, 4)) for _ in range(4)]
    whole = torch.randn([size + 2 for size in sizes]).permute(draw.sample(range(4), 4))
    part = whole
    for dimension in range(4):
        part = part.narrow(dimension, draw.randrange(2), part.size(dimension) - 2)
    if seed % 2:
        part = part.unsqueeze(2).expand(*part.shape[:2], 3, *part.shape[2:])
    found = copy_as_it_lies(part, torch.device("cpu"), gaps=False)
    assert torch.equal(found, part) and found.data_ptr() != part.data_ptr()
    count = LiveStorages(1)
    count.claim(0, [found])
    assert count.peak == [4 * found.numel() // (3 if seed % 2 else 1)]
    order = [d for d in range(part.dim()) if part.size(d) > 1]
    assert sorted(order, key=found.stride) == sorted(order, key=part.stride)


def traced(model: str, optimizer: str) -> tuple[em.Graph, Any]:
    made = make(model, optimizer)
    return em.trace(made[0], made[1], loss=made[2], optimizer=made[3]), made


@needs_program
@pytest.mark.parametrize("method", ["single-gpu", "random"])
@pytest.mark.parametrize("model, optimizer", [("attention", "adam"), ("lstm", "momentum"), ("conv", "sgd")])
def test_peaks_are_those_of_the_simulator(model: str, optimizer: str, method: str, tmp_path: Path) -> None:
    """Of plain placements, and with what is recomputed and moved drawn at random."""
    graph, made = traced(model, optimizer)
    # The conv net's batch norms have 32 numbers of statistics: new ones wait for readers of the old.
    few = FEW_BYTES if model != "conv" else FEW_BYTES + 32 * 4
    for seed in range(3):
        placed = em.place(graph, "h100 x 2", method=method, seed=seed, progress=False)
        if seed:
            placed = drawn_plan(graph, placed, "h100 x 2", random.Random(seed), tmp_path)
        real = peaks_as_simulated(placed, made[1])
        for device, simulated in placed.peak.items():
            assert abs(real[device] - simulated) <= few, (seed, device, real[device], simulated)
        if method == "single-gpu" and not seed:
            # One device has one order: its thread runs the tasks as they were simulated.
            assert peaks_of_threads(placed, made[1]) == real
            # Without `lean`, new values of state are kept beside the old ones.
            more = peaks_as_simulated(placed, made[1], lean=False)["gpu:0"] - real["gpu:0"]
            assert more >= 0 and (more > 10_000 or optimizer != "adam")


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p),
    "adam, decay": lambda p: torch.optim.Adam(p, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p),
    "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
    "adagrad": lambda p: torch.optim.Adagrad(p),
}


@needs_program
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_update_has_its_temporaries(optimizer: str) -> None:
    """Of a model whose parameters are larger than all else."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.LayerNorm(48), torch.nn.Linear(48, 64))
    made = OPTIMIZERS[optimizer](model.parameters())
    batch = torch.randn(1, 64)
    graph = em.trace(model, batch, loss=lambda m, x: m(x).pow(2).sum(), optimizer=made)
    placed = em.place(graph, "h100", method="single-gpu", progress=False)
    real = peaks_as_simulated(placed, batch)["gpu:0"]
    assert abs(real - placed.peak["gpu:0"]) <= FEW_BYTES + 8, (real, placed.peak)


class Cached(torch.nn.Module):
    """Layers of attention that return their keys and values, as a prefill does."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.ModuleList([torch.nn.Linear(16, 48) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> Any:
        cache = []
        for layer in self.qkv:
            q, k, v = (part.contiguous() for part in layer(x).chunk(3, -1))
            cache.append((k, v[:, 1:]))  # A part keeps the whole.
            x = x + torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return x, cache


@needs_program
@pytest.mark.parametrize("method", ["single-gpu", "random"])
def test_results_are_in_memory_to_the_end(method: str) -> None:
    batch = torch.randn(4, 32, 16)
    graph = em.trace(Cached(), batch)
    placed = em.place(graph, "h100 x 2", method=method, progress=False)
    real = peaks_as_simulated(placed, batch)
    assert {device: real[device] for device in placed.peak} == placed.peak
    # State, batch, and eight results.
    assert sum(placed.peak.values()) > 4 * (16 * 48 + 48) * 4 + 9 * 4 * 32 * 16 * 4


@needs_program
@pytest.mark.parametrize("allow", ["recompute", "offload", "recompute,offload"])
def test_a_plan_that_was_found_fits_as_simulated(allow: str, tmp_path: Path) -> None:
    layers = [torch.nn.Linear(32, 32), torch.nn.GELU()] * 4
    model, batch = torch.nn.Sequential(*layers), torch.randn(128, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = em.trace(model, batch, loss=lambda m, x: (m(x) - x).pow(2).mean(), optimizer=optimizer)
    machine = tmp_path / "machine.toml"
    text = '[[device]]\nname = "gpu:{}"\nprofile = "h100"\nmemory = "{}B"\n'
    link = '[[link]]\nbetween = ["*", "*"]\nbandwidth = "50GB/s"\nlatency = "0.01us"\n'
    needs = em.place(graph, "h100 x 2", method="single-gpu", progress=False).peak["gpu:0"]
    machine.write_text("".join(text.format(number, needs * 9 // 10) for number in range(2)) + link)
    found = em.place(
        graph, machine, allow=allow, rules={"*": "gpu:0"}, budget="1s", threads=1, progress=False
    )
    assert found.memory_plan and any(found.memory_plan.values())
    real = peaks_as_simulated(found, batch)
    for device, simulated in found.peak.items():
        assert abs(real[device] - simulated) <= FEW_BYTES, (device, real[device], simulated)
    assert real["gpu:0"] <= needs * 9 // 10 + FEW_BYTES


@needs_program
@pytest.mark.parametrize("model, optimizer", [("lstm", "adam"), ("conv", "momentum"), ("attention", "adamw")])
def test_a_lean_step_trains_as_plain_pytorch(model: str, optimizer: str) -> None:
    """With its bits on one device; parts that are copied without gaps may round otherwise."""
    plain = make(model, optimizer)
    graph, placed = traced(model, optimizer)
    for method in ("single-gpu", "random"):
        placement = em.place(graph, "h100 x 2", method=method, seed=3, progress=False)
        with placement.apply(dict.fromkeys(placement.devices, "cpu"), threads=1, lean=True) as step:
            for turn in range(3):
                torch.manual_seed(turn)
                expected = plain_step(plain)
                torch.manual_seed(turn)
                assert torch.allclose(step(placed[1]), expected, rtol=1e-4)
        for (name, a), b in zip(plain[0].state_dict().items(), placed[0].state_dict().values()):
            exact = method == "single-gpu" and model != "lstm"  # Its gates are parts that change in place.
            assert torch.equal(a, b) if exact else torch.allclose(a, b, rtol=1e-3, atol=1e-5), (method, name)


class Exchanging(torch.nn.Module):
    """Two buffers that change places."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("one", torch.zeros(4))
        self.register_buffer("other", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.one, self.other = self.other, self.one
        return self.inner(x) * self.one


class Remembering(torch.nn.Module):
    """Two buffers: the weight before the step, and what the first buffer was before."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("last", torch.zeros(4, 4))
        self.register_buffer("older", torch.zeros(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.older.copy_(self.last)
        self.last.copy_(self.inner.weight.detach())
        return self.inner(x)


@pytest.mark.parametrize("kind", [Exchanging, Remembering])
def test_a_lean_step_keeps_the_old_value_that_another_state_becomes(kind: type[torch.nn.Module]) -> None:
    def model_and_batch() -> Any:
        torch.manual_seed(0)
        model = kind()
        loss = lambda m, x: m(x).pow(2).sum()  # noqa: E731
        return model, torch.randn(8, 4), loss, torch.optim.SGD(model.parameters(), lr=0.01)

    plain, placed = model_and_batch(), model_and_batch()
    graph = em.trace(placed[0], placed[1], loss=placed[2], optimizer=placed[3])
    for seed in range(4):
        choose = random.Random(seed)
        placement = {op["name"]: choose.choice("ab") for op in graph.document["ops"]}
        with apply(graph.step, placement, {"a": "cpu", "b": "cpu"}, threads=1, lean=True) as step:
            for _ in range(3):
                plain_step(plain)
                step(placed[1])
        for (name, a), b in zip(plain[0].state_dict().items(), placed[0].state_dict().values()):
            assert torch.equal(a, b), (seed, name)


@needs_program
def test_a_loss_takes_the_memory_of_one_number() -> None:
    """PyTorch's `mse_loss` allocates that of all squared errors: with its op that ends, too."""
    model, batch = torch.nn.Linear(8, 8), torch.randn(512, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = lambda m, x: torch.nn.functional.mse_loss(m(x), x)  # noqa: E731
    graph = em.trace(model, batch, loss=loss, optimizer=optimizer)
    placement = em.place(graph, "h100", method="single-gpu", progress=False)
    # At the peak there are batch, output and squared errors.
    assert placement.peak["gpu:0"] > 3 * 512 * 8 * 4
    assert abs(peaks_as_simulated(placement, batch)["gpu:0"] - placement.peak["gpu:0"]) <= FEW_BYTES
    with placement.apply({"gpu:0": "cpu"}, threads=1) as step:
        result = step(batch)
    count = LiveStorages(1)
    count.claim(0, [result])
    assert count.peak == [4]
