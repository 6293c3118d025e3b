"""The command line of ``python -m emplace.ray``."""

from __future__ import annotations

import argparse
import copy
import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emplace.command_line import Parser, whole
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


def _few(text: str) -> int:
    if not 1 <= whole(text) <= 4_000:
        raise argparse.ArgumentTypeError(f"'{text}' is not in 1..4000")
    return int(text)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"'{text[:80]}' is not a JSON object such as {{\"NAME\": 1}}")
    return value


def _resources(text: str) -> dict[str, float]:
    found = _object(text)
    for name, amount in found.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            raise argparse.ArgumentTypeError(f"'{name}' is not an amount such as {{\"NAME\": 1}}")
        if name in ("CPU", "GPU", "memory"):
            cure = "use --num-cpus, --num-gpus or --memory"
            raise argparse.ArgumentTypeError(f"'{name}' has an option of its own; {cure}")
    return {name: float(amount) for name, amount in found.items()}


# Option, name of its value, type, default, help. Without a type it takes no value; a list may be repeated.
_TABLE: list[tuple[str, str, Any, Any, str]] = [
    ("--key", "FILE", str, "", "key file with the roles executor and operator; Ray carries it"),
    ("--key-on-nodes", "PATH", str, "", "key file on the nodes instead (a mounted secret)"),
    ("--insecure", "", None, False, "connect without encryption; the head must allow it too"),
    ("--watch", "ADDRESS", str, "", "address of the head for this process (default: ADDRESS)"),
    ("--max", "N", whole, None, "most executors (default: the demand decides)"),
    ("--executors-per-actor", "K", _few, 1, "executors of one actor (1)"),
    ("--num-cpus", "C", _amount, 1.0, "CPUs of an actor's bundle (1)"),
    ("--num-gpus", "G", _amount, 0.0, "GPUs of an actor's bundle (0)"),
    ("--memory", "BYTES", whole, 0, "memory of an actor's bundle; 0: not asked for"),
    ("--resources", "JSON", _resources, {}, 'custom resources of a bundle, e.g. {"TPU": 4}'),
    ("--runtime-env", "JSON", _object, {}, "runtime environment of the actors, as Ray takes it"),
    ("--env", "NAME", str, [], "hand this variable to the executors; repeatable"),
    ("--ray-address", "WHERE", str, "auto", "auto, local, HOST:PORT or ray://HOST:PORT (auto)"),
    ("--program", "PATH", str, "", "emplace on the nodes (default: the wheel's, or that of PATH)"),
    ("--executor", "KIND", str, "", "kind of the executors (default: that of the run)"),
    ("--model", "M:F", str, "", "model of torch executors, as for emplace join"),
    ("--cache", "FOLDER", str, "", "folder on the nodes that caches graphs"),
    ("--idle", "S", _seconds, 5.0, "seconds before an unneeded actor is drained (5)"),
    ("--retry", "", None, False, "wait for a Ray cluster that does not answer yet"),
    ("--for-launcher", "", None, False, "end when standard input ends; print lines for emplace up"),
    ("--log", "FILE", str, "", "append what Ray prints to this file (default: standard error)"),
    ("--json", "", None, False, "print one JSON object at the end"),
]


def _parser() -> Parser:
    description = "Executors of a run on a Ray cluster, as many as the run asks for."
    parser = Parser(NAME, description, "tcp://10.0.0.1:5555 --key keys/ray.key --max 64 --num-cpus 2")
    where = "address of the head as the nodes of Ray reach it, tcp://HOST:PORT"
    parser.add_argument("address", metavar="ADDRESS", help=where)
    for option, value, kind, default, text in _TABLE:
        if kind is None:
            parser.add_argument(option, action="store_true", help=text)
        else:
            action = "append" if isinstance(default, list) else "store"
            parser.add_argument(
                option, action=action, metavar=value, type=kind, default=copy.copy(default), help=text
            )
    parser.add_argument("--version", action="version", version=version_line())
    return parser


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
        bundle=Bundle(given.num_cpus, given.num_gpus, given.memory, given.resources, given.runtime_env),
        join=join,
        ray_address=given.ray_address,
        programs=programs,
        environment=given.env,
        for_launcher=given.for_launcher,
        retry=given.retry,
        log=given.log,
        json=given.json,
    )


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
