"""The command line of ``emplace-exec-torch``."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import sys

from emplace.version import __version__

NAME = "emplace-exec-torch"


class BadOption(Exception):
    """One line for the user."""


@dataclasses.dataclass
class Chaos:
    """Every Nth measurement fails on purpose, by its number; 0: never. For tests."""

    crash: int = 0
    hang: int = 0
    poison: int = 0
    oom: int = 0

    def due(self, which: str, number: int) -> bool:
        """Whether the measurement of this number fails in this way."""
        every = int(getattr(self, which))
        return every > 0 and number % every == 0


@dataclasses.dataclass
class Options:
    """The options of the command line."""

    model: str = ""
    parent: int = 0
    threads: int = 1
    #: Torch device of each device of the placement, where the default is not wanted.
    devices: dict[str, str] = dataclasses.field(default_factory=dict)
    chaos: Chaos = dataclasses.field(default_factory=Chaos)
    version: bool = False


def parse(arguments: list[str]) -> Options:
    """The options of a command line; BadOption with one line if it has another.

    >>> parse(["--model=my.models:step", "--threads=2", "--devices=gpu:0=cuda:1"]).devices
    {'gpu:0': 'cuda:1'}
    """
    options = Options()
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if argument == "--version":
            options.version = True
        elif name == "--model" and equals:
            module, colon, function = value.rpartition(":")
            if not (module and colon and function):
                raise BadOption(f"--model '{value}' is not MODULE:FUNCTION; give e.g. my_module:make_step")
            options.model = value
        elif name == "--parent":
            options.parent = _number(name, value)
        elif name == "--threads":
            options.threads = _number(name, value)
            if options.threads < 1:
                raise BadOption("--threads must be at least 1")
        elif name == "--devices" and equals:
            for entry in filter(None, value.split(",")):
                device, sign, torch_device = entry.partition("=")
                if not (device and sign and torch_device):
                    raise BadOption(f"--devices '{entry}' is not NAME=DEVICE; give e.g. gpu:0=cuda:0")
                options.devices[device] = torch_device
        elif (
            name.startswith("--")
            and name.endswith("-every")
            and name[2:-6] in ("crash", "hang", "poison", "oom")
        ):
            setattr(options.chaos, name[2:-6], _number(name, value))
        else:
            raise BadOption(f"'{argument}' is not an option of {NAME}")
    return options


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise BadOption(f"{name} '{value}' is not a whole number")
    return int(value)


def torch_version() -> str:
    """The version of the installed torch, without importing it; empty if there is none."""
    if importlib.util.find_spec("torch") is None:
        return ""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def version_line() -> str:
    """What ``--version`` prints."""
    return f"{NAME} {__version__}, torch {torch_version()}"


def no_torch() -> str:
    """The line where torch is absent."""
    return f"{NAME}: there is no torch in {sys.executable}"
