"""A model as stages of a pipeline, by the times of a placement."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from emplace.errors import EmplaceError
from emplace.graph import Graph, Op
from emplace.patterns import modules_of
from emplace.program import Json
from emplace.schedule import Schedule

STATE = frozenset({"Parameter", "Buffer", "OptimizerState", "Input", "Constant"})


@dataclass(frozen=True)
class Stage:
    """Consecutive modules of the forward pass, with their backward pass and update."""

    index: int
    device: str
    """The device that most of its time is on in the placement."""
    starts_at: str
    """The module before which the model is cut, as PyTorch names it; empty for the first stage."""
    modules: tuple[str, ...]
    """The outermost modules that lie in it as a whole."""
    ops: tuple[str, ...]
    """Names of its ops of the forward pass."""
    time_s: float
    """Time of all its ops, each on its device in the placement."""
    state_bytes: int
    """Bytes that its parameters, buffers and optimizer state keep."""


@dataclass(frozen=True)
class Stages(Sequence[Stage]):
    """The stages in the order in which they run."""

    stages: tuple[Stage, ...]

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, index: Any) -> Any:
        return self.stages[index]

    @property
    def split_spec(self) -> dict[str, str]:
        """The argument for torch.distributed.pipelining: ``{module: SplitPoint[point] for module, point in
        spec.items()}``."""
        return {stage.starts_at: "BEGINNING" for stage in self.stages[1:]}


@dataclass(frozen=True)
class _Line:
    """The forward pass as a line: what may be cut, and what lies where."""

    ops: list[Op]
    cuts: dict[int, str]
    """Position → the outermost module that starts there."""
    spans: dict[str, tuple[int, int]]
    """Module → positions of its first and its last op."""


def stages_of(graph: Graph, placement: Json, schedule: Schedule, count: int | None) -> Stages:
    """Cuts the model of a placement into `count` stages, so that the slowest one takes least time.

    `placement` is its file (docs/reference/file_formats.md).
    """
    model = graph._model
    own = None if model is None else {name for name, _ in model.named_modules()}
    line = _line(graph.ops, own)
    devices = placement["ops"]
    used = len({devices[op.name] for op in line.ops}) or 1
    wanted = min(used, len(line.cuts) + 1) if count is None else count
    if wanted < 1:
        raise EmplaceError(f"stages({count})", "is not a number of stages", "give 1 or more")
    if wanted > len(line.cuts) + 1:
        raise EmplaceError(
            f"stages({count})",
            f"{graph.name} can be cut before {len(line.cuts)} modules, so into "
            f"{len(line.cuts) + 1} stages at most",
            "ask for fewer stages, or name ops by their modules",
        )
    at = _positions(graph.ops, line)
    times = {each.op: each.time_s for each in schedule.slices if each.op is not None}
    load = [0.0] * len(line.ops)
    for op in graph.ops:
        if line.ops:
            load[at[op.id]] += times.get(op.id, 0.0)
    places = [0, *sorted(line.cuts), len(line.ops)]
    bounds = [places[index] for index in _cut(load, places, wanted)]
    stages = [
        _stage(graph, placement, line, at, times, index, begin, end)
        for index, (begin, end) in enumerate(zip(bounds, bounds[1:]))
    ]
    return Stages(tuple(stages))


def _line(ops: Sequence[Op], own: set[str] | None) -> _Line:
    """`own` are the modules of the model, if they are known: a traced step has other scopes, too."""
    forward = [op for op in ops if op.phase == "forward" and op.type not in STATE]
    spans: dict[str, tuple[int, int]] = {}
    runs: dict[str, int] = {}
    for position, op in enumerate(forward):
        for module in modules_of(op.scope):
            if own is not None and module not in own:
                continue
            first, last = spans.get(module, (position, position - 1))
            runs[module] = runs.get(module, 0) + (1 if last != position - 1 or module not in spans else 0)
            spans[module] = (first, position)
    cuts: dict[int, str] = {}
    for module, (first, _) in spans.items():
        # A module that runs more than once starts no stage.
        if first > 0 and runs[module] == 1 and (first not in cuts or len(module) < len(cuts[first])):
            cuts[first] = module
    return _Line(forward, cuts, spans)


def _positions(ops: Sequence[Op], line: _Line) -> list[int]:
    """The position in the line that each op belongs to: its own, that of its module, or that of what it
    reads."""
    at = [-1] * len(ops)
    for position, op in enumerate(line.ops):
        at[op.id] = position
    readers: dict[int, int] = {}
    for op in line.ops:
        for producer, _ in op.inputs:
            readers.setdefault(producer, at[op.id])
    for op in ops:
        if at[op.id] >= 0:
            continue
        module = next((path for path in reversed(modules_of(op.scope)) if path in line.spans), None)
        if op.id in readers:
            at[op.id] = readers[op.id]
        elif op.colocate is not None and at[op.colocate] >= 0:
            at[op.id] = at[op.colocate]
        elif module is not None:
            at[op.id] = line.spans[module][0]
        else:
            at[op.id] = max((at[producer] for producer, _ in op.inputs), default=0)
        at[op.id] = max(at[op.id], 0)
    return at


def _cut(load: Sequence[float], places: Sequence[int], count: int) -> list[int]:
    """Indices into `places` that divide the loads between them into `count` parts, the largest as small as
    can be.

    >>> _cut([1, 1, 1, 3], [0, 1, 2, 3, 4], 2)
    [0, 3, 4]
    """
    before = [0.0, *accumulate(load)]
    upto = [before[place] for place in places]
    last = len(places) - 1
    # best[j]: the largest part when the first j places are divided into the parts so far.
    best = [0.0, *upto[1:]]
    choices: list[list[int]] = []
    for part in range(2, count + 1):
        row, chosen = [float("inf")] * (last + 1), [0] * (last + 1)
        for end in range(part, last + 1):
            # best grows with its argument and the last part shrinks: the optimum is where they cross.
            crossing = (
                bisect_left(range(part - 1, end), True, key=lambda i: best[i] >= upto[end] - upto[i])
                + part
                - 1
            )
            for begin in (crossing - 1, crossing):
                if part - 1 <= begin < end and max(best[begin], upto[end] - upto[begin]) < row[end]:
                    row[end], chosen[end] = max(best[begin], upto[end] - upto[begin]), begin
        best = row
        choices.append(chosen)
    bounds = [last]
    for chosen in reversed(choices):
        bounds.append(chosen[bounds[-1]])
    return [*([0] if bounds[-1] != 0 else []), *reversed(bounds)]


def _stage(
    graph: Graph,
    placement: Json,
    line: _Line,
    at: Sequence[int],
    times: dict[int, float],
    index: int,
    begin: int,
    end: int,
) -> Stage:
    devices = placement["ops"]
    inside = [op for op in graph.ops if begin <= at[op.id] < end]
    time_on: dict[str, float] = {}
    for op in inside:
        time_on[devices[op.name]] = time_on.get(devices[op.name], 0.0) + times.get(op.id, 0.0)
    whole = {module for module, (first, last) in line.spans.items() if begin <= first and last < end}
    outermost = tuple(
        module for module in line.spans if module in whole and module.rpartition(".")[0] not in whole
    )
    return Stage(
        index=index,
        device=max(time_on, key=lambda name: time_on[name]) if time_on else placement["devices"][0],
        starts_at=line.cuts[begin] if index > 0 else "",
        modules=outermost,
        ops=tuple(op.name for op in line.ops[begin:end]),
        time_s=sum(times.get(op.id, 0.0) for op in inside),
        state_bytes=sum(op.param_bytes for op in inside),
    )
