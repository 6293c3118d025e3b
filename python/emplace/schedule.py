"""The simulated step of a placement: when each op and each copy runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Slice:
    """One op or one copy."""

    device: str
    """The device that it runs on; for a copy, the device that it comes from."""
    name: str
    op: int | None
    """The id of the op of the graph that it is, or belongs to (a micro-batch's, one that runs again); None
    for a copy."""
    scope: str
    start_s: float
    time_s: float
    bytes: int = 0
    to: str = ""
    """The device that a copy goes to; None for an op."""


@dataclass(frozen=True)
class Schedule:
    """All slices of one step, by their start."""

    slices: tuple[Slice, ...]

    @property
    def end_s(self) -> float:
        return max((each.start_s + each.time_s for each in self.slices), default=0.0)

    @staticmethod
    def read(path: Path, ids: Mapping[str, int]) -> Schedule:
        """Reads a trace of ``emplace evaluate --trace`` (docs/guide/tracing.md). ``ids`` are those of the
        graph's ops; the trace of a plan or of micro-batches has those of a larger graph."""
        with open(path, encoding="utf-8") as file:
            events: list[dict[str, Any]] = json.load(file)["traceEvents"]
        devices = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        slices = []
        for event in events:
            if event["ph"] != "X":
                continue
            facts = event.get("args", {})
            slices.append(
                Slice(
                    device=devices[event["pid"]],
                    name=event["name"],
                    op=_op(event["name"], ids) if "op" in facts else None,
                    scope=facts.get("scope", ""),
                    start_s=event["ts"] * 1e-6,
                    time_s=event["dur"] * 1e-6,
                    bytes=facts.get("bytes", 0),
                    to=facts.get("to", ""),
                )
            )
        return Schedule(tuple(slices))


def _op(name: str, ids: Mapping[str, int]) -> int:
    """The op that a slice belongs to: what is added to the graph has its name with an end of its own.

    >>> _op("fc@again@3", {"fc": 7})
    7
    """
    while name not in ids and "@" in name:
        name = name.rpartition("@")[0]
    return ids.get(name, -1)
