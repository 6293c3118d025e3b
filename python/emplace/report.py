"""The page about a placement. It needs no network and no script: the schedule is drawn as SVG."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from emplace.graph import Graph
from emplace.machines import Machine
from emplace.results import Explanation
from emplace.schedule import Schedule, Slice
from emplace.scratch import write
from emplace.tables import bytes_text, html_table, seconds_text

_WIDTH, _NAME, _LANE, _GAP = 1000.0, 90.0, 18.0, 6.0
# Slices narrower than this are drawn as one block with their neighbours.
_NARROW = 1.0
# Colours of Okabe and Ito; the label of a lane and the tooltips repeat what they mean.
_COLOURS = {"forward": "#0072B2", "backward": "#D55E00", "update": "#009E73", "copy": "#E69F00"}
_STYLE = """
.emplace{font:14px/1.4 system-ui,sans-serif;max-width:1020px}
.emplace table{border-collapse:collapse;margin:8px 0}
.emplace td,.emplace th{padding:2px 10px;text-align:right;border-bottom:1px solid #8884}
.emplace td:first-child,.emplace th:first-child{text-align:left}
.emplace svg{width:100%;height:auto}.emplace svg text{font:11px system-ui,sans-serif;fill:currentColor}
"""


@dataclass(frozen=True)
class Facts:
    """What the page states about a placement."""

    graph: Graph
    machine: Machine | None
    """None: the graph file contains its machine."""
    method: str
    step_time_s: float
    step_text: str
    """The step time with the error of its costs."""
    bound_s: float
    """Seconds that no placement of this graph on this machine can be below."""
    moved_bytes: int
    busy_s: Mapping[str, float]
    """By device."""
    rows: Sequence[Sequence[str]]
    """Name, number of ops, peak and busy time of each device, as text, in the order of the lanes."""
    assumed: Sequence[str]
    explanation: Explanation
    schedule: Schedule


@dataclass(frozen=True)
class Report:
    """The page of :meth:`emplace.Placement.report`. In a notebook it is drawn under the cell."""

    title: str
    body: str

    @property
    def html(self) -> str:
        """The whole page."""
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"></head>'
            f"<body>{self._repr_html_()}</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page."""
        write(path, self.html)

    def _repr_html_(self) -> str:
        return f'<div class="emplace"><style>{_STYLE}</style>{self.body}</div>'

    def __repr__(self) -> str:
        return f"<emplace.Report {self.title!r}: save(path) writes the page>"


def report_of(facts: Facts) -> Report:
    """Makes the page."""
    machine = Path(facts.machine.text).name if facts.machine else "its machine"
    title = f"{facts.graph.name} on {machine}"
    critical = facts.explanation.to_dict()["critical_path"]
    step, bound = facts.step_text, seconds_text(facts.bound_s)
    moved = bytes_text(facts.moved_bytes)
    ops, copies = seconds_text(critical["ops_s"]), seconds_text(critical["transfers_s"])
    parts = [
        f"<h2>{escape(title)}</h2>",
        f"<p><b>{step}</b> per step, by {escape(facts.method)}; no placement takes less than {bound}. ",
        f"{moved} move between devices.</p>",
        schedule_svg(facts),
        _memory(facts),
        f"<h3>What limits the step</h3><p>On the critical chain {ops} are ops and {copies} are copies.</p>",
        facts.explanation._repr_html_(),
        "".join(f"<p>{escape(note)}</p>" for note in facts.assumed),
    ]
    return Report(title, "".join(parts))


def _memory(facts: Facts) -> str:
    capacity = {device.name: device.memory_bytes for device in facts.machine or ()}
    rows = [
        [
            name,
            count,
            peak,
            bytes_text(capacity[name]) if name in capacity else "",
            busy,
            f"{100 * facts.busy_s.get(name, 0) / facts.step_time_s:.0f} %" if facts.step_time_s else "",
        ]
        for name, count, peak, busy in facts.rows
    ]
    return "<h3>Devices</h3>" + html_table(["device", "ops", "peak", "memory", "busy", "of the step"], rows)


def schedule_svg(facts: Facts) -> str:
    """The schedule: a lane per device for ops, and one for its copies if there are any."""
    phase = {op.id: op.phase for op in facts.graph.ops}
    end_s = facts.schedule.end_s
    lanes: list[tuple[str, list[Slice]]] = []
    for device, *_ in facts.rows:
        own = [each for each in facts.schedule.slices if each.device == device]
        lanes.append((device, [each for each in own if each.op is not None]))
        copies = [each for each in own if each.op is None]
        if copies:
            lanes.append(("copies", copies))
    scale = (_WIDTH - _NAME) / end_s if end_s > 0 else 0.0
    height = len(lanes) * (_LANE + _GAP) + 20
    drawn = []
    for row, (label, slices) in enumerate(lanes):
        top = row * (_LANE + _GAP)
        drawn.append(f'<text x="0" y="{top + 13:g}">{escape(label)}</text>')
        drawn.extend(_blocks(slices, phase, scale, top))
    axis = height - 6
    drawn += [
        f'<text x="{_NAME:g}" y="{axis:g}">0</text>',
        f'<text x="{_WIDTH:g}" y="{axis:g}" text-anchor="end">{seconds_text(end_s)}</text>',
    ]
    legend = " ".join(
        f'<span style="color:{colour}">&#9632;</span> {name}' for name, colour in _COLOURS.items()
    )
    label = f"Schedule of one step of {seconds_text(end_s)} on {len(facts.rows)} devices"
    size = f'viewBox="0 0 {_WIDTH:g} {height:g}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(drawn)}</svg><p>{legend}</p>'


def _blocks(slices: Sequence[Slice], phase: dict[int, str], scale: float, top: float) -> Iterable[str]:
    """Rectangles; runs of narrow slices of one colour without a visible gap are one rectangle."""
    run: list[Slice] = []
    kind = ""
    for each in sorted(slices, key=lambda one: one.start_s):
        own = "copy" if each.op is None else phase.get(each.op, "forward")
        joins = (
            run
            and own == kind
            and each.time_s * scale < _NARROW
            and (each.start_s - (run[-1].start_s + run[-1].time_s)) * scale < _NARROW
            and run[-1].time_s * scale < _NARROW
        )
        if run and not joins:
            yield _block(run, kind, scale, top)
            run = []
        run.append(each)
        kind = own
    if run:
        yield _block(run, kind, scale, top)


def _block(run: Sequence[Slice], kind: str, scale: float, top: float) -> str:
    start, end = run[0].start_s, run[-1].start_s + run[-1].time_s
    longest = max(run, key=lambda one: one.time_s)
    what = longest.name if len(run) == 1 else f"{len(run)} slices, the longest {longest.name}"
    if longest.op is None:
        what += f" to {longest.to}"
    text = escape(f"{what}: {seconds_text(end - start)}")
    return (
        f'<rect x="{_NAME + start * scale:.1f}" y="{top:g}" width="{max((end - start) * scale, 0.3):.1f}" '
        f'height="{_LANE:g}" fill="{_COLOURS.get(kind, _COLOURS["forward"])}"><title>{text}</title></rect>'
    )
