"""Forms of layers that took a way of their own: nn.LSTM, sparse gradients, dropout of transposed tensors.

Each step, as placed at random on three logical devices, gives plain PyTorch's bits after three steps, and
`verify` agrees.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tracing")]
import replay  # noqa: E402
from torch import nn  # noqa: E402

import emplace as em  # noqa: E402
from emplace.applying import apply  # noqa: E402

NAMES = ["gpu:0", "gpu:1", "cpu:0"]


class Layer(nn.Module):
    """The output of a recurrent layer, and of its last state where that shall count; perhaps from a state
    that is learned.
    """

    def __init__(self, states: bool = False, learned: bool = False, **options: Any) -> None:
        super().__init__()
        self.recurrent, self.states = nn.LSTM(16, 12, **options), states
        start = [nn.Parameter(torch.randn(1, 3, 12)) for _ in range(2 if learned else 0)]
        self.start = nn.ParameterList(start)

    def forward(self, x: Any) -> Any:
        """(3, 5, 16) or (5, 3, 16) to a loss."""
        out, (h, c) = self.recurrent(x, tuple(self.start) or None)
        return out.pow(2).mean() + (h.sin().mean() + c.mean() if self.states else 0)


class Table(nn.Module):
    """Rows of a table; twice where that shall add two sparse gradients."""

    def __init__(self, table: nn.Module, head: bool = True, twice: bool = False) -> None:
        super().__init__()
        self.table, self.twice = table, twice
        self.head = nn.Linear(8, 3) if head else nn.Identity()

    def forward(self, tokens: Any) -> Any:
        """(4, 6) of 20 words to a loss."""
        loss = self.head(self.table(tokens)).pow(2).mean()
        return loss + self.table(tokens.flip(0)).sin().mean() if self.twice else loss


class Encoder(nn.Module):
    """A layer of a transformer, whose dropout is given transposed tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x: Any) -> Any:
        """(3, 5, 16) to a loss."""
        return self.layer(x).pow(2).mean()


def _table(bag: bool = False, head: bool = True, twice: bool = False, **options: Any) -> Any:
    kind, options = nn.EmbeddingBag if bag else nn.Embedding, {"sparse": True, **options}
    return lambda: Table(kind(20, 8, **options), head, twice)


def _sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def _momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.1)


def _adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=0.01)


def _adagrad(parameters: Any) -> Any:
    return torch.optim.Adagrad(parameters, lr=0.1, lr_decay=0.1)


def _sparse_adam(parameters: Any) -> Any:
    return torch.optim.SparseAdam(list(parameters), lr=0.1)


FORMS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "lstm": (lambda: Layer(batch_first=True), _momentum),
    "lstm by time": (lambda: Layer(states=True), _sgd),
    "lstm of two layers": (lambda: Layer(num_layers=2, dropout=0.3, states=True), _adam),
    "lstm both ways": (lambda: Layer(num_layers=2, bidirectional=True, batch_first=True), _sgd),
    "lstm projected": (lambda: Layer(proj_size=8, batch_first=True), _sgd),
    "lstm without biases": (lambda: Layer(bias=False), _sgd),
    "lstm from a learned state": (lambda: Layer(batch_first=True, learned=True), _momentum),
    "dropout": (Encoder, _momentum),
    "embedding, sgd": (_table(), _sgd),
    "embedding, momentum": (_table(), _momentum),
    "embedding twice, momentum": (_table(twice=True), _momentum),
    "embedding, adagrad": (_table(), _adagrad),
    "embedding, sparse adam": (_table(head=False), _sparse_adam),
    "bag, sgd": (_table(bag=True), _sgd),
    "bag of sums, sgd": (_table(bag=True, mode="sum"), _sgd),
    "bag of sums, adagrad": (_table(bag=True, mode="sum", twice=True), _adagrad),
    "bag, sparse adam": (_table(bag=True, head=False), _sparse_adam),
    "dense bag of sums": (_table(bag=True, mode="sum", sparse=False), _momentum),
}


def loss_of(model: nn.Module, batch: Any) -> Any:
    """The models return their loss."""
    return model(batch)


def placement(graph: em.Graph, seed: int) -> dict[str, str]:
    """Random, with what must share a device together."""
    choose, found = random.Random(seed), {}
    ops = graph.document["ops"]
    for op in ops:
        found[op["name"]] = found[ops[op["colocate"]]["name"]] if "colocate" in op else choose.choice(NAMES)
    return found


def made(name: str) -> tuple[nn.Module, Any, Any]:
    """A form with a batch and an optimizer."""
    make, optimizer = FORMS[name]
    replay.seed(0)
    model = make()
    tokens = isinstance(model, Table)
    batch = torch.randint(0, 20, (4, 6)) if tokens else torch.randn(3, 5, 16)
    if isinstance(model, Layer) and not model.recurrent.batch_first:
        batch = batch.transpose(0, 1).contiguous()
    return model, batch, optimizer


def dense(tensor: Any) -> Any:
    """A tensor whose elements are all stored."""
    return tensor.to_dense() if isinstance(tensor, torch.Tensor) and tensor.is_sparse else tensor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMS)
def test_a_placed_step_has_the_bits_of_plain_pytorch(name: str) -> None:
    for seed in range(3):
        model, batch, make = made(name)
        other = copy.deepcopy(model)
        optimizer, reference = make(model.parameters()), make(other.parameters())
        graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
        where = placement(graph, seed)
        assert graph.step is not None
        found = em.verify(graph, where, batch)
        assert found and found.compared > 8
        with apply(graph.step, where, dict.fromkeys(NAMES, "cpu"), threads=1) as step:
            for turn in range(3):
                replay.seed(turn)
                expected = replay.plain_step(other, batch, loss_of, reference)
                replay.seed(turn)
                assert replay.same_bits(step(batch).detach(), expected), turn
        for p, q in zip(model.parameters(), other.parameters()):
            assert replay.same_bits(p, q)
            mine, theirs = optimizer.state[p], reference.state[q]
            for key in theirs:
                if theirs[key] is not None:
                    assert replay.same_bits(dense(mine[key]), dense(theirs[key])), key


@pytest.mark.filterwarnings("ignore")
def test_sparse_state_that_is_there_is_traced() -> None:
    model, batch, make = made("embedding, momentum")
    other = copy.deepcopy(model)
    optimizer, reference = make(model.parameters()), make(other.parameters())
    for m, o in ((model, optimizer), (other, reference)):
        replay.plain_step(m, batch, loss_of, o)
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    assert graph.step is not None
    for _ in range(2):
        expected = replay.plain_step(other, batch, loss_of, reference)
        assert replay.same_bits(replay.run(graph.step, batch).detach(), expected)
    assert replay.same_bits(next(model.parameters()), next(other.parameters()))
