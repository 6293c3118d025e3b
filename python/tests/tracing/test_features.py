"""What models and training loops do: each against plain PyTorch, to the bit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import replay
import torch
import torch.nn.functional as F
from replay import trace_step
from torch import nn
from torch.utils.checkpoint import checkpoint

import emplace as em
from emplace.errors import EmplaceError
from emplace.tracing.document import describe
from emplace.tracing.values import TensorInfo


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def squares(model: nn.Module, batch: Any) -> torch.Tensor:
    result: torch.Tensor = model(batch).square().mean()
    return result


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.linear, self.drop = nn.LayerNorm(width), nn.Linear(width, width), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.drop(torch.tanh(self.linear(self.norm(x))))
        return y


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.blocks, self.reentrant = (
            nn.Linear(8, 8),
            nn.ModuleList([Block(), Block()]),
            reentrant,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return F.dropout(x, 0.2)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_computes_again_with_the_same_dropout(reentrant: bool) -> None:
    replay.seed(0)
    document, step, found = replay.compare(Checkpointed(reentrant), torch.randn(4, 8), squares, sgd)
    assert found == []
    assert sum(op["type"] == "aten::bernoulli" for op in document["ops"]) == 3 == len(step.random_nodes)
    again = [op for op in document["ops"] if op["phase"] == "backward" and op["type"] == "aten::tanh"]
    assert [op["group"] for op in again] == ["blocks/1", "blocks/0"]
    products = [
        op["group"] for op in document["ops"] if op["phase"] == "backward" and op["type"] == "aten::mm"
    ]
    assert set(products) == {"blocks/1/linear", "blocks/0/linear", "first"}


def test_without_checkpoint_backward_has_the_scope_of_forward() -> None:
    replay.seed(0)
    model = nn.Sequential(nn.Linear(8, 8), Block(), nn.Linear(8, 3))
    document, _, found = replay.compare(model, torch.randn(4, 8), squares, sgd)
    assert found == []
    by_group = {
        op["group"] for op in document["ops"] if op["phase"] == "backward" and op["type"] == "aten::mm"
    }
    assert by_group == {"0", "1/linear", "2"}
    assert {op["group"] for op in document["ops"] if "tanh" in op["type"]} == {"1"}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.embed(x))
        return y


def test_tied_weights_are_one_parameter() -> None:
    replay.seed(0)
    document, step, found = replay.compare(Tied(), torch.randint(0, 10, (3, 4)), squares, sgd)
    assert found == []
    assert [entry.name for entry in step.inputs if entry.kind == "parameter"] == ["embed.weight"]


class Counting(nn.Module):
    """Buffers: batch norm's, one written through a view, one exchanged for another tensor, one that stays."""

    seen: torch.Tensor
    total: torch.Tensor
    still: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(8, momentum=0.2), nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(3, 8))
        self.register_buffer("total", torch.zeros(8))
        self.register_buffer("still", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.seen[1].add_(x.mean(0))
            self.seen.t()[2:4, 0] = 7.0
            self.total = self.total + x.sum(0)
        y: torch.Tensor = self.linear(self.norm(x)) * self.still + self.seen.sum()
        y[:, 1:3] *= 2.0
        return y.unsqueeze_(0)


def test_buffers_have_plain_pytorchs_values() -> None:
    replay.seed(0)
    _, step, found = replay.compare(Counting(), torch.randn(6, 8), squares, sgd)
    assert found == []
    changed = {entry.name for entry in step.outputs if entry.kind == "buffer"}
    assert changed == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "seen", "total"}


@pytest.mark.parametrize("inside", [True, False])
def test_autocast(inside: bool) -> None:
    """Autocast as an option, or by the loss function itself."""

    def plain(model: nn.Module, batch: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return squares(model, batch)

    replay.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    other, batch = copy.deepcopy(model), torch.randn(4, 8)
    mine, theirs = sgd(model.parameters()), sgd(other.parameters())
    if inside:
        document, step = trace_step(model, batch, plain, mine)
    else:
        document, step = trace_step(model, batch, squares, mine, autocast=torch.bfloat16)
    for _ in range(3):
        assert replay.same_bits(replay.run(step, batch), replay.plain_step(other, batch, plain, theirs))
    assert replay.differences(model, mine, other, theirs) == []
    assert any(output["dtype"] == "bf16" for op in document["ops"] for output in op["outputs"])


def test_accumulation_over_micro_batches() -> None:
    replay.seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    other = copy.deepcopy(model)
    mine, theirs = sgd(model.parameters()), sgd(other.parameters())
    batches = [torch.randn(4, 8) for _ in range(3)]
    _, step = trace_step(model, batches, squares, mine, accumulate=3)
    for i in range(3):
        replay.seed(i)
        theirs.zero_grad()
        for micro in batches:
            (squares(other, micro) / 3).backward()
        theirs.step()
        replay.seed(i)
        replay.run(step, batches)
    assert replay.differences(model, mine, other, theirs) == []
    with pytest.raises(EmplaceError, match="micro-batches"):
        trace_step(model, batches[:2], squares, mine, accumulate=3)


def test_inference_returns_what_the_model_returns() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(
            self, x: torch.Tensor, scale: float, *, flip: torch.Tensor | None = None
        ) -> dict[str, Any]:
            y = self.linear(x) * scale
            return {"y": y, "same": (x, "text"), "flip": flip}

    model = Two().eval()
    for batch in ({"x": torch.randn(2, 4), "scale": 3.0, "flip": torch.ones(1)}, (torch.randn(2, 4), 2.0)):
        document, step = trace_step(model, batch)
        with torch.no_grad():
            expected = model(**batch) if isinstance(batch, dict) else model(*batch)
        result = replay.run(step, batch)
        assert replay.same_bits(result["y"], expected["y"]) and result["same"][1] == "text"
        assert result["same"][0] is (batch["x"] if isinstance(batch, dict) else batch[0])
        assert (result["flip"] is None) == (expected["flip"] is None)
        assert {op["phase"] for op in document["ops"]} == {"forward"} and document["meta"][
            "kind"
        ] == "inference"


def test_a_hook_on_a_parameter_is_part_of_the_step() -> None:
    replay.seed(0)
    model = nn.Linear(4, 4)
    other = copy.deepcopy(model)
    for each in (model, other):
        each.weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    batch, mine, theirs = torch.randn(3, 4), sgd(model.parameters()), sgd(other.parameters())
    _, step = trace_step(model, batch, squares, mine)
    replay.run(step, batch)
    replay.plain_step(other, batch, squares, theirs)
    assert replay.differences(model, mine, other, theirs) == []


def test_a_frozen_parameter_stays() -> None:
    replay.seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].weight.requires_grad_(False)
    _, step, found = replay.compare(model, torch.randn(3, 4), squares, sgd)
    assert found == [] and "0.weight" not in step.gradients and "0.bias" in step.gradients


def test_gradients_are_named() -> None:
    model = nn.Linear(4, 4)
    batch = torch.randn(3, 4)
    _, step = trace_step(model, batch, squares, sgd(model.parameters()))
    kept: dict[str, torch.Tensor] = {}

    class Keep(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            kept[n.name] = super().run_node(n)
            return kept[n.name]

    with torch.no_grad():
        Keep(step.module).run(*step.arguments(batch))
    squares(model, batch).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and replay.same_bits(kept[step.gradients[name]], parameter.grad)


def test_a_model_on_meta_takes_no_memory() -> None:
    model = nn.Linear(1 << 20, 1 << 20, device="meta")
    document, _ = trace_step(
        model, torch.empty(8, 1 << 20, device="meta"), squares, torch.optim.Adam(model.parameters())
    )
    assert sum(op["param_bytes"] for op in document["ops"]) > 12 << 40


class Swapping(nn.Module):
    """Two buffers that change places at each step."""

    a: torch.Tensor
    b: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a, self.b = self.b, self.a
        y: torch.Tensor = self.linear(x) + self.a
        return y


def test_buffers_that_are_swapped() -> None:
    replay.seed(0)
    assert replay.compare(Swapping(), torch.randn(3, 4), squares, sgd)[2] == []


def test_outputs_of_another_step_are_refused() -> None:
    model = nn.Linear(4, 4)
    _, step = trace_step(model, torch.randn(3, 4), squares, sgd(model.parameters()))
    before = [p.detach().clone() for p in model.parameters()]
    values = list(step.module(*step.arguments(torch.randn(3, 4))))
    values[-1] = torch.zeros(7)
    with pytest.raises(EmplaceError, match="torch.float32 \\(7,\\)"):
        step.store(values)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


def test_ops_of_unknown_work_stand_in_every_trace() -> None:
    """An op of no list: in the graph's meta each time, and in a warning when the graph is placed."""

    class Cross(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.linalg.cholesky(input @ input.t() + self.weight)

    model, batch = Cross(3, 3), torch.randn(3, 3)
    for _ in range(2):
        made, _ = trace_step(model, batch)
        assert made["meta"]["uncounted"] == ["aten::linalg_cholesky_ex"]
    with pytest.warns(UserWarning, match="^graph .*: ops of unknown work: aten::linalg_cholesky_ex"):
        placement = em.place(em.trace(model, batch), "k80 x 2", method="single-gpu", progress=False)
    assert "linalg_cholesky_ex" in placement.report().html


def test_work_is_counted_by_the_table() -> None:
    """Gradients of a depthwise convolution, an LSTM of oneDNN, both products of attention."""
    net = nn.Conv2d(64, 64, 3, groups=64, padding=1, bias=False)
    made, _ = trace_step(net, torch.zeros(2, 64, 8, 8), squares, sgd(net.parameters()))
    work = {op["type"]: op["flops"] for op in made["ops"]}
    assert work["aten::convolution"] == work["aten::convolution_backward"] == 2 * 2 * 64 * 9 * 8 * 8
    rnn = nn.LSTM(16, 32, num_layers=2)
    made, _ = trace_step(rnn, torch.zeros(20, 4, 16))
    products = 2 * 20 * 4 * 128 * (16 + 32 + 32 + 32)
    assert sum(op["flops"] for op in made["ops"]) == pytest.approx(products, rel=0.15)
    assert "uncounted" not in made["meta"]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_eight_bits_have_a_type_of_their_own(name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    info = TensorInfo((4, 8), (8, 1), dtype, torch.device("cpu"))
    assert describe(info) == {"dtype": "f8", "shape": [4, 8]}
