"""A placed step gives the bits of the plain one, moves what the simulator counts, and never half-changes a model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from emplace.applying import apply

sys.path.insert(0, str(Path(__file__).parent))
from handmade import mlp, random_placement  # noqa: E402
from simulated import evaluate, needs_program  # noqa: E402


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_random_placements_give_the_bits_of_the_plain_step(names: list[str]) -> None:
    for seed in range(20):
        made, plain = mlp(seed), mlp(seed)
        with apply(made.step, random_placement(made, names, seed), {name: "cpu" for name in names}, threads=1) as step:
            for turn in range(3):
                torch.manual_seed(seed * 10 + turn)
                expected = plain.plain(plain.state, plain.batch)
                torch.manual_seed(seed * 10 + turn)
                loss = step(made.batch)
                assert torch.equal(loss, expected)
                for name in made.state:
                    assert torch.equal(made.state[name], plain.state[name]), (seed, turn, name)


@needs_program
def test_moved_bytes_are_those_of_the_simulator() -> None:
    made = mlp()
    names = ["gpu:0", "gpu:1", "gpu:2"]
    for seed in range(25):
        placement = random_placement(made, names, seed)
        with apply(made.step, placement, {name: "cpu" for name in names}, threads=1) as step:
            assert step.moved_bytes == evaluate(made.document, placement)["bytes_moved"], seed
