"""Optimizers of torch.optim: after steps of the trace, parameters and state have plain PyTorch's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import replay
import torch
from replay import trace_step
from torch import nn

from emplace.errors import EmplaceError

O = torch.optim
MAKE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: O.SGD(p, lr=0.1),
    "sgd momentum": lambda p: O.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd nesterov": lambda p: O.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd dampening": lambda p: O.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "sgd maximize": lambda p: O.SGD(p, lr=0.01, momentum=0.9, maximize=True),
    "adam": lambda p: O.Adam(p),
    "adam amsgrad": lambda p: O.Adam(p, amsgrad=True, weight_decay=0.1, betas=(0.8, 0.95)),
    "adamw": lambda p: O.AdamW(p, weight_decay=0.1),
    "adamw amsgrad": lambda p: O.AdamW(p, amsgrad=True),
    "rmsprop": lambda p: O.RMSprop(p),
    "rmsprop centered": lambda p: O.RMSprop(p, momentum=0.9, centered=True, weight_decay=0.1),
    "adafactor": lambda p: O.Adafactor(p),
    "adagrad": lambda p: O.Adagrad(p, lr_decay=0.1, initial_accumulator_value=0.2),
    "adamax": lambda p: O.Adamax(p),
    "adadelta": lambda p: O.Adadelta(p),
    "rprop": lambda p: O.Rprop(p),
    "nadam": lambda p: O.NAdam(p),
    "radam": lambda p: O.RAdam(p),
    "asgd": lambda p: O.ASGD(p, t0=3),
    "muon": lambda p: O.Muon([q for q in p if q.dim() == 2]),
}


class Net(nn.Module):
    """A convolution and a layer, with a parameter that no loss depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 36, 5)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (N, 3, 8, 8) to scores (N, 5)."""
        scores: torch.Tensor = self.head(torch.relu_(self.norm(self.conv(x))).flatten(1))
        return scores


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross entropy."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 4])


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("name", MAKE)
def test_bits_are_those_of_plain_pytorch(name: str, before: int) -> None:
    """Eight steps, so that RAdam takes both of its ways; from no state, and from that of two plain steps."""
    kind = {"adafactor": "Adafactor", "muon": "Muon"}.get(name)
    if kind and not hasattr(O, kind):
        pytest.skip(f"torch {torch.__version__} has no {kind}")
    replay.seed(0)
    document, step, found = replay.compare(Net(), batch(), loss, MAKE[name], steps=8, before=before)
    assert found == []
    updates = [
        op
        for op in document["ops"]
        if op["phase"] == "update"
        and not op["name"].startswith("group.")
        and op["type"] != "aten::_local_scalar_dense"
    ]
    assert {op["group"] for op in updates} <= {"conv", "norm", "head"}


def test_learning_rate_is_read_at_each_step() -> None:
    replay.seed(0)
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    mine, theirs = O.Adam(model.parameters()), O.Adam(other.parameters())
    data = batch()
    schedulers = [O.lr_scheduler.StepLR(o, step_size=1, gamma=0.5) for o in (mine, theirs)]
    _, step = trace_step(model, data, loss, mine)
    for _ in range(3):
        replay.plain_step(other, data, loss, theirs)
        replay.run(step, data)
        for scheduler in schedulers:
            scheduler.step()
    assert replay.differences(model, mine, other, theirs) == []


def test_groups_have_their_own_numbers() -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        weights, biases = [], []
        for p in parameters:
            (weights if p.dim() > 1 else biases).append(p)
        return O.AdamW(
            [{"params": weights, "weight_decay": 0.1}, {"params": biases, "lr": 0.01, "weight_decay": 0.0}],
            lr=0.001,
        )

    replay.seed(0)
    assert replay.compare(Net(), batch(), loss, make)[2] == []


def test_clipping_in_a_hook_of_the_optimizer_is_part_of_the_step() -> None:
    if not hasattr(O.Optimizer, "register_step_pre_hook"):
        pytest.skip(f"torch {torch.__version__} has no hooks of optimizers")

    def clip(optimizer: Any, *_: Any) -> None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 0.1)

    def make(parameters: Any) -> torch.optim.Optimizer:
        listed = list(parameters)
        made = O.SGD(listed, lr=0.1)
        made.register_step_pre_hook(clip)
        return made

    replay.seed(0)
    assert replay.compare(Net(), batch(), loss, make)[2] == []


def test_another_state_is_refused() -> None:
    """It is refused before anything is written."""
    model = Net()
    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9)
    _, step = trace_step(model, batch(), loss, optimizer)
    optimizer.param_groups[0]["momentum"] = 0.8
    with pytest.raises(EmplaceError) as error:
        step.arguments(batch())
    assert error.value.where == "optimizer group.0/momentum" and "0.8" in str(error.value)


def test_parameters_of_another_model_are_refused() -> None:
    model = Net()
    with pytest.raises(EmplaceError, match="not the model's"):
        trace_step(model, batch(), loss, O.SGD(Net().parameters(), lr=0.1))


def test_closures_are_refused() -> None:
    model = Net()
    with pytest.raises(EmplaceError):
        trace_step(model, batch(), loss, O.LBFGS(model.parameters()))
