"""The step of a program that runs modules again as wholes, in the simulator.

A plan runs an op again when its first reader needs it. PyTorch's checkpoints run all ops of a module again
before the first of these readers, so their outputs are in memory together. Here the graph of a plan is
changed to this, and measured as an ordinary graph.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from emplace.graph import Graph
from emplace.program import Json, run_command
from emplace.scratch import Scratch

if TYPE_CHECKING:
    from emplace.placement import Placement

_WAIT, _FETCH = "emplace::wait", "emplace::fetch"
_PLAN = ("recompute", "move", "order")


def with_plan(placement: Placement, recompute: Sequence[str], move: Sequence[Json]) -> Placement:
    """The placement with another memory plan, simulated."""
    document = {name: value for name, value in placement.document.items() if name not in _PLAN}
    document |= {"version": 1}
    if recompute or move:
        document |= {"version": 2, "recompute": list(recompute), "move": list(move)}
    planned = replace(placement, document=document, _json=placement.to_dict(), _scratch=Scratch())
    planned._json["measured"] = _measured(planned)
    return planned


def _measured(placement: Placement) -> Json:
    arguments, shown = placement._about(placement_first=False)
    judged, more = placement.settings.arguments(placement._scratch.folder, objective=False)
    # What does not fit has a peak, too.
    return run_command("evaluate", [*arguments, *judged], shown=shown | more, accept=(0, 3)).result


def at_once(planned: Placement, regions: Sequence[Set[str]]) -> Json:
    """The measurement of a plan if all that runs again of a region (names of ops) does so at once."""
    if planned.memory_plan is None:
        return dict(planned.to_dict()["measured"])
    ops = _at_once(planned._planned_ops(), {op: k for k, names in enumerate(regions) for op in names})
    devices = planned.ops_by_device()
    for op in ops:
        if op["name"] not in devices:
            base = str(op["name"]).rpartition("@")[0]
            devices[op["name"]] = op["devices"][0] if op["type"] == _FETCH else devices[base]
    graph = Graph._from_dict({**planned.graph.document, "ops": ops})
    document = {name: value for name, value in planned.document.items() if name not in _PLAN}
    document |= {"version": 1, "ops": devices, "graph": graph.name, "graph_sha256": graph.sha256}
    return _measured(replace(planned, graph=graph, document=document, _scratch=Scratch()))


def _at_once(ops: Sequence[Json], region_of: dict[str, int]) -> list[Json]:
    """The ops of a plan's graph, those of each region where the first of them is, after its signal."""
    by_id = {op["id"]: op for op in ops}
    order = {op["name"]: position for position, op in enumerate(ops)}
    added: dict[int, list[Json]] = {}
    for op in ops:
        base, _, kind = str(op["name"]).rpartition("@")
        if kind in ("again", "wait") and base in region_of:
            added.setdefault(region_of[base], []).append(op)
    first = {group[0]["id"]: group for group in added.values()}
    made: dict[int, Json] = {}

    def emit(op: Json, signal: Sequence[int] | None = None) -> None:
        if op["id"] not in made:
            waits = signal is not None and op["type"] in (_WAIT, _FETCH)
            made[op["id"]] = {**op, "inputs": [op["inputs"][0], signal] if waits else op["inputs"]}

    for op in ops:
        if group := first.get(op["id"]):
            read = [each if each["type"] == _WAIT else by_id[p] for each in group for p, _ in each["inputs"]]
            signal = next((each["inputs"][1] for each in read if each["type"] in (_WAIT, _FETCH)), None)
            for each in sorted(
                group, key=lambda e: (order[e["name"].rpartition("@")[0]], e["type"] != _WAIT)
            ):
                for producer, _ in each["inputs"]:
                    if by_id[producer]["type"] == _FETCH:
                        emit(by_id[producer], signal)
                emit(each, signal)
        emit(op)
    ids = {before: now for now, before in enumerate(made)}
    for now, op in enumerate(made.values()):
        op["id"], op["inputs"] = now, [[ids[producer], output] for producer, output in op["inputs"]]
        if op.get("colocate") is not None:
            op["colocate"] = ids[op["colocate"]]
    return list(made.values())
