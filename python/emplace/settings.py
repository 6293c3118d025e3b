"""What commands that judge placements share: graph, machine, rules and objective, from Python to a command
line."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from emplace.graph import Graph, read
from emplace.machines import Machine
from emplace.program import Finished
from emplace.request import SETTINGS
from emplace.rules import RulesFile


@dataclass(frozen=True)
class Settings:
    """How placements of a graph are judged, besides graph and machine."""

    objective: str = "step-time"
    reserve: str | None = None
    dispatch: str | None = None
    rules: RulesFile | None = None
    cost_version: int | None = None
    float32: str | None = None

    def arguments(self, folder: Path, *, objective: bool = True) -> tuple[list[str], dict[str, str]]:
        """Options of a command line, and what errors call their files."""
        path, shown = self.rules.written(folder) if self.rules is not None else (None, {})
        judged = self.objective if objective else None
        words = options(
            objective=judged,
            reserve=self.reserve,
            dispatch=self.dispatch,
            rules=path,
            cost_version=self.cost_version,
            float32=self.float32,
        )
        return words, shown


def options(**values: object) -> list[str]:
    """Options of a command line: none for None and False, a bare one for True.

    >>> options(run_dir="here", resume=True, seed=None)
    ['--run-dir', 'here', '--resume']
    """
    words: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            words += ["--" + name.replace("_", "-"), *([] if value is True else [_text(value)])]
    return words


def _text(value: object) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def strategy_options(micro_batches: int | None, schedule: str | None) -> list[str]:
    """Options of a step of several micro-batches."""
    return options(micro_batches=micro_batches, schedule=schedule)


def request_arguments(**settings: object) -> list[str]:
    """Options of ``emplace place`` for the settings that are given, in the order of its help.

    None: not given. A name has underscores for the hyphens of the option. Raises TypeError for a name that is
    no setting."""
    given = {name.replace("_", "-"): value for name, value in settings.items() if value is not None}
    if unknown := given.keys() - SETTINGS:
        raise TypeError(f"no setting of a request: {', '.join(sorted(unknown))}")
    return options(**{name: given[name] for name in SETTINGS if name in given})


def graph_of(graph: Graph | str | os.PathLike[str]) -> Graph:
    """A graph, or the one in a file."""
    return graph if isinstance(graph, Graph) else read(graph)


def machine_of(machine: Machine | str | os.PathLike[str] | None) -> Machine | None:
    """A machine, or the one that a text names."""
    return machine if machine is None or isinstance(machine, Machine) else Machine(machine)


def seconds_option(budget: str | float | int | None) -> str | None:
    """A budget for a command line: "30s", or a number of seconds."""
    return budget if budget is None or isinstance(budget, str) else f"{budget:g}s"


def devices_option(machine: Machine | None) -> list[str]:
    """The option for a machine; none for that of the graph file."""
    return options(devices=machine.text if machine is not None else None)


def warn_of(finished: Finished, category: type[Warning] = UserWarning) -> tuple[str, ...]:
    """Passes warnings of the program on, and returns its notes."""
    for note in finished.notes:
        if note.startswith("warning: "):
            warnings.warn(note.removeprefix("warning: "), category, stacklevel=3)
    return tuple(note for note in finished.notes if not note.startswith(("warning: ", "error: ")))
