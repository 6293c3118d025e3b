"""The Ray cluster: creates, drains and kills actors, and reports their ends. Ray is imported here."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emplace.errors import EmplaceError
from emplace.ray import joining
from emplace.ray.crew import Process

OLDEST = (2, 9)
_CURE = "pip install 'ray>=2.9', or name a Python that has it in EMPLACE_PYTHON"


@dataclass(frozen=True)
class Bundle:
    """What an actor asks of a node, and how its worker process is set up."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)

    def needs(self) -> dict[str, float]:
        """The resources by Ray's names, without those of which nothing is requested."""
        named = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory), **self.resources}
        return {name: amount for name, amount in named.items() if amount > 0}

    def fits(self, offer: Mapping[str, float]) -> bool:
        """Whether a node with these resources can hold it."""
        return all(offer.get(name, 0.0) >= amount for name, amount in self.needs().items())


@dataclass(frozen=True)
class Order:
    """What every actor runs: the arguments of `joining.Joiner.start`."""

    programs: list[str]
    words: list[str]
    key: bytes = field(repr=False)
    environment: dict[str, str] = field(repr=False)


@dataclass(frozen=True)
class Placed:
    """Actor `number` was placed on a node of Ray, and its process runs."""

    number: int
    process: Process
    ray_node: str


@dataclass(frozen=True)
class Gone:
    """Actor `number` has ended. `failure`: why, in one line; empty: its process ended well."""

    number: int
    failure: str


def ray_version() -> str:
    """The version of the installed Ray, without importing it; empty if there is none."""
    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return ""


def check_version(version: str) -> None:
    """Raises EmplaceError for no Ray, or one that is too old.

    >>> check_version("2.60.0")
    """
    if not version:
        raise EmplaceError("ray", "is not installed", _CURE)
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if tuple(numbers) < OLDEST:
        raise EmplaceError("ray", f"version {version} is too old, 2.9 is needed", _CURE)


def first_line(error: BaseException) -> str:
    """The first sentence of an error of Ray, which is often a page."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).split(". ")[0].rstrip(".")[:300]


def check_reachable(address: str, seconds: float = 5.0) -> None:
    """Raises EmplaceError if nothing listens at the address, or at the one that "auto" stands for: Ray would
    try for a minute, and then end this process. An address that Ray finds in another way is not checked.
    """
    found = _current_cluster() if address == "auto" else address
    host, colon, port = found.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except (OSError, ValueError) as error:
        what = f"does not answer ({first_line(error)})" if isinstance(error, OSError) else "is not HOST:PORT"
        raise EmplaceError(f"Ray at '{found}'", what, _cure_of(address, error)) from error


def _current_cluster() -> str:
    """Where ray.init("auto") looks first: RAY_ADDRESS, and the file of the last `ray start` here."""
    named = os.environ.get("RAY_ADDRESS", "")
    if named:
        return named
    try:
        return Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster").read_text().strip()
    except OSError:
        return ""


class RayCluster:
    """A connection to a Ray cluster, and our actors on it. One per process. The methods are called on one
    thread; `post` is called on threads of Ray.
    """

    def __init__(self, bundle: Bundle, post: Callable[[Placed | Gone], None]) -> None:
        self._bundle = bundle
        self._post = post
        self._actors: dict[int, Any] = {}
        self._ray: Any = None
        self._make: Any = None

    def connect(self, address: str) -> str:
        """Connects, or starts a Ray of our own on this machine ("local"). Returns the address of this machine
        as nodes of Ray know it; empty for a client (ray://), which is not one of them. Raises EmplaceError.
        """
        check_version(ray_version())
        check_reachable(address)
        self._ray = ray = importlib.import_module("ray")
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False if address == "local" else None,
                configure_logging=False,
            )
        except Exception as error:
            ray.shutdown()
            raise EmplaceError(f"Ray at '{address}'", first_line(error), _cure_of(address, error)) from error
        ray.cloudpickle.register_pickle_by_value(joining)
        self._make = ray.remote(joining.Joiner).options(
            num_cpus=self._bundle.cpus,
            num_gpus=self._bundle.gpus,
            memory=self._bundle.memory or None,
            resources=dict(self._bundle.resources) or None,
            runtime_env=dict(self._bundle.runtime_env) or None,
            max_restarts=0,  # The crew decides whether a successor is needed.
            max_concurrency=3,
        )
        return "" if address.startswith("ray://") else str(ray.util.get_node_ip_address())

    def start(self, number: int, order: Order) -> None:
        """Creates an actor; it is pending until Ray has room for it."""
        try:
            actor = self._make.remote()
            self._actors[number] = actor
            started = actor.start.remote(order.programs, order.words, order.key, order.environment)
            ended = actor.wait.remote()
            # Callbacks must not call Ray: a client's would wait for themselves.
            started.future().add_done_callback(lambda done: self._on_started(number, done))
            ended.future().add_done_callback(lambda done: self._on_ended(number, done))
        except Exception as error:
            self._post(Gone(number, first_line(error)))

    def drain(self, number: int) -> None:
        """Lets its process give its leases back and end; `Gone` follows."""
        if number in self._actors:
            self._quietly(lambda: self._actors[number].drain.remote())

    def release(self, number: int) -> None:
        """Kills the actor and forgets it; `Gone` follows if it was not reported before."""
        actor = self._actors.pop(number, None)
        if actor is not None:
            self._quietly(lambda: self._ray.kill(actor, no_restart=True))

    def close(self) -> None:
        """Leaves the cluster; Ray kills the actors that are left."""
        self._actors.clear()
        if self._ray is not None:
            self._quietly(self._ray.shutdown)

    def shortage(self, pending: int, post: Callable[[str], None]) -> None:
        """Reports why actors have no node, from a thread: the question may take long."""
        threading.Thread(target=lambda: post(self._shortage(pending)), daemon=True).start()

    def _shortage(self, pending: int) -> str:
        try:
            nodes = [node.get("Resources", {}) for node in self._ray.nodes() if node.get("Alive")]
        except Exception as error:
            return f"the Ray cluster does not answer: {first_line(error)}"
        needs = (
            ", ".join(f"{name} {amount:g}" for name, amount in self._bundle.needs().items()) or "no resources"
        )
        if any(self._bundle.fits(offer) for offer in nodes):
            return f"the Ray cluster is full: {pending} actors wait for {needs}"
        return f"no node of the Ray cluster has {needs}: {pending} actors wait until one comes"

    def _on_started(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            return self._post(Gone(number, first_line(error)))
        facts = done.result()
        if "failure" in facts:
            return self._post(Gone(number, facts["failure"]))
        self._post(Placed(number, Process(facts["host"], facts["pid"]), facts["node"]))

    def _on_ended(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            return self._post(Gone(number, first_line(error)))
        ended = done.result()
        last = ended["last"].removeprefix("error: ")
        well = ended["status"] == 0
        self._post(Gone(number, "" if well else last or f"emplace join ended with status {ended['status']}"))

    @staticmethod
    def _quietly(act: Callable[[], Any]) -> None:
        """Ignores errors: calls that end an actor fail if the actor, or Ray, is gone already."""
        try:
            act()
        except Exception:
            pass


def _cure_of(address: str, error: BaseException) -> str:
    if "mismatch" in str(error):
        return "use the versions of Ray and Python that the cluster has"
    if address == "auto":
        return "start one with 'ray start --head', set RAY_ADDRESS, or use --ray-address local"
    if address == "local":
        return "see the logs in /tmp/ray/session_latest/logs"
    return "is the address right, and does the cluster run? 'ray status' asks it"
