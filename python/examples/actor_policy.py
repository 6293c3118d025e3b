"""A policy in PyTorch (or numpy, where torch is absent), trained on measurements of emplace's executors.

The run has `policy.method = "random"`: it needs no learner of its own, and its episodes end when they are on
disk. Its cluster file leaves the sampler to a node that joins:

    [[node]]
    name = "policy"
    roles = ["sampler"]
    start = "join"

    emplace up CLUSTER.toml --insecure --run-dir RUN                        in one terminal
    python examples/actor_policy.py tcp://127.0.0.1:5555 --insecure         in another one

The policy has one row of logits per scope of the graph. It samples placements, and moves its logits by
REINFORCE: towards placements that were faster than the mean of their episode. The log of the run is its
memory: when it is started again, it reads every episode once more and has the same logits as before.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

import emplace.actor as ea


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


class Policy(ea.Sampler):
    placements_per_episode = 8

    def __init__(self, use_torch: bool = True, rate: float = 0.8, seed: int = 1) -> None:
        self.torch: Any = import_torch() if use_torch else None
        self.rate, self.seed, self.updates = rate, seed, 0
        self.best = float("inf")
        self.costs: list[float] = []

    def prepare(self, run: ea.Run) -> None:
        scopes = [op.get("group") or op["name"] for op in run.graphs[0].ops]
        number = {scope: k for k, scope in enumerate(dict.fromkeys(scopes))}
        self.group_of_op = np.array([number[scope] for scope in scopes])[run.graphs[0].leaders]
        self.logits = np.zeros((len(number), len(run.devices)))
        if self.torch is not None:
            torch = self.torch
            self.tensor = torch.zeros(self.logits.shape, dtype=torch.float64, requires_grad=True)
            self.optimizer = torch.optim.SGD([self.tensor], lr=self.rate)

    def propose(self, episode: int) -> ea.Proposal:
        random = np.random.default_rng([self.seed, episode])
        totals = softmax(self.logits).cumsum(axis=1)
        drawn = random.random((self.placements_per_episode, len(totals), 1))
        choices = np.minimum((drawn > totals).sum(axis=2), totals.shape[1] - 1).astype(np.uint8)
        return ea.Proposal(choices[:, self.group_of_op], choices.tobytes(), self.updates)

    def committed(self, episode: ea.Episode, mine: bool) -> None:
        choices = np.frombuffer(episode.actions, np.uint8).reshape(-1, len(self.logits))
        costs = np.log(np.where(episode.valid, episode.step_time_s, 10 * episode.step_time_s.max() + 1e-9))
        fits = episode.step_time_s[episode.valid]
        self.best = min(self.best, float(fits.min(initial=np.inf)))
        self.costs.append(float(costs.mean()))
        advantages = -(costs - costs.mean()) / (costs.std() + 1e-9)
        self.updates += 1
        if self.torch is not None:
            self.learn_by_torch(choices, advantages)
            return
        gradient = np.zeros_like(self.logits)
        for choice, advantage in zip(choices, advantages, strict=True):
            gradient += advantage * (np.eye(self.logits.shape[1])[choice] - softmax(self.logits))
        self.logits += self.rate * gradient / len(choices)

    def learn_by_torch(self, choices: NDArray[np.uint8], advantages: NDArray[np.float64]) -> None:
        torch = self.torch
        logs = torch.log_softmax(self.tensor, dim=1)
        index = torch.as_tensor(choices.astype(np.int64))
        chosen = logs.gather(1, index.T).sum(dim=0)  # Log-probability of each placement.
        loss = -(torch.as_tensor(advantages) * chosen).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.logits = self.tensor.detach().numpy().copy()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="tcp://HOST:PORT, or the directory of a run on this machine")
    parser.add_argument("--key", help="your key file; it needs the role actor")
    parser.add_argument("--insecure", action="store_true", help="without encryption")
    parser.add_argument("--node", default="policy", help="node of the cluster file whose place this takes")
    parser.add_argument("--numpy", action="store_true", help="learn in numpy though torch is there")
    options = parser.parse_args()
    policy = Policy(use_torch=not options.numpy)
    try:
        reason = ea.join(
            options.address,
            lambda run: ea.samplers(run, policy),
            options.key,
            insecure=options.insecure,
            node=options.node,
        )
    except ea.EmplaceError as error:
        raise SystemExit(f"error: {error}") from None
    tenth = max(1, len(policy.costs) // 10)
    early, late = np.exp(np.mean(policy.costs[:tenth])), np.exp(np.mean(policy.costs[-tenth:]))
    print(
        f"left: {reason}; {policy.updates} updates; "
        f"mean step time {early:.6f} s at first, {late:.6f} s at last; "
        f"best {policy.best:.6f} s"
    )
