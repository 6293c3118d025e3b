"""Finds placements, and reads them from files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from emplace.graph import Graph
from emplace.machines import Machine
from emplace.placement import Placement
from emplace.program import Json, run_command
from emplace.progress import Progress, seconds_of
from emplace.results import add_samples
from emplace.rules import Rules, rules_file
from emplace.scratch import Scratch
from emplace.settings import (
    Settings,
    devices_option,
    graph_of,
    machine_of,
    options,
    request_arguments,
    seconds_option,
    strategy_options,
    warn_of,
)


def place(
    graph: Graph | str | os.PathLike[str],
    machine: Machine | str | os.PathLike[str] | None = None,
    *,
    budget: str | float | None = None,
    method: str = "auto",
    rules: Rules | None = None,
    seed: int = 1,
    objective: str = "step-time",
    reserve: str | None = None,
    order: str = "issue",
    allow: str | None = None,
    dispatch: str | None = None,
    policy: str | os.PathLike[str] | None = None,
    samples: int | None = None,
    threads: int | None = None,
    micro_batches: int | None = None,
    schedule: str | None = None,
    cost_version: int | None = None,
    float32: str | None = None,
    progress: bool = True,
) -> Placement:
    """Finds a placement of a graph on a machine: ``emplace place``.

    budget     time for auto, a search or learning: "30s", or a number of seconds (auto: 30 s)
    method     auto, or one of docs/reference/heuristics.md and docs/reference/learning.md
    rules      {"embed.*": "cpu:0"}, a list of rules, or a rules file (emplace/rules.py)
    objective  step-time, throughput, latency or max-load
    reserve    memory kept free per device: "10%" or "2GiB"
    order      "search" also looks for the order in which devices take ready ops
    allow      what may be decided besides the devices: "recompute", "offload" and "order", with commas, "all"
               or "none"; without it, what would make a graph fit is tried if nothing fits
               (NoPlacement.remedies)
    policy     the directory of a run, whose policy is used
    micro_batches, schedule  how often forward and backward pass run before the update, and in what order:
               "1f1b" (if not given) or "gpipe" (docs/guide/pipelines.md)
    cost_version  1 or 2: that of a machine that is no file (the newest)
    float32    "ieee" or "tf32": what products and convolutions of float32 tensors use, on devices that have
               it (what the trace recorded, else the default of the graph's framework)

    Ctrl-C ends the search; the best placement so far is returned. Raises EmplaceError, NoPlacement if none
    fits.
    """
    graph, machine = graph_of(graph), machine_of(machine)
    settings = Settings(objective, reserve, dispatch, rules_file(rules, graph), cost_version, float32)
    scratch = Scratch()
    judged, shown = settings.arguments(scratch.folder)
    request = request_arguments(
        method=method,
        budget=seconds_option(budget),
        policy=None if policy is None else os.fspath(policy),
        samples=samples,
        order=order,
        allow=allow,
        threads=threads,
    )
    file = scratch.folder / "found.json"
    arguments = [*graph._arguments(), *judged, "--seed", str(seed), *devices_option(machine), *request]
    arguments += strategy_options(micro_batches, schedule)
    searches = method == "auto" or budget is not None
    budget_s = seconds_of(budget if budget is not None else 30.0) if searches else None
    view = Progress(f"place {method}", budget_s, progress)
    finished = view.run("place", [*arguments, "-o", file], shown=graph._shown() | shown)
    document = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    finished.result["placement"] = None
    add_samples(finished.result, graph._batch())
    return Placement(
        graph, machine, document, settings, finished.interrupted, warn_of(finished), finished.result, scratch
    )


def open_placement(
    path: str | os.PathLike[str],
    graph: Graph | str | os.PathLike[str],
    machine: Machine | str | os.PathLike[str] | None = None,
    *,
    cost_version: int | None = None,
    float32: str | None = None,
) -> Placement:
    """Reads a placement file, and measures it in the simulator. A placement of another graph is refused.

    ``cost_version`` and ``float32`` are those of :func:`place`.
    """
    graph, machine = graph_of(graph), machine_of(machine)
    settings = Settings(cost_version=cost_version, float32=float32)
    devices = [*devices_option(machine), *options(cost_version=cost_version, float32=float32)]
    operands = graph._arguments()
    measured = run_command(
        "evaluate", [operands[0], path, *operands[1:], *devices], shown=graph._shown(), accept=(0, 3)
    ).result
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    strategy = measured.get("strategy", {})
    steps = strategy_options(strategy.get("micro_batches"), strategy.get("schedule"))
    bound = run_command("bound", [*operands, *devices, *steps], shown=graph._shown()).result
    result: Json = {
        "measured": measured,
        "method": document.get("method", ""),
        "placement": os.fspath(path),
        "objective": measured["objective"],
        "objective_value": measured["objective_value"],
        "lower_bound_s": bound["lower_bound_s"],
        "bound": bound["bound"],
        **{name: measured[name] for name in ("strategy", "busy_share", "samples_per_s") if name in measured},
    }
    add_samples(result, graph._batch())
    return Placement(graph, machine, document, settings, False, (), result)
