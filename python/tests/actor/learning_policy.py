"""A sampler and a learner for tests, in one process: logits of one row per op, moved by REINFORCE with
momentum.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import emplace.actor as ea


class Policy(ea.Sampler, ea.Learner):
    placements_per_episode = 4

    def prepare(self, run: ea.Run) -> None:
        self.leaders = run.graphs[0].leaders
        self.state = np.zeros((2, run.graphs[0].num_ops, len(run.devices)))  # Logits, momentum.
        self.updates = 0

    def probabilities(self) -> NDArray[np.float64]:
        powers = np.exp(self.state[0])
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def propose(self, episode: int) -> ea.Proposal:
        totals = self.probabilities().cumsum(axis=1)
        drawn = np.random.default_rng(episode).random((4, len(totals), 1))
        choices = np.minimum((drawn > totals).sum(axis=2), totals.shape[1] - 1).astype(np.uint8)[
            :, self.leaders
        ]
        return ea.Proposal(choices, version=self.updates)

    def update(self, batch: Sequence[ea.Scored]) -> ea.UpdateMade:
        gradient = np.zeros_like(self.state[0])
        for scored in batch:
            choices = np.frombuffer(scored.actions, np.uint8).reshape(4, -1)
            for choice, advantage in zip(choices, scored.advantages, strict=True):
                gradient -= advantage * (np.eye(gradient.shape[1])[choice] - self.probabilities())
        momentum = 0.5 * self.state[1] + gradient
        self.state = np.stack([self.state[0] + 0.05 * momentum, momentum])
        self.updates += 1
        return ea.UpdateMade(gradient_norm=float(np.linalg.norm(gradient)), learning_rate=0.05)

    def parameters(self) -> bytes:
        return bytes(self.state[0].tobytes())

    def optimizer(self) -> bytes:
        return bytes(self.state[1].tobytes()) + self.updates.to_bytes(8, "little")

    def load(self, parameters: bytes, optimizer: bytes) -> None:
        momentum, updates = optimizer[:-8], optimizer[-8:]
        rows = [np.frombuffer(data).reshape(self.state[0].shape) for data in (parameters, momentum)]
        self.state, self.updates = np.stack(rows), int.from_bytes(updates, "little")


if __name__ == "__main__":

    def make(run: ea.Run) -> dict[str, ea.Actor]:
        policy = Policy()
        policy.prepare(run)
        policy.prepare = lambda run: None  # type: ignore[method-assign]  # Once, for both actors.
        return ea.samplers(run, policy) | ea.learners(run, policy)

    try:
        print(ea.join(sys.argv[1], make, insecure=True, node="policy"))
    except ea.EmplaceError as error:
        raise SystemExit(f"error: {error}") from None
