"""Methods beside each other, one placement on a real executor, and whole runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emplace.errors import EmplaceError
from emplace.graph import Graph
from emplace.machines import Machine
from emplace.placement import Placement
from emplace.placing import open_placement
from emplace.program import Json, run_command
from emplace.progress import Progress, seconds_of
from emplace.results import Columns, Comparison, Measurement, add_samples
from emplace.rules import Rules, rules_file
from emplace.scratch import Scratch
from emplace.settings import (
    Settings,
    devices_option,
    graph_of,
    machine_of,
    options,
    seconds_option,
    strategy_options,
    warn_of,
)

if TYPE_CHECKING:
    import sqlite3

CONFIGS = Path(__file__).with_name("configs")
"""Configs that the wheel brings: ``em.run("quickstart.toml")`` finds them where there is no such file."""


def compare(
    graph: Graph | str | os.PathLike[str],
    machine: Machine | str | os.PathLike[str] | None = None,
    *,
    methods: Sequence[str] | None = None,
    budget: str | float | None = None,
    rules: Rules | None = None,
    seed: int = 1,
    objective: str = "step-time",
    reserve: str | None = None,
    dispatch: str | None = None,
    micro_batches: int | None = None,
    schedule: str | None = None,
    cost_version: int | None = None,
    float32: str | None = None,
    progress: bool = True,
) -> Comparison:
    """Methods beside each other: ``emplace compare``.

    Without ``methods`` all heuristics; with a ``budget``, which each search gets, also the searches and auto.
    ``micro_batches``, ``schedule``, ``cost_version`` and ``float32`` are those of :func:`place`.
    """
    graph, machine = graph_of(graph), machine_of(machine)
    scratch = Scratch()
    settings = Settings(objective, reserve, dispatch, rules_file(rules, graph), cost_version, float32)
    judged, shown = settings.arguments(scratch.folder)
    named = ",".join(methods) if methods is not None else None
    arguments = [*graph._arguments(), *judged, *devices_option(machine)]
    arguments += options(seed=seed, methods=named, budget=seconds_option(budget))
    arguments += strategy_options(micro_batches, schedule)
    finished = Progress("compare", None, progress).run("compare", arguments, shown=graph._shown() | shown)
    warn_of(finished)
    return Comparison(finished.result)


def evaluate(
    graph: Graph | str | os.PathLike[str],
    placement: Placement | str | os.PathLike[str],
    *,
    machine: Machine | str | os.PathLike[str] | None = None,
    executor: str = "sim",
    model: str | None = None,
    batch: Any = None,
    devices: Mapping[str, str] | None = None,
    threads: int | None = None,
    verify: bool = False,
    warmups: int | None = None,
    samples: int | None = None,
    trace: str | os.PathLike[str] | None = None,
    micro_batches: int | None = None,
    schedule: str | None = None,
    progress: bool = True,
) -> Measurement:
    """Measures one placement: ``emplace evaluate``.

    executor  sim, cpu, cuda, fake or torch
    machine   of a placement file; a Placement has its own
    model     executor torch: "my_module:make_step", the code that makes the step. Without it the traced step
              of ``graph`` is measured in this process, on a ``batch`` like the traced one, with ``devices``
              {"gpu:0": "cuda:0"} (default: GPUs in their order, else CPU cores stand for them) and
              ``threads`` per CPU device (default: PyTorch's)
    verify    real executors: compare the results with those of a run on one device
    micro_batches, schedule  those of :func:`place` (executor sim; if not given, the placement's)

    A placement that does not fit has ``valid`` False and a ``reason``.
    """
    graph = graph_of(graph)
    if not isinstance(placement, Placement):
        placement = open_placement(placement, graph, machine)
    if executor == "torch" and model is None and graph.step is not None:
        from emplace.here import measure_here

        if micro_batches is not None or schedule is not None or placement.micro_batches > 1:
            raise EmplaceError(
                "executor 'torch'", "runs one micro-batch per step", "time the step of p.apply()"
            )
        found = measure_here(
            placement, batch=batch, devices=devices, threads=threads, warmups=warmups, samples=samples
        )
        return Measurement(found, tuple(placement.devices))
    scratch = Scratch()
    judged, shown = placement.settings.arguments(scratch.folder)
    first, *reading = graph._arguments()
    arguments = [first, str(placement.path), *reading, *judged, *devices_option(placement.machine)]
    arguments += options(
        executor=executor, model=model, verify=verify, warmups=warmups, samples=samples, trace=trace
    )
    arguments += strategy_options(micro_batches, schedule)
    view = Progress(f"evaluate by {executor}", None, progress)
    names = graph._shown() | shown | {str(placement.path): "placement"}
    finished = view.run("evaluate", arguments, accept=(0, 3), shown=names)
    if finished.interrupted:
        raise KeyboardInterrupt
    add_samples(finished.result, graph._batch())
    return Measurement(finished.result, tuple(placement.devices))


@dataclass(frozen=True)
class RunReport:
    """The page of a run: ``emplace report``."""

    path: Path

    @property
    def html(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:800px;border:0" srcdoc="{escape(self.html)}"></iframe>'


@dataclass(frozen=True)
class Run:
    """A run directory (docs/reference/run_database.md); the run may be in progress. Nothing here writes to
    run.db."""

    directory: Path
    _json: Json | None = field(default=None, repr=False)

    def to_dict(self) -> Json:
        """The JSON of ``emplace run``, if this object is the result of :func:`emplace.run`."""
        return dict(self._json or {})

    def measurements(self) -> Columns:
        """A list per column of ``measurements``: one row per counted measurement."""
        return self._columns("measurements", "SELECT * FROM measurements ORDER BY placement_id")

    def episodes(self) -> Columns:
        """A list per column of ``episodes``, without the packed ones."""
        return self._columns("episodes", "SELECT * FROM episodes ORDER BY seq")

    def updates(self) -> Columns:
        """A list per column of ``updates``, without the packed ones."""
        return self._columns("updates", 'SELECT * FROM updates ORDER BY "update"')

    def heuristics(self) -> Columns:
        """A list per column of ``baselines``: the heuristics that the run is compared with."""
        return self._columns("baselines", "SELECT * FROM baselines")

    @property
    def config(self) -> str:
        """The config as run, defaults filled in."""
        return (self.directory / "config.toml").read_text(encoding="utf-8")

    def best(
        self, graph: Graph | str | os.PathLike[str], machine: Machine | str | os.PathLike[str] | None = None
    ) -> Placement:
        """The best placement that the run found, over all heuristics and starts."""
        for name in ("recommended.placement.json", "best.placement.json"):
            if (self.directory / name).is_file():
                return open_placement(self.directory / name, graph, machine)
        raise EmplaceError(
            os.fspath(self.directory), "has no placement yet", "wait for the first valid measurement"
        )

    def report(self, path: str | os.PathLike[str] | None = None) -> RunReport:
        """Writes the page of the run (default: report.html in its directory)."""
        page = Path(path) if path is not None else self.directory / "report.html"
        run_command("report", [self.directory, "-o", page])
        return RunReport(page)

    def _columns(self, table: str, query: str) -> Columns:
        import sqlite3

        try:
            with _open(self.directory / "run.db") as database:
                cursor = database.execute(query)
                names = [column[0] for column in cursor.description]
                rows = cursor.fetchall()
        except sqlite3.Error as error:
            raise EmplaceError(
                os.fspath(self.directory / "run.db"),
                f"{table} cannot be read ({error})",
                "emplace replay RUN --salvage DIR saves what is whole",
            ) from error
        columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}
        packed = [
            name
            for name, values in columns.items()
            if name != "samples_s" and any(isinstance(value, bytes) for value in values)
        ]
        for name in packed:
            del columns[name]
        if "samples_s" in columns:
            columns["samples_s"] = [_doubles(value) for value in columns["samples_s"]]
        if "peak_bytes" in columns:
            columns["peak_bytes"] = [
                [int(each) for each in (value or "").split()] for value in columns["peak_bytes"]
            ]
        return columns


def run(
    config: str | os.PathLike[str] | None = None,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    budget: str | float | None = None,
    episodes: int | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    branch: str | None = None,
    seed: int | None = None,
    progress: bool = True,
) -> Run:
    """Learns a placement: ``emplace run``. Ctrl-C ends it with its results kept.

    config    a config file; if there is none of this name, one that the package brings ("quickstart.toml")
    settings  keys of the config: {"policy.groups": 32}
    """
    arguments: list[str] = []
    if config is not None:
        path = Path(config)
        arguments.append(
            os.fspath(path if path.exists() or not (CONFIGS / path).is_file() else CONFIGS / path)
        )
    arguments += options(
        run_dir=run_dir,
        budget=seconds_option(budget),
        episodes=episodes,
        resume=resume,
        branch=branch,
        seed=seed,
    )
    for key, value in (settings or {}).items():
        arguments += ["--set", f"{key}={_setting(value)}"]
    finished = Progress("run", seconds_of(budget), progress).run("run", arguments)
    warn_of(finished)
    return Run(Path(finished.result["run_dir"]), finished.result)


def open_run(directory: str | os.PathLike[str]) -> Run:
    """Opens a run directory to read it."""
    path = Path(directory)
    if not (path / "run.db").is_file():
        raise EmplaceError(os.fspath(directory), "has no run.db", "give the directory of a run")
    return Run(path)


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens run.db to read. Where SQLite may not make the files of its log (a read-only disk), it is read as
    it is."""
    import sqlite3

    name = path.absolute().as_uri()
    database = sqlite3.connect(f"{name}?mode=ro", uri=True)
    try:
        try:
            database.execute("SELECT 1 FROM runs").fetchone()
        except sqlite3.OperationalError:
            database.close()
            database = sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)
        yield database
    finally:
        database.close()


def _doubles(value: bytes | None) -> list[float]:
    """Timed steps as run.db keeps them: bare little-endian float64."""
    return list(memoryview(value).cast("d")) if value else []


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
