"""`verify` reports whether bits are equal, and the first op that differs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from emplace import EmplaceError
from emplace.applying import verify, verifying
from emplace.applying.plan import StepPlan
from emplace.applying.step import BoundPlan

sys.path.insert(0, str(Path(__file__).parent))
from handmade import mlp, random_placement  # noqa: E402


def test_random_placements_are_identical_and_state_is_left_alone() -> None:
    made = mlp()
    before = {name: tensor.clone() for name, tensor in made.state.items()}
    draws = torch.get_rng_state()
    for seed in range(5):
        found = verify(
            SimpleNamespace(step=made.step), random_placement(made, ["a", "b", "c"], seed), made.batch
        )
        assert found and found.identical and found.first_difference is None and found.compared > 40
    assert verify(SimpleNamespace(step=made.step), random_placement(made, ["a", "b"], 0))
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.state.items())
    assert torch.equal(torch.get_rng_state(), draws)


def test_the_first_op_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = mlp()

    class Disturbed(BoundPlan):
        """The placed step; its tanh is one unit of the last place off."""

        def __init__(self, plan: StepPlan, *rest: Any) -> None:
            super().__init__(plan, *rest)
            if plan.devices != ["one device"]:
                entry = next(e for e in self.bound if e.task.op.startswith("tanh"))
                inner: Any = entry.call
                entry.call = lambda values: torch.nextafter(inner(values), torch.tensor(9.0))

    monkeypatch.setattr(verifying, "BoundPlan", Disturbed)
    found = verify(SimpleNamespace(step=made.step), random_placement(made, ["a"], 0), made.batch)
    assert not found and found.first_difference is not None and found.first_difference.startswith("tanh")
    assert str(found).startswith("differs from op 'tanh")


def test_what_cannot_be_verified_is_refused() -> None:
    made = mlp()
    with pytest.raises(EmplaceError, match="traced"):
        verify(SimpleNamespace(step=None), {})
    with pytest.raises(EmplaceError, match="another graph"):
        verify(SimpleNamespace(step=made.step, sha256="a"), SimpleNamespace(graph_sha256="b"))
