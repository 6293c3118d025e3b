"""The user's model, optimizer and random generator are the same after a trace, also after one that fails."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from replay import trace_step
from torch import nn

from emplace.errors import EmplaceError


class Net(nn.Module):
    def __init__(self, fail: str = "") -> None:
        super().__init__()
        self.norm, self.recurrent, self.drop = nn.BatchNorm1d(4), nn.LSTM(4, 4), nn.Dropout(0.5)
        self.fail, self.log, self.cache = fail, [], None  # type: ignore[var-annotated]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.drop(self.recurrent(self.norm(x).unsqueeze(0))[0])
        self.log.append(y)
        self.cache = y
        self.extra = y
        if self.fail == "forward":
            raise ValueError("no")
        if self.fail == "backward":
            y.register_hook(lambda gradient: 1 // 0)
        if self.fail == "data" and y.sum() > 0:
            y = y + 1
        return y


class BadOptimizer(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        super().step()
        raise KeyboardInterrupt if self.param_groups[0]["lr"] == 2 else ValueError("bad step")


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    result: torch.Tensor = model(batch).square().mean()
    return result


def fingerprint(model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """Everything that a trace might change."""
    modules = []
    for module in model.modules():
        space = {
            key: (
                id(value),
                list(value.items())
                if isinstance(value, dict)
                else list(value)
                if isinstance(value, list)
                else None,
            )
            for key, value in vars(module).items()
        }
        modules.append(
            {
                key: (
                    identity,
                    [str(type(e)) + str(id(e[1] if isinstance(e, tuple) else e)) for e in contents or []],
                )
                for key, (identity, contents) in space.items()
            }
        )
    tensors = [
        (
            id(t),
            t.data_ptr(),
            t._version,
            t.detach().clone().tolist(),
            t.requires_grad,
            id(t.grad),
            None if t.grad is None else t.grad.tolist(),
        )
        for t in [*model.parameters(), *model.buffers()]
    ]
    state = [(id(p), {k: str(v) for k, v in s.items()}) for p, s in optimizer.state.items()]
    groups = [
        {key: str(value) for key, value in group.items() if key != "params"}
        | {"n": [id(p) for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    return (
        modules,
        tensors,
        state,
        groups,
        hooks,
        torch.random.get_rng_state().tolist(),
        torch.is_grad_enabled(),
        sorted(vars(optimizer)),
        [m.training for m in model.modules()],
        torch.get_rng_state is torch.random.get_rng_state,
    )


CASES = {
    "nothing": (Net, torch.optim.Adam),
    "forward": (lambda: Net("forward"), torch.optim.Adam),
    "backward": (lambda: Net("backward"), torch.optim.Adam),
    "data": (lambda: Net("data"), torch.optim.Adam),
    "step": (Net, BadOptimizer),
    "interrupt": (Net, BadOptimizer),
}


@pytest.mark.filterwarnings("ignore:flops of these ops")
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_objects_of_the_user_are_unchanged_after_a_trace(case: str, stateful: bool) -> None:
    torch.manual_seed(0)
    make, kind = CASES[case]
    model = make()
    optimizer = kind(model.parameters(), lr=2 if case == "interrupt" else 1)
    batch = torch.randn(3, 4)
    if stateful and case == "nothing":
        loss(model, batch).backward()
        optimizer.step()
    elif stateful:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    model.drop.eval()
    before = fingerprint(model, optimizer)
    if case == "nothing":
        trace_step(model, batch, loss, optimizer)
    else:
        with pytest.raises(KeyboardInterrupt if case == "interrupt" else EmplaceError):
            trace_step(model, batch, loss, optimizer)
    assert fingerprint(model, optimizer) == before
    from math import sqrt

    assert sqrt(4.0) == 2.0 and "min" not in vars(sys.modules["torch.optim.sgd"])
