"""Results of commands: frozen, with names for what one looks at first; ``to_dict()`` is the command's
JSON."""

from __future__ import annotations

import abc
import copy
from dataclasses import dataclass, field
from html import escape
from typing import Any

from emplace.program import Json
from emplace.tables import bytes_text, html_table, seconds_text, text_table

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Result:
    """What a command printed with --json."""

    _json: Json = field(repr=False)

    def to_dict(self) -> Json:
        """The JSON of the command (a copy)."""
        return copy.deepcopy(self._json)


@dataclass(frozen=True)
class Costs:
    """Where the times of a step's ops are from, and how far they can be trusted (docs/results/costs.md)."""

    version: int
    sources: dict[str, float]
    """Shares of the time in ops: measured, family, data-sheet, calibrated."""
    error: float
    """Mean error that such costs had on measurements that they were not fitted to, as a share of the step."""

    def of(self, seconds: float | None) -> str:
        """A time with its error: ``1.28 s ± 9 %``. Machines of version 1 were not measured."""
        text = seconds_text(seconds)
        return text if self.version == 1 or self.error < 0.005 else f"{text} ± {100 * self.error:.0f} %"


def costs_of(json: Json) -> Costs | None:
    """The costs in a result; None if it was measured on devices."""
    costs = json.get("costs")
    return None if costs is None else Costs(costs["version"], dict(costs["sources"]), costs["error"])


@dataclass(frozen=True)
class Strategy:
    """A step of several micro-batches (docs/reference/pipelines.md)."""

    micro_batches: int
    stages: int
    """Chunks of the forward pass, of which a device may have several."""
    schedule: str
    """1f1b or gpipe."""
    busy_share: float
    """Share of the step in which the devices in use compute."""
    samples_per_s: float | None
    """None if the batch is unknown: a traced one is if the tensors' first dimensions differ."""

    def __str__(self) -> str:
        stages = f"{self.stages} stage" + ("s" if self.stages > 1 else "")
        text = f"{self.micro_batches} micro-batches in {stages}, {self.schedule}"
        text += f"; devices are busy for {100 * self.busy_share:.0f} %"
        return text if self.samples_per_s is None else f"{text}, {self.samples_per_s:.4g} samples/s"


def strategy_of(json: Json) -> Strategy | None:
    """The strategy in a result; None for a step of one micro-batch."""
    found = json.get("strategy")
    if found is None:
        return None
    return Strategy(
        found["micro_batches"], found["stages"], found["schedule"], json["busy_share"], json["samples_per_s"]
    )


def add_samples(json: Json, batch: int | None) -> None:
    """States the samples per second of a result whose graph does not state its batch."""
    step_s = json.get("measured", json)["step_time_s"]
    if "strategy" in json and json["samples_per_s"] is None and batch is not None and step_s:
        json["samples_per_s"] = batch * json["strategy"]["micro_batches"] / step_s


class Table(abc.ABC):
    """What is shown as a table, and in a notebook as HTML."""

    @abc.abstractmethod
    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The head and the rows."""

    def _below(self) -> str:
        """A line below the table; empty: none."""
        return ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (text_table(*self._cells()), self._below())))

    def _repr_html_(self) -> str:
        below = self._below()
        return html_table(*self._cells()) + (f"<p>{escape(below)}</p>" if below else "")


@dataclass(frozen=True)
class Measurement(Result):
    """One placement, measured: ``emplace evaluate``."""

    devices: tuple[str, ...]

    @property
    def step_time(self) -> float | None:
        """Seconds of one step; None if it does not fit."""
        seconds: float | None = self._json["step_time_s"]
        return seconds

    @property
    def valid(self) -> bool:
        return bool(self._json["valid"])

    @property
    def reason(self) -> str:
        """Why it is not valid; empty if it is."""
        return str(self._json.get("reason", ""))

    @property
    def executor(self) -> str:
        return str(self._json["executor"])

    @property
    def costs(self) -> Costs | None:
        """The costs behind a simulated step; None for a measured one."""
        return costs_of(self._json)

    @property
    def strategy(self) -> Strategy | None:
        """What the step is besides one micro-batch."""
        return strategy_of(self._json)

    @property
    def samples(self) -> list[float]:
        """Seconds of every timed step."""
        return list(self._json["samples_s"])

    @property
    def peak(self) -> dict[str, int]:
        """Bytes of memory at the peak, per device."""
        return dict(zip(self.devices, self._json["peak_memory_bytes"]))

    @property
    def busy(self) -> dict[str, float]:
        """Seconds in which a device computes, per device."""
        return dict(zip(self.devices, self._json["busy_s"]))

    @property
    def moved_bytes(self) -> int:
        return int(self._json["bytes_moved"])

    def __str__(self) -> str:
        step = self.costs.of(self.step_time) if self.costs else seconds_text(self.step_time)
        head = f"{step} by {self.executor}" if self.valid else f"does not fit: {self.reason}"
        rows = [[name, bytes_text(self.peak[name]), seconds_text(self.busy.get(name))] for name in self.peak]
        if self.strategy is not None:
            head += f", {self.strategy}"
        return f"{head}, moved {bytes_text(self.moved_bytes)}\n" + text_table(
            ["device", "peak", "busy"], rows
        )


@dataclass(frozen=True)
class Comparison(Table, Result):
    """A row per method: ``emplace compare``."""

    @property
    def bound(self) -> float:
        """Seconds below which no placement can be."""
        return float(self._json["lower_bound_s"])

    @property
    def devices(self) -> list[str]:
        return list(self._json["devices"])

    @property
    def best(self) -> str:
        """The fastest method whose result fits and is a placement of this graph; empty if there is none."""
        rows = [
            row
            for row in self._json["methods"]
            if row["valid"] and row["step_time_s"] is not None and not row.get("transforms_graph")
        ]
        return str(min(rows, key=lambda row: float(row["step_time_s"]))["method"]) if rows else ""

    def columns(self) -> Columns:
        """A list per column, ready for ``pandas.DataFrame``."""
        rows = self._json["methods"]
        names = ["method", "valid", "step_time_s", "bytes_moved", "evaluations", "wall_s", "note"]
        columns: Columns = {name: [row.get(name) for row in rows] for name in names}
        costs = [costs_of(row) for row in rows]
        columns["error"] = [one.error if one else None for one in costs]
        columns["differs_from_best"] = [row.get("differs_from_best") for row in rows]
        columns["above_bound"] = [
            None if row.get("step_time_s") is None or self.bound <= 0 else row["step_time_s"] / self.bound - 1
            for row in rows
        ]
        for index, device in enumerate(self.devices):
            columns[f"peak_bytes {device}"] = [
                row["peak_memory_bytes"][index] if len(row.get("peak_memory_bytes") or []) > index else None
                for row in rows
            ]
        return columns

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        columns = self.columns()
        rows = [
            [
                str(method),
                (costs.of(step) if costs else seconds_text(step)) if valid else "does not fit",
                "" if above is None or not valid else f"{100 * above:+.1f} %",
            ]
            for method, valid, step, above, costs in zip(
                columns["method"],
                columns["valid"],
                columns["step_time_s"],
                columns["above_bound"],
                map(costs_of, self._json["methods"]),
            )
        ]
        return ["method", "step time", "above bound"], rows

    def _below(self) -> str:
        return f"bound {seconds_text(self.bound)}"


@dataclass(frozen=True)
class Explanation(Table, Result):
    """Where ops run, and what the step would take if they ran elsewhere: ``emplace explain``."""

    @property
    def items(self) -> list[Json]:
        """A dict per op or scope (docs/guide/explain.md)."""
        return list(self._json["items"])

    def columns(self) -> Columns:
        """A list per column, ready for ``pandas.DataFrame``."""
        items = self._json["items"]
        what = "op" if items and "op" in items[0] else "scope"
        columns: Columns = {what: [item[what] for item in items]}
        columns["on"] = [" ".join(item["on"]) for item in items]
        for name in ("ops", "time_s", "critical_s", "state_bytes", "output_bytes", "verdict"):
            columns[name] = [item[name] for item in items]
        for index, place in enumerate(items[0]["elsewhere"] if items else []):
            columns[f"change_s on {place['device']}"] = [
                item["elsewhere"][index]["change_s"] for item in items
            ]
        return columns

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                str(item.get("op", item.get("scope"))),
                " ".join(item["on"]),
                str(item["ops"]),
                seconds_text(item["time_s"]),
                seconds_text(item["critical_s"]) if item["critical"] else "-",
                item["verdict"],
            ]
            for item in self._json["items"]
        ]
        return ["what", "on", "ops", "time", "critical", "verdict"], rows

    def _below(self) -> str:
        more = self._json["not_shown"]
        return f"and {more} more (top=)" if more else ""
