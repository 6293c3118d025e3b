"""The command line of ``emplace-exec-torch``."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import sys

from emplace.command_line import Parser, positive, whole
from emplace.version import __version__

NAME = "emplace-exec-torch"


@dataclasses.dataclass
class Options:
    """The options of the command line."""

    model: str = ""
    parent: int = 0
    threads: int = 1
    #: Torch device of each device of the placement, where the default is not wanted.
    devices: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Every Nth measurement fails on purpose, by its number; 0: never. For tests.
    crash_every: int = 0
    hang_every: int = 0
    poison_every: int = 0
    oom_every: int = 0
    version: bool = False


def parse(arguments: list[str]) -> Options:
    """The options of a command line. Raises EmplaceError with one line if it has another.

    >>> parse(["--model=my.models:step", "--threads=2", "--devices=gpu:0=cuda:1"]).devices
    {'gpu:0': 'cuda:1'}
    """
    parser = Parser(NAME, "Measures placements by PyTorch; emplace starts it.", "--model=module:make_step")
    parser.add_argument("--model", type=_model, metavar="MODULE:FUNCTION", help="what makes the step")
    parser.add_argument("--parent", type=whole, metavar="PID", help="end if the parent is not this process")
    parser.add_argument("--threads", type=positive, metavar="N", help="threads of a CPU device (1)")
    parser.add_argument(
        "--devices", action=_Once, type=_devices, metavar="NAME=DEVICE,…", help="e.g. gpu:0=cuda:0"
    )
    for failure in ("crash", "hang", "poison", "oom"):
        parser.add_argument(f"--{failure}-every", type=whole, metavar="N", help="fail on purpose, for tests")
    parser.add_argument("--version", action="store_true", help="print the versions")
    return parser.parse_args(arguments, Options())


def _model(text: str) -> str:
    module, colon, function = text.rpartition(":")
    if not (module and colon and function):
        raise argparse.ArgumentTypeError(f"'{text}' is not MODULE:FUNCTION; give e.g. my_module:make_step")
    return text


def _devices(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in filter(None, text.split(",")):
        name, sign, device = entry.partition("=")
        if not (name and sign and device):
            raise argparse.ArgumentTypeError(f"'{entry}' is not NAME=DEVICE; give e.g. gpu:0=cuda:0")
        if name in found:
            raise argparse.ArgumentTypeError(f"'{name}' has two devices; give one")
        found[name] = device
    return found


class _Once(argparse.Action):
    """Stores a value, and refuses a second one, of which one would be lost."""

    taken = False

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if self.taken:
            raise argparse.ArgumentError(self, "given twice; separate devices by commas")
        self.taken = True
        setattr(namespace, self.dest, values)


def torch_version() -> str:
    """The version of the installed torch, without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def missing() -> str:
    """The line where packages are absent; empty where none is."""
    absent = [name for name in ("torch", "msgpack") if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    what = f"there is no {' and no '.join(absent)} in {sys.executable}"
    return f"{NAME}: {what}; pip install {' '.join(absent)}"


def version_line() -> str:
    """What ``--version`` prints."""
    return f"{NAME} {__version__}, torch {torch_version()}"
