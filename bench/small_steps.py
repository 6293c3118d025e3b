"""Small random training steps whose best memory plans can be computed: the generator `small-steps`.

A step has a forward pass of one of four forms (KINDS), its derived backward pass, and in half of the steps an
update. All of it follows from the seed and the limits. Kernels have their times in the graph (`measured_us`),
and sizes are whole KiB.
"""

from __future__ import annotations

import random
from typing import Any

KINDS = ("chain", "residual", "branches", "random")
KIB = 1024


class _Step:
    """Adds ops; a tensor is (op, output)."""

    def __init__(self, draw: random.Random, kind: str) -> None:
        self.draw, self.kind = draw, kind
        self.ops: list[dict[str, Any]] = []
        self.kernels = 0
        self.phase = "forward"
        self.weights: list[tuple[int, int]] = []
        #: What each kernel of the forward pass does: (op, kind of op, inputs, weight).
        self.made: list[tuple[int, str, list[int], int]] = []
        # Layers of most networks are alike; in every second step all sizes and times differ.
        self.alike = draw.random() < 0.5
        self.bytes = {op: self.size() for op in ("product", "point", "norm", "join")}
        self.times = {op: self.time(op) for op in self.bytes}

    def size(self) -> int:
        return KIB * round(2 ** self.draw.uniform(4, 10))

    def time(self, op: str) -> float:
        low, high = {"product": (20, 200), "point": (1, 10), "norm": (2, 20), "join": (2, 10)}[op]
        return round(low * (high / low) ** self.draw.random(), 2)

    def add(
        self, name: str, op: str, inputs: list[tuple[int, int]], sizes: list[int], us: float = 0, **more: Any
    ) -> int:
        number = len(self.ops)
        self.ops.append(
            {
                "id": number,
                "name": name,
                "type": op,
                "inputs": [list(each) for each in inputs],
                "outputs": [{"dtype": "u8", "shape": [size]} for size in sizes],
                "attrs": {},
                "flops": 0,
                "param_bytes": sizes[0] if op == "Parameter" else 0,
                "group": "",
                "phase": self.phase,
                **more,
            }
        )
        if us:
            self.ops[-1]["measured_us"] = {"gpu": us}
            self.kernels += 1
        return number

    def bytes_of(self, number: int, output: int = 0) -> int:
        return self.ops[number]["outputs"][output]["shape"][0]

    def forward(self, op: str, inputs: list[int]) -> int:
        """A kernel of the forward pass; sometimes with a view of its output, which is what others read."""
        k = len(self.made)
        size = self.bytes[op] if self.alike else self.size()
        us = self.times[op] if self.alike else self.time(op)
        reads, sizes, weight = [(each, 0) for each in inputs], [size], -1
        if op == "product":
            weight = self.weights.pop()[0]
            reads.append((weight, 0))
        if op == "norm":
            sizes.append(KIB * max(1, size // KIB // 32))  # Statistics.
        number = self.add(f"{op}{k}", op, reads, sizes, us)
        self.made.append((number, op, inputs, weight))
        if self.draw.random() < 0.15:
            number = self.add(f"view{k}", "view", [(number, 0)], [size], attrs={"view": True})
        return number

    def drawn(self) -> str:
        return self.draw.choice(("product", "point", "point", "norm"))

    def layers(self, count: int) -> None:
        """About `count` kernels of the form of the step."""
        x = 0
        ends: list[int] = []
        while len(self.made) < count:
            if self.kind == "random":
                known = ends[-4:] or [0]
                inputs = self.draw.sample(known, min(len(known), self.draw.choice((1, 1, 2))))
                ends.append(self.forward("join" if len(inputs) > 1 else self.drawn(), inputs))
                continue
            ways = {"chain": 1, "residual": 2, "branches": self.draw.choice((1, 2, 3))}[self.kind]
            before, parts = x, []
            for way in range(ways):
                y = before
                for _ in range(0 if self.kind == "residual" and way == 1 else self.draw.choice((1, 2, 3))):
                    y = self.forward(self.drawn(), [y])
                parts.append(y)
            x = parts[0] if ways == 1 else self.forward("join", parts)
        read = {each for _, _, inputs, _ in self.made for each in inputs}
        last = [each for each in ends if each not in read] or [x]
        self.add("loss", "loss", [(each, 0) for each in last], [KIB], 2.0)
        self.made.append((len(self.ops) - 1, "loss", last, -1))

    def backward(self) -> None:
        self.phase = "backward"
        gradients: dict[int, list[tuple[int, int]]] = {}
        updates = []
        for number, op, inputs, weight in reversed(self.made):
            view = next(
                (o["id"] for o in self.ops if o["type"] == "view" and o["inputs"][0][0] == number), -1
            )
            parts = gradients.get(number, [])
            if view in gradients:
                arrived = self.summed(view, gradients[view])
                name, size = self.ops[view]["name"] + "/grad", self.bytes_of(*arrived)
                parts = [(self.add(name, "view", [arrived], [size], attrs={"view": True}), 0), *parts]
            gradient = [self.summed(number, parts)] if parts else []
            if op == "join":  # The gradient of a sum is that of each of its inputs.
                for each in inputs:
                    if each:
                        gradients.setdefault(each, []).append(gradient[0])
                continue
            reads = [*gradient]
            if op in ("product", "norm", "loss"):
                reads += [(each, 0) for each in inputs]
            if op == "point":  # Some are derived from what they made, others from what they read.
                reads.append((number, 0) if self.draw.random() < 0.6 else (inputs[0], 0))
            if op == "norm":
                reads.append((number, 1))
            if weight >= 0:
                reads.append((weight, 0))
            wanted = [each for each in inputs if each]
            sizes = [self.bytes_of(each) for each in wanted]
            if weight >= 0:
                sizes.append(self.bytes_of(weight))
            us = self.ops[number]["measured_us"]["gpu"]
            us = round(us * (2 if op == "product" else 1.5), 2)
            made = self.add(f"{self.ops[number]['name']}/grad", op, reads, sizes or [KIB], us)
            for k, each in enumerate(wanted):
                gradients.setdefault(each, []).append((made, k))
            if weight >= 0:
                updates.append((weight, made, len(sizes) - 1))
        if self.draw.random() < 0.5:
            self.phase = "update"
            for weight, made, output in updates:
                size = self.bytes_of(weight)
                name = self.ops[weight]["name"] + "/update"
                self.add(name, "update", [(weight, 0), (made, output)], [size], 1.0, colocate=weight)

    def summed(self, number: int, parts: list[tuple[int, int]]) -> tuple[int, int]:
        """The gradient of a tensor, the sum of those of its readers."""
        total = parts[0]
        for k, each in enumerate(parts[1:]):
            name = f"{self.ops[number]['name']}/sum{k}"
            total = (self.add(name, "sum", [total, each], [self.bytes_of(number)], self.times["join"]), 0)
        return total


def _attempt(draw: random.Random, kind: str, forward: int) -> _Step:
    step = _Step(draw, kind)
    step.add("input", "Input", [], [step.size()])
    for k in range(forward + 6):
        size = KIB * round(2 ** draw.uniform(2, 7))
        step.weights.append((step.add(f"w{k}", "Parameter", [], [size]), 0))
    step.layers(forward)
    step.backward()
    return step


def small_step(seed: int, least: int, most: int) -> dict[str, Any]:
    """The step of a seed as a document of emplace-graph v1, with `least` to `most` kernels."""
    draw = random.Random(f"small-steps {seed} {least} {most}")
    kind = KINDS[seed % len(KINDS)]
    wanted = draw.randint(least, most)
    while True:
        step = _attempt(draw, kind, max(2, wanted * 9 // 20))
        if least <= step.kernels <= most:
            break
    return {
        "format": "emplace-graph v1",
        "name": f"small-steps-{seed}",
        "source": "bench/small_steps.py",
        "meta": {"kind": "training", "generator": "small-steps", "seed": seed, "form": kind},
        "ops": _without_unread_state(step.ops),
    }


def _without_unread_state(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    read = {each for op in ops for each, _ in op["inputs"]}
    kept = [op for op in ops if op["id"] in read or op["type"] != "Parameter"]
    number = {op["id"]: k for k, op in enumerate(kept)}
    for op in kept:
        op["id"] = number[op["id"]]
        op["inputs"] = [[number[each], output] for each, output in op["inputs"]]
        if "colocate" in op:
            op["colocate"] = number[op["colocate"]]
    return kept
