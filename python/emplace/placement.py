"""A placement: which op runs on which device, and what that costs."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emplace.errors import EmplaceError, LossyExport, need
from emplace.graph import Graph
from emplace.machines import Machine
from emplace.patterns import resolved
from emplace.program import Finished, Json, run_command
from emplace.report import Facts, Report, report_of
from emplace.results import Columns, Costs, Explanation, Strategy, costs_of, strategy_of
from emplace.schedule import Schedule, Slice
from emplace.scratch import Scratch, write
from emplace.settings import Settings, devices_option, options, warn_of
from emplace.stages import Stages, stages_of
from emplace.tables import bytes_text, html_table, seconds_text, text_table

if TYPE_CHECKING:
    from emplace.applying import AppliedStep, MicroBatches

# The longest expression for one option of a command line: Linux allows 128 KiB.
_MAX_EXPRESSION = 100_000


@dataclass(frozen=True, eq=False)
class Placement:
    """Made by :func:`emplace.place` and :func:`emplace.open_placement`.

    ``p["layers.3.*"]`` is a dict of the ops that a pattern names (emplace/patterns.py) and their devices.
    """

    graph: Graph
    machine: Machine | None
    """None: the graph file contains its machine."""
    document: Json = field(repr=False)
    """The placement file (docs/reference/file_formats.md)."""
    settings: Settings = field(default_factory=Settings, repr=False)
    interrupted: bool = False
    """Whether Ctrl-C ended the search: this is the best placement that it had found."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What the program reported: assumptions about graph and machine, matches of rules."""
    _json: Json = field(default_factory=dict, repr=False)
    _scratch: Scratch = field(default_factory=Scratch, repr=False)

    # Costs.

    @property
    def step_time(self) -> float:
        """Seconds of one step, simulated; infinite if a placement that was read from a file does not fit."""
        seconds = self._json["measured"]["step_time_s"]
        return math.inf if seconds is None else float(seconds)

    @property
    def costs(self) -> Costs | None:
        """The costs behind the step time, and their error; None for objectives other than the step time."""
        return costs_of(self._json["measured"])

    @property
    def strategy(self) -> Strategy | None:
        """What the step is besides one micro-batch, with its samples per second."""
        return strategy_of(self._json)

    @property
    def micro_batches(self) -> int:
        """Forward and backward passes before the update."""
        return int(self.document.get("strategy", {}).get("micro_batches", 1))

    @property
    def bound(self) -> float:
        """Seconds that no placement of this graph on this machine can be below."""
        return float(self._json["lower_bound_s"])

    @property
    def optimal(self) -> bool:
        """Whether no placement is better: this one reaches the bound."""
        return bool(self._json.get("optimal", False))

    @property
    def peak(self) -> dict[str, int]:
        """Bytes of memory at the peak, per device."""
        return dict(zip(self.devices, self._json["measured"]["peak_memory_bytes"]))

    @property
    def busy(self) -> dict[str, float]:
        """Seconds of the step in which a device computes, per device."""
        return dict(zip(self.devices, self._json["measured"]["busy_s"]))

    @property
    def moved_bytes(self) -> int:
        """Bytes that one step copies between devices."""
        return int(self._json["measured"]["bytes_moved"])

    @property
    def method(self) -> str:
        """The method that found it."""
        return str(self._json["method"])

    def to_dict(self) -> Json:
        """The JSON of ``emplace place`` (a copy)."""
        return copy.deepcopy(self._json)

    # Where ops run.

    @property
    def devices(self) -> list[str]:
        """The names of the machine's devices, in the order of all lists per device."""
        return list(self.document["devices"])

    @property
    def memory_plan(self) -> Json | None:
        """What is recomputed and moved, as the placement file has it; None if everything is kept."""
        if self.document.get("version") != 2:
            return None
        return {"recompute": list(self.document["recompute"]), "move": list(self.document["move"])}

    @property
    def graph_sha256(self) -> str:
        """The hash of the graph that it belongs to."""
        return str(self.document["graph_sha256"])

    def ops_by_device(self) -> dict[str, str]:
        """Every op and its device."""
        return dict(self.document["ops"])

    def __getitem__(self, pattern: str | re.Pattern[str]) -> dict[str, str]:
        text = pattern if isinstance(pattern, str) else pattern.pattern
        devices = self.document["ops"]
        return {op.name: devices[op.name] for op in resolved(self.graph, pattern, f"p['{text}']")[1]}

    @property
    def rules(self) -> str:
        """The rules file that it obeys, as text; empty if there is none."""
        return self.settings.rules.text if self.settings.rules is not None else ""

    def __len__(self) -> int:
        return len(self.document["ops"])

    def ops(self) -> Columns:
        """A list per column, ready for ``pandas.DataFrame``: a row per op, in the graph's order. Ops that
        take no time (parameters, views) start at None; what runs several times has its first start and its
        whole time."""
        slices: dict[int, list[Slice]] = {}
        for each in self.schedule.slices:
            if each.op is not None:
                slices.setdefault(each.op, []).append(each)
        devices = self.document["ops"]
        rows = []
        for op in self.graph.ops:
            runs = slices.get(op.id, [])
            start = min((run.start_s for run in runs), default=None)
            time = sum((run.time_s for run in runs), 0.0)
            where = devices[op.name], start, time
            rows.append((op.name, op.type, op.scope, op.phase, *where, op.flops, op.param_bytes))
        names = "op type scope phase device start_s time_s flops param_bytes".split()
        return {name: [row[column] for row in rows] for column, name in enumerate(names)}

    @cached_property
    def schedule(self) -> Schedule:
        """When each op and each copy runs in the simulated step."""
        trace = self._scratch.folder / "trace.json"
        arguments, shown = self._about(placement_first=False)
        judged, more = self.settings.arguments(self._scratch.folder, objective=False)
        # A placement that does not fit has a schedule, too.
        run_command("evaluate", [*arguments, *judged, "--trace", trace], shown=shown | more, accept=(0, 3))
        return Schedule.read(trace, {op.name: op.id for op in self.graph.ops})

    def explain(self, what: str | re.Pattern[str] | None = None, *, top: int | None = None) -> Explanation:
        """Where ops run and why, and what the step would take if they ran elsewhere.

        Without ``what`` an item is a scope; with a pattern it is an op that the pattern names. The ``top``
        (12) most important are analysed.
        """
        arguments, shown = self._about(placement_first=True)
        judged, more = self.settings.arguments(self._scratch.folder, objective=False)
        asked = options(op=self._expression(what) if what is not None else None, top=top)
        return Explanation(run_command("explain", [*arguments, *judged, *asked], shown=shown | more).result)

    # Output for other tools.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the placement file."""
        write(path, json.dumps(self.document, indent=1, ensure_ascii=False) + "\n")

    def export(
        self,
        to: str,
        path: str | os.PathLike[str],
        *,
        modules: Sequence[str] | None = None,
        stages: int | None = None,
    ) -> Json:
        """Writes the placement in the format of another tool (docs/guide/export.md); returns the command's
        JSON, which states whether it is exact and how many ops it had to move. What it loses, or that it does
        not fit, is a warning of the class :class:`emplace.LossyExport`.

        ``modules`` are the names of the model's modules and tensors, for a device map; a traced graph knows
        them. ``stages`` is the number of stages of a pipeline.
        """
        finished = self._export(to, path, modules, stages)
        result = finished.result
        warn_of(finished, LossyExport)
        if result["moved_ops"]:
            before, after = (seconds_text(result[name]) for name in ("step_time_s", "applied_step_time_s"))
            cost = f": step time {before} -> {after}" if result["applied_step_time_s"] is not None else ""
            moved = f"--to {to} moves {result['moved_ops']} of {result['ops']} ops{cost}"
            warnings.warn(moved, LossyExport, stacklevel=2)
        return result

    def _export(
        self,
        to: str,
        path: str | os.PathLike[str],
        modules: Sequence[str] | None = None,
        stages: int | None = None,
    ) -> Finished:
        arguments, shown = self._about(placement_first=True)
        arguments += ["--to", to, "-o", os.fspath(path)]
        if self.machine is not None:
            judged, more = self.settings.arguments(self._scratch.folder, objective=False)
            arguments += [*judged, *options(stages=stages)]
            shown = shown | more
        model = self.graph._model
        if modules is None and to == "accelerate" and model is not None:
            modules = _names_of(model)
        if modules is not None:
            listing = self._scratch.folder / "modules.txt"
            listing.write_text("\n".join(modules) + "\n", encoding="utf-8")
            arguments += ["--modules", str(listing)]
            shown = shown | {str(listing): "modules"}
        shown = shown | {"--modules FILE": "modules=[…]", "--stages ": "stages="}
        return run_command("export", arguments, shown=shown)

    def device_map(self, modules: Sequence[str] | None = None) -> dict[str, int | str]:
        """Module → number of a GPU, or "cpu": the ``device_map`` of accelerate and transformers, as
        :meth:`export` writes it, which also states its step time.

        Blocks are whole. The map is the fastest that is found, within the memory of the devices; a placement
        that puts every module on one device by hand or by rules is kept.
        """
        path = self._scratch.folder / "device_map.json"
        self.export("accelerate", path, modules=modules)
        return dict(json.loads(path.read_text(encoding="utf-8")))

    def stages(self, count: int | None = None) -> Stages:
        """The model as stages of a pipeline, cut before blocks so that each stage fits in the memory of its
        device and the slowest one takes least time; without ``count`` as many stages as GPUs are in use. The
        exports to pipelining, vllm and deepspeed have the same cut."""
        if count is not None and count < 1:
            raise EmplaceError(f"stages({count})", "is not a number of stages", "give 1 or more")
        if self.machine is None:
            raise EmplaceError("stages()", "the placement has no machine", "give it to em.open_placement")
        finished = self._export("pipelining", self._scratch.folder / "stages.json", stages=count)
        warn_of(finished, LossyExport)
        return stages_of(self.graph, finished.result)

    def apply(
        self,
        devices: Mapping[str, Any] | None = None,
        *,
        threads: int | None = None,
        lean: bool = False,
    ) -> AppliedStep:
        """The traced step as a callable that runs each op on its device; parameters are updated in place.

        ``devices`` names the PyTorch device of each device of the machine: ``{"gpu:0": "cuda:0", "gpu:1":
        "cpu"}``. Several may be "cpu": each is then a logical device with ``threads`` threads in its kernels
        (as many as PyTorch uses if not given). A memory plan is run as placed: what is recomputed has the
        same random numbers as before.

        The step holds new values of state beside the old ones until all ops are done, so that a failure
        changes nothing, and on CPUs a part of a tensor is copied with the gaps between its rows, for the bits
        of plain PyTorch. A ``lean`` step takes the memory that the simulator counts, which a placement with
        little to spare needs: it overwrites state as soon as nothing reads the old values, and leaves no
        gaps. A failure then leaves half a step, and some kernels round otherwise.

        If the placement has micro-batches, the step takes a list of them. It adds up their gradients, as
        ``backward()`` for each of them would, updates once, and returns the sum of their losses: for the
        mean, divide the loss by their number where it is traced.
        """
        if self.graph.step is None:
            raise EmplaceError(
                "Placement.apply",
                f"{self.graph.name} was not traced from a PyTorch model",
                "make the graph with em.trace(model, batch, loss=..., optimizer=...)",
            )
        need("Placement.apply", torch="torch")
        from emplace.applying import apply

        plan = self._planned_ops() if self.memory_plan is not None else ()
        ops, where = self.ops_by_device(), dict(devices or {})
        several = self._micro_batches()
        return apply(
            self.graph.step, ops, where, threads=threads, plan=plan, micro_batches=several, lean=lean
        )

    def _micro_batches(self) -> MicroBatches | None:
        from emplace.applying import MicroBatches

        if self.document.get("strategy", {}).get("replicas", 1) > 1:
            raise EmplaceError(
                "placement", "has replicas, and a step in one process is one copy", "place one copy"
            )
        word = self.document.get("strategy", {}).get("schedule", "1f1b")
        return MicroBatches(self.micro_batches, word) if self.micro_batches > 1 else None

    def _planned_ops(self) -> list[Json]:
        """The ops of the graph of the memory plan."""
        file = self._scratch.folder / "planned.json"
        self._export("graph", file)
        return list(json.loads(file.read_text(encoding="utf-8"))["ops"])

    # Output for people.

    def report(self) -> Report:
        """A page about this placement: verdict, schedule, memory, modules. A notebook draws it under the
        cell."""
        return report_of(
            Facts(
                graph=self.graph,
                machine=self.machine,
                method=self.method,
                step_time_s=self.step_time,
                step_text=self._step_text(),
                bound_s=self.bound,
                moved_bytes=self.moved_bytes,
                busy_s=self.busy,
                rows=self._cells()[1],
                assumed=self._json.get("assumed", []),
                explanation=self.explain(),
                schedule=self.schedule,
            )
        )

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        counts, peak, busy = Counter(self.document["ops"].values()), self.peak, self.busy
        rows = [
            [name, str(counts[name]), bytes_text(peak.get(name, 0)), seconds_text(busy.get(name))]
            for name in self.devices
        ]
        return ["device", "ops", "peak", "busy"], rows

    def _step_text(self) -> str:
        return self.costs.of(self.step_time) if self.costs else seconds_text(self.step_time)

    def _verdict(self) -> str:
        above = f", {100 * (self.step_time / self.bound - 1):.1f} % above the bound" if self.bound > 0 else ""
        return (
            f"{self.graph.name}: {self._step_text()} by {self.method}"
            + (", optimal" if self.optimal else above)
            + (f", {self.strategy}" if self.strategy is not None else "")
            + (", interrupted" if self.interrupted else "")
        )

    def __str__(self) -> str:
        return self._verdict() + "\n" + text_table(*self._cells())

    def __repr__(self) -> str:
        return f"<emplace.Placement {self._verdict()}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self._verdict())}</p>" + html_table(*self._cells())

    # Command lines.

    @property
    def path(self) -> Path:
        """A placement file with this placement; it exists as long as this object."""
        path = self._scratch.folder / "placement.json"
        if not path.exists():
            self.save(path)
        return path

    def _about(self, *, placement_first: bool) -> tuple[list[str], dict[str, str]]:
        """Graph, placement and machine for a command line, and what errors call their files."""
        graph = self.graph._arguments()
        order = (
            [str(self.path), "--graph", *graph] if placement_first else [graph[0], str(self.path), *graph[1:]]
        )
        return [*order, *devices_option(self.machine)], self.graph._shown() | {str(self.path): "placement"}

    def _expression(self, what: str | re.Pattern[str]) -> str:
        """An RE2 expression for the names of the ops that a pattern names."""
        where = f"explain('{what if isinstance(what, str) else what.pattern}')"
        pattern, found = resolved(self.graph, what, where)
        by_name = re.compile(pattern.name)
        if all(by_name.search(op.name) for op in found):
            return pattern.name
        expression = "^(?:" + "|".join(_quoted(op.name) for op in found) + ")$"
        if len(expression) > _MAX_EXPRESSION:
            raise EmplaceError(
                where, f"names {len(found)} ops", "name a part of them; explain() has all scopes"
            )
        return expression


def _names_of(model: Any) -> list[str]:
    """The modules with tensors, and these; of a tied tensor also the name that it has in a trace."""
    first: dict[int, str] = {}
    for tensors in (model.named_parameters(), model.named_buffers()):
        for name, tensor in tensors:
            first.setdefault(id(tensor), name)
    names = []
    for name, module in model.named_modules():
        if name and any(
            next(tensors, None) is not None for tensors in (module.parameters(), module.buffers())
        ):
            names.append(name)
    for name, tensor in model.state_dict(keep_vars=True).items():
        other = first.get(id(tensor), name)
        names.append(name if other == name else f"{name} = {other}")
    return names


def _quoted(text: str) -> str:
    return re.sub(r"([^\w/:#\-])", r"\\\1", text, flags=re.ASCII)
