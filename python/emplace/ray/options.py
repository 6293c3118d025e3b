"""The command line of ``python -m emplace.ray``."""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from emplace.errors import EmplaceError
from emplace.ray.cluster import Bundle, ray_version
from emplace.ray.crew import Limits
from emplace.version import __version__

NAME = "python -m emplace.ray"


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    address: str
    watch: str
    key: bytes
    access: list[str]
    limits: Limits
    bundle: Bundle
    join: list[str]
    ray_address: str
    programs: list[str]
    environment: list[str]
    for_launcher: bool
    retry: bool
    log: str
    json: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise EmplaceError(NAME, message, f"see '{NAME} --help'")


def parse(arguments: list[str], environment: dict[str, str]) -> Options:
    """The options of a command line. Raises EmplaceError with one line if it has another.

    >>> parse(["tcp://10.0.0.1:5555", "--insecure", "--resources", '{"TPU": 4}'], {}).bundle.needs()
    {'CPU': 1.0, 'TPU': 4.0}
    """
    given = _parser().parse_args(arguments)
    if given.key and given.insecure:
        raise EmplaceError("--insecure", "conflicts with --key", "remove one of them")
    if given.key_on_nodes and given.insecure:
        raise EmplaceError("--insecure", "conflicts with --key-on-nodes", "remove one of them")
    access = ["--key", given.key] if given.key else ["--insecure"] if given.insecure else []
    if given.max is not None and given.max < given.executors_per_actor:
        raise EmplaceError(
            "--max", "is below --executors-per-actor, so that no actor may be started", "raise it"
        )
    for name in given.env:
        if name not in environment:
            raise EmplaceError("--env", f"'{name}' is not set", "set it for the driver, or remove the option")
    join = ["--executors", str(given.executors_per_actor)]
    for option in ("executor", "model", "cache"):
        value = getattr(given, option)
        join += [f"--{option}", value] if value else []
    if given.key_on_nodes:
        join += ["--key", given.key_on_nodes]
    elif given.insecure:
        join += ["--insecure"]
    # The path of this program, if a node has it too; else the package's program; else the one of PATH.
    own = environment.get("EMPLACE_PROGRAM", "")
    programs = [given.program] if given.program else [*([own] if own else []), "", "emplace"]
    return Options(
        address=given.address,
        watch=given.watch or given.address,
        key=_key(given.key) if given.key and not given.key_on_nodes else b"",
        access=[] if given.watch.startswith("ipc://") else access,
        limits=Limits(given.executors_per_actor, given.max, given.idle),
        bundle=Bundle(
            given.num_cpus,
            given.num_gpus,
            given.memory,
            _resources(given.resources),
            _object("--runtime-env", given.runtime_env),
        ),
        join=join,
        ray_address=given.ray_address,
        programs=programs,
        environment=given.env,
        for_launcher=given.for_launcher,
        retry=given.retry,
        log=given.log,
        json=given.json,
    )


def _parser() -> _Parser:
    parser = _Parser(
        prog=NAME,
        description="Executors of a run on a Ray cluster, as many as the run asks for.",
        epilog=f"example: {NAME} tcp://10.0.0.1:5555 --key keys/ray.key --max 64 --num-cpus 2",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "address", metavar="ADDRESS", help="address of the head as the nodes of Ray reach it, tcp://HOST:PORT"
    )
    add(
        "--key",
        metavar="FILE",
        default="",
        help="key file with the roles executor and operator; Ray carries it",
    )
    add("--key-on-nodes", metavar="PATH", default="", help="key file on the nodes instead (a mounted secret)")
    add("--insecure", action="store_true", help="connect without encryption; the head must allow it too")
    add(
        "--watch",
        metavar="ADDRESS",
        default="",
        help="address of the head for this process (default: ADDRESS)",
    )
    add("--max", metavar="N", type=_whole, default=None, help="most executors (default: the demand decides)")
    add("--executors-per-actor", metavar="K", type=_positive, default=1, help="executors of one actor (1)")
    add("--num-cpus", metavar="C", type=_amount, default=1.0, help="CPUs of an actor's bundle (1)")
    add("--num-gpus", metavar="G", type=_amount, default=0.0, help="GPUs of an actor's bundle (0)")
    add(
        "--memory",
        metavar="BYTES",
        type=_whole,
        default=0,
        help="memory of an actor's bundle; 0: not asked for",
    )
    add("--resources", metavar="JSON", default="{}", help='custom resources of a bundle, e.g. {"TPU": 4}')
    add(
        "--runtime-env",
        metavar="JSON",
        default="{}",
        help="runtime environment of the actors, as Ray takes it",
    )
    add(
        "--env",
        metavar="NAME",
        action="append",
        default=[],
        help="hand this variable to the executors; repeatable",
    )
    add(
        "--ray-address",
        metavar="WHERE",
        default="auto",
        help="auto, local, HOST:PORT or ray://HOST:PORT (auto)",
    )
    add(
        "--program",
        metavar="PATH",
        default="",
        help="emplace on the nodes (default: the wheel's, or that of PATH)",
    )
    add("--executor", metavar="KIND", default="", help="kind of the executors (default: that of the run)")
    add("--model", metavar="M:F", default="", help="model of torch executors, as for emplace join")
    add("--cache", metavar="FOLDER", default="", help="folder on the nodes that caches graphs")
    add(
        "--idle",
        metavar="S",
        type=_seconds,
        default=5.0,
        help="seconds before an unneeded actor is drained (5)",
    )
    add("--retry", action="store_true", help="wait for a Ray cluster that does not answer yet")
    add(
        "--for-launcher", action="store_true", help="end when standard input ends; print lines for emplace up"
    )
    add(
        "--log",
        metavar="FILE",
        default="",
        help="append what Ray prints to this file (default: standard error)",
    )
    add("--json", action="store_true", help="print one JSON object at the end")
    add("--version", action="version", version=version_line())
    return parser


def version_line() -> str:
    """What ``--version`` prints."""
    return f"emplace.ray {__version__}, ray {ray_version() or 'is not installed'}"


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least 0")
    return value


def _amount(text: str) -> float:
    value = _number(text)
    if value > 1 and value != int(value):
        raise argparse.ArgumentTypeError(f"'{text}' is above 1 and not whole, which Ray refuses")
    return value


def _seconds(text: str) -> float:
    return _number(text.removesuffix("s"))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    value = _whole(text)
    if not 1 <= value <= 4_000:
        raise argparse.ArgumentTypeError(f"'{text}' is not in 1..4000")
    return value


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise EmplaceError(option, f"'{text[:80]}' is not a JSON object", 'give e.g. {"NAME": 1}')
    return value


def _resources(text: str) -> dict[str, float]:
    found = _object("--resources", text)
    for name, amount in found.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            raise EmplaceError("--resources", f"'{name}' is not an amount", 'give e.g. {"NAME": 1}')
        if name in ("CPU", "GPU", "memory"):
            raise EmplaceError(
                "--resources", f"'{name}' has an option of its own", "use --num-cpus, --num-gpus or --memory"
            )
    return {name: float(amount) for name, amount in found.items()}


def _key(path: str) -> bytes:
    """The content of a key file. Raises EmplaceError for a file that is no key. A pair that all share
    does not name its head: the public half is in the file beside it, and is the head's."""
    try:
        content = Path(path).read_bytes()
        key = tomllib.loads(content.decode())
        public, shared = key["public"], "head" not in key and Path(path).with_suffix(".pub").is_file()
    except OSError as error:
        raise EmplaceError(
            path, f"cannot be read ({error.strerror})", "create one with 'emplace keygen'"
        ) from error
    except (ValueError, KeyError) as error:
        raise EmplaceError(path, "is no key file", "create one with 'emplace keygen'") from error
    return content + (f'head = "{public}"\n'.encode() if shared else b"")
