"""The cheapest memory plan of a step on one device as an integer program, solved by HiGHS.

It has the rules of docs/reference/memory_plans.md and of the simulator for one device in issue order: kernels
run one after the other, and what runs again does so immediately before the first op of the backward pass that
needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import highspy


class Buffer:
    """An output of a kernel, under all names that views give it."""

    def __init__(self, size: int) -> None:
        self.bytes = size
        self.forward: list[int] = []  # Positions of the kernels of the forward pass that read it.
        self.backward: list[int] = []  # Positions of the others.


class Step:
    """A graph as kernels of the forward pass and kernels after it, each list in issue order."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.state = 0
        self.forward: list[dict[str, Any]] = []
        self.backward: list[dict[str, Any]] = []
        made: dict[tuple[int, int], Buffer | None] = {}
        self.made_by: list[list[Buffer]] = []  # [forward kernels]
        self.made_later: list[list[Buffer]] = []  # [backward kernels]
        self.reads: list[set[int]] = []  # [forward kernels] The forward kernels that it reads.
        owner: dict[int, int] = {}
        for op in document["ops"]:
            sizes = [each["shape"][0] for each in op["outputs"]]
            if "measured_us" not in op and not op["attrs"].get("view"):
                self.state += sum(sizes)
                made |= {(op["id"], k): None for k in range(len(sizes))}
                continue
            reads = [made[number, output] for number, output in op["inputs"]]
            if op["attrs"].get("view"):
                made[op["id"], 0] = reads[0]
                continue
            late = op["phase"] != "forward"
            kernels = self.backward if late else self.forward
            for each in reads:
                if each is not None:
                    readers = each.backward if late else each.forward
                    readers.append(len(kernels))
            # An update writes in place.
            buffers = [Buffer(size * (op["phase"] != "update")) for size in sizes]
            made |= {(op["id"], k): buffer for k, buffer in enumerate(buffers)}
            if late:
                self.made_later.append(buffers)
            else:
                owner |= {id(each): len(kernels) for each in buffers}
                self.reads.append({owner[id(each)] for each in reads if each is not None})
                self.made_by.append(buffers)
            kernels.append(op)

    def ns(self, f: int) -> int:
        return round(1000 * self.forward[f]["measured_us"]["gpu"])


class _Program:
    """An integer program. A form is {variable: factor}; -1 is the constant 1."""

    def __init__(self) -> None:
        self.highs = highspy.Highs()
        self.highs.silent()
        self.count = 0

    def variable(self, integer: bool = False) -> int:
        """A variable from 0 to 1."""
        self.highs.addCol(0, 0, 1, 0, [], [])
        if integer:
            self.highs.changeColIntegrality(self.count, highspy.HighsVarType.kInteger)
        self.count += 1
        return self.count - 1

    def at_most(self, form: dict[int, float], bound: float) -> None:
        """form <= bound."""
        bound -= form.get(-1, 0)
        columns = [each for each, factor in form.items() if each >= 0 and factor]
        factors = [form[each] for each in columns]
        self.highs.addRow(-highspy.kHighsInf, bound, len(columns), columns, factors)

    def solve(self, seconds: float) -> list[float] | None:
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 1e-4)
        self.highs.setOptionValue("mip_feasibility_tolerance", 1e-7)
        self.highs.setOptionValue("primal_feasibility_tolerance", 1e-8)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("time_limit", seconds)
        self.highs.run()
        status = self.highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS ends with {self.highs.modelStatusToString(status)}")
        return list(self.highs.getSolution().col_value)


def _plus(*forms: dict[int, float]) -> dict[int, float]:
    total: dict[int, float] = {}
    for form in forms:
        for variable, factor in form.items():
            total[variable] = total.get(variable, 0) + factor
    return total


def _minus(form: dict[int, float]) -> dict[int, float]:
    return {variable: -factor for variable, factor in form.items()}


ONE: dict[int, float] = {-1: 1.0}
#: Sizes are whole numbers of this unit [B], so that the rows of memory are exact.
UNIT = 1024


def best_plan(step: Step, memory: int, seconds: float = 300) -> tuple[int, list[str]] | None:
    """Least time [ns] of what runs again in `memory` [B], and its ops; None if no plan fits.

    Raises RuntimeError after `seconds`.
    """
    program = _Program()
    n, m = len(step.forward), len(step.backward)
    readers = [sorted(g for g in range(n) if f in step.reads[g]) for f in range(n)]
    first = [min((j for b in step.made_by[f] for j in b.backward), default=m) for f in range(n)]
    needed = [first[f] < m for f in range(n)]
    for f in reversed(range(n)):
        needed[f] = needed[f] or any(needed[g] for g in readers[f])
    chosen = [{program.variable(integer=True): 1.0} if needed[f] else {} for f in range(n)]
    # by[f][j]: f has run again before op j of the backward pass starts. Before op 0, at [-1], none has.
    by: list[list[dict[int, float]]] = [[] for _ in range(n)]
    for f in reversed(range(n)):
        for j in range(m):
            others = [by[g][j] for g in readers[f] if by[g][j]]
            if j >= first[f]:
                by[f].append(chosen[f])
            elif not chosen[f] or not others:
                by[f].append({})
            else:
                made = {program.variable(): 1.0}
                by[f].append(made)
                program.at_most(_plus(made, _minus(chosen[f])), 0)
                program.at_most(_plus(made, *map(_minus, others)), 0)
                for each in others:
                    program.at_most(_plus(chosen[f], each, _minus(made)), 1)
        by[f].append({})
        for variable in by[f][m - 1]:
            program.highs.changeColCost(variable, step.ns(f) / 1000)

    def full(alive: Iterable[dict[int, float]]) -> None:
        program.at_most(_plus(*alive), (memory - step.state) / UNIT)

    def at_least(*bounds: dict[int, float]) -> dict[int, float]:
        """A variable that is no less than any of the forms, or the constant 1."""
        if any(form == ONE for form in bounds):
            return ONE
        found = {program.variable(): 1.0}
        for form in bounds:
            program.at_most(_plus(form, _minus(found)), 0)
        return found

    def sized(buffer: Buffer, share: dict[int, float]) -> dict[int, float]:
        return {variable: factor * buffer.bytes / UNIT for variable, factor in share.items()}

    waits: dict[int, dict[int, float]] = {}
    for f in range(n):
        for buffer in step.made_by[f]:
            if buffer.backward:
                waits[id(buffer)] = _plus(ONE, _minus(chosen[f])) if chosen[f] else ONE
            elif any(by[g][m - 1] for g in buffer.forward):
                bounds = [_plus(by[g][m - 1], _minus(chosen[f])) for g in buffer.forward]
                waits[id(buffer)] = at_least(*bounds)
    for k in range(n):
        full(
            sized(b, ONE if f == k or max(b.forward, default=-1) >= k else waits.get(id(b), {}))
            for f in range(k + 1)
            for b in step.made_by[f]
        )
    for j in range(m):
        # Ops that may run again immediately before op j, then this op itself (n).
        for h in [h for h in range(n) if by[h][j] != by[h][j - 1]] + [n]:
            alive = []
            for f in range(n):
                made = by[f][j] if f <= h else by[f][j - 1]
                missing = _plus(_minus(chosen[f]), made)  # -1 before it runs again, else 0.
                missing = {variable: factor for variable, factor in missing.items() if factor}
                for b in step.made_by[f]:
                    bounds = [_plus(ONE, missing)] if max(b.backward, default=-1) >= j else []
                    for g in b.forward:
                        before = by[g][j - 1] if g >= h else by[g][j]
                        ahead = _plus(by[g][m - 1], _minus(before))
                        ahead = {variable: factor for variable, factor in ahead.items() if factor}
                        if ahead:
                            bounds.append(_plus(ahead, missing))
                    if f == h:
                        bounds.append(_plus(by[f][j], _minus(by[f][j - 1])))
                    if bounds:
                        alive.append(sized(b, at_least(*bounds)))
            for i in range(j + 1 if h == n else j):
                for b in step.made_later[i]:
                    if i == j or max(b.backward, default=-1) >= j:
                        alive.append(sized(b, ONE))
            full(alive)
    found = program.solve(seconds)
    if found is None:
        return None
    again = [f for f in range(n) if any(found[variable] > 0.5 for variable in by[f][m - 1])]
    names = [step.forward[f]["name"] for f in again]
    return sum(step.ns(f) for f in again), names
