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

    def arguments(self, folder: Path, *, objective: bool = True) -> tuple[list[str], dict[str, str]]:
        """Options of a command line, and what errors call their files."""
        options = ["--objective", self.objective] if objective else []
        options += ["--reserve", self.reserve] if self.reserve is not None else []
        options += ["--dispatch", self.dispatch] if self.dispatch is not None else []
        if self.rules is None:
            return options, {}
        path, shown = self.rules.written(folder)
        return [*options, "--rules", str(path)], shown


def request_arguments(**settings: object) -> list[str]:
    """Options of ``emplace place`` for the settings that are given, in the order of its help.

    None: not given. A name has underscores for the hyphens of the option. Raises TypeError for a name that is
    no setting."""
    given = {name.replace("_", "-"): value for name, value in settings.items() if value is not None}
    if unknown := given.keys() - SETTINGS:
        raise TypeError(f"no setting of a request: {', '.join(sorted(unknown))}")
    arguments = []
    for name in SETTINGS:
        if name in given:
            arguments += [f"--{name}", str(given[name])]
    return arguments


def graph_of(graph: Graph | str | os.PathLike[str]) -> Graph:
    """A graph, or the one in a file."""
    return graph if isinstance(graph, Graph) else read(graph)


def machine_of(machine: Machine | str | os.PathLike[str] | None) -> Machine | None:
    """A machine, or the one that a text names."""
    return machine if machine is None or isinstance(machine, Machine) else Machine(machine)


def seconds_option(budget: str | float | int) -> str:
    """A budget for a command line: "30s", or a number of seconds."""
    return budget if isinstance(budget, str) else f"{budget:g}s"


def warn_of(finished: Finished) -> tuple[str, ...]:
    """Passes warnings of the program on, and returns its notes."""
    for note in finished.notes:
        if note.startswith("warning: "):
            warnings.warn(note.removeprefix("warning: "), stacklevel=3)
    return tuple(note for note in finished.notes if not note.startswith(("warning: ", "error: ")))
