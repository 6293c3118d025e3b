"""A run to take part in: its settings, graphs and devices, and the nodes that join it."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emplace.actor.access import Access, access
from emplace.actor.fetching import FileStore, fetch_manifest
from emplace.actor.graph import Graph
from emplace.actor.node import Actor, Node, NodeAgent, agent_name, host_name, random_number
from emplace.errors import EmplaceError
from emplace.wire.messages import ManifestDelivered

log = logging.getLogger("emplace.actor")
EXECUTORS_PER_NODE = 4_000


@dataclass
class Run:
    """What the head reported about its run."""

    access: Access
    start: str  # "scratch", "best-heuristic".
    config: dict[str, Any]  # config.toml, resolved: docs/reference/config.md lists its keys.
    cluster: dict[str, Any]  # cluster.toml; empty: none.
    graphs: list[Graph]
    devices: list[str]  # Names, in the order of the bytes of a placement; empty: the machine is a text.
    more_starts: bool  # Another start follows at the same address, unless the head ends the run.

    @property
    def task(self) -> str:
        """What executors are asked to have: the hashes of all graphs, one after the other."""
        return "".join(graph.sha256 for graph in self.graphs)

    def graph(self, sha256: str) -> Graph | None:
        return next((graph for graph in self.graphs if graph.sha256 == sha256), None)

    def setting(self, section: str, key: str, otherwise: Any) -> Any:
        return self.config.get(section, {}).get(key, otherwise)

    @property
    def learns(self) -> bool:
        """Whether the run has a learner: every method but `random`."""
        return bool(self.setting("policy", "method", "hierarchical") != "random")

    def roles_of(self, node: str) -> list[str]:
        """The roles that the cluster file gives to a node. Raises EmplaceError."""
        nodes = self.cluster.get("node", [])
        for one in nodes:
            if one.get("name") == node and one.get("start") == "join":
                return list(one.get("roles", []))
        names = ", ".join(one["name"] for one in nodes if one.get("start") == "join") or "none"
        raise EmplaceError(
            f"node '{node}'",
            'is not in the run\'s cluster file with start = "join"',
            f"nodes that may join: {names}",
        )

    def join(self, actors: Mapping[str, Actor], node: str = "", patience: float = 10.0) -> str:
        """Takes part with these actors, by name, until this start of the run ends. Returns why it ended;
        `more_starts` is then false if the head reported that the run is over. Raises EmplaceError.
        """
        name = node or f"{host_name()}-{random_number()}"
        here = Node(self.access, name, patience)
        for actor_name, actor in actors.items():
            here.add(actor_name, actor)
        here.add(agent_name(name), NodeAgent())
        log.info("joined %s as %s: %s", self.access.endpoint, name, ", ".join(actors))
        reason = here.run()
        self.more_starts = self.more_starts and not here.link.run_is_over
        return reason


def fetch(
    address: str | os.PathLike[str],
    key: str | os.PathLike[str] | None = None,
    *,
    insecure: bool = False,
    cache: str | os.PathLike[str] | None = None,
    patience: float = 10.0,
) -> Run:
    """Asks a head for its run; nothing joins yet. Arguments as of `emplace join`. Raises EmplaceError."""
    way = access(address, key, insecure)
    manifest, store = fetch_manifest(way, Path(cache) if cache else None, patience)
    return _run_of(way, manifest, store)


def join(
    address: str | os.PathLike[str],
    make: Callable[[Run], Mapping[str, Actor]],
    key: str | os.PathLike[str] | None = None,
    *,
    insecure: bool = False,
    node: str = "",
    cache: str | os.PathLike[str] | None = None,
    patience: float = 10.0,
) -> str:
    """Joins a running head with the actors that `make(run)` returns, and each further start of the run with
    new ones.

    `node`: the node of the cluster file (start = "join") whose roles this process takes; empty: executors
    only. Returns why it ended. Raises EmplaceError: no head, refused, gone.
    """
    reason, first = "", True
    while True:
        try:
            run = fetch(address, key, insecure=insecure, cache=cache, patience=patience)
        except EmplaceError:
            if first:
                raise
            return reason  # The run ended without another start.
        if node:
            run.roles_of(node)
        reason, first = run.join(make(run), node, patience), False
        if not run.more_starts or reason.startswith("SIG"):
            return reason


def _run_of(way: Access, manifest: ManifestDelivered, store: FileStore) -> Run:
    config = tomllib.loads(manifest.config)
    settings = config.get("input", {})
    options = _graph_options(settings)
    files = {file.path: file for file in manifest.files}
    names = settings.get("graphs") or [settings.get("graph", "")]
    missing = [name for name in names if name not in files]
    if missing:
        raise EmplaceError(
            way.endpoint, f"its manifest lacks the graph '{missing[0]}'", "use the same release on both ends"
        )
    graphs = [Graph(store.path_of(files[name]), name, options) for name in names]
    machine, devices = settings.get("devices", ""), []
    if machine in files:
        devices = device_names(tomllib.loads(store.path_of(files[machine]).read_text()))
    cluster = tomllib.loads(manifest.cluster) if manifest.cluster else {}
    return Run(way, manifest.start, config, cluster, graphs, devices, manifest.more_starts)


def _graph_options(settings: dict[str, Any]) -> tuple[str, ...]:
    options: list[str] = []
    if settings.get("from"):
        options += ["--from", settings["from"]]
    if settings.get("shape"):
        options += [
            "--shape",
            settings["shape"] if isinstance(settings["shape"], str) else ",".join(settings["shape"]),
        ]
    if settings.get("batch"):
        options += ["--batch", str(settings["batch"])]
    return tuple(options)


def device_names(document: dict[str, Any]) -> list[str]:
    """The names of a device file's devices in order; empty if the program alone knows them (a kind of the
    catalogue).
    """
    names: list[str] = []
    for device in document.get("device", []):
        if "name" not in device or device.get("count", 1) != 1:
            return []
        names.append(device["name"])
    return names
