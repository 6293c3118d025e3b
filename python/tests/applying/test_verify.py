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
    original = verifying._Run.__init__

    def disturbed(self: Any, lowered: Any, placement: Any, names: list[str], *rest: Any) -> None:
        original(self, lowered, placement, names, *rest)
        if names == ["one device"]:
            return
        entry = next(e for e in self._bound.bound if e.task.op.startswith("tanh"))
        inner = entry.call
        watched = inner.__closure__
        assert watched is not None

        def call(values: Any) -> Any:
            look, self._look = self._look, lambda key, tensor: None
            result = inner(values)
            self._look = look
            result = torch.nextafter(result, torch.tensor(9.0))
            look((entry.task.node.name, None), result)
            return result

        entry.call = call

    monkeypatch.setattr(verifying._Run, "__init__", disturbed)
    found = verify(SimpleNamespace(step=made.step), random_placement(made, ["a"], 0), made.batch)
    assert not found and found.first_difference is not None and found.first_difference.startswith("tanh")
    assert found.differences[0].max_ulp == 1 and found.differences[0].elements == 8 * 16
    assert any(d.op != found.first_difference for d in found.differences), "new values of state differ too"
    assert "at most 1 ulp" in str(found)


def test_what_cannot_be_verified_is_refused() -> None:
    made = mlp()
    with pytest.raises(EmplaceError, match="traced"):
        verify(SimpleNamespace(step=None), {})
    with pytest.raises(EmplaceError, match="another graph"):
        verify(SimpleNamespace(step=made.step, sha256="a"), SimpleNamespace(graph_sha256="b"))
