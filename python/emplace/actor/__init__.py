"""Actors in Python: a client of emplace's wire format, written from docs/reference/wire_format.md.

- `fetch(ADDRESS, key=…)`: the settings, graphs and devices of a running run.
- `join(ADDRESS, lambda run: executors(run, Mine), key=…)`: takes part until the run ends.

Subclass `Executor`, `Sampler` or `Learner`; for another actor subclass `Actor` (docs/guide/python_actors.md).
"""

import importlib.util

from emplace.errors import EmplaceError, missing_package

for _module, _package in (("zmq", "pyzmq"), ("msgpack", "msgpack")):
    if importlib.util.find_spec(_module) is None:
        raise missing_package(_package, "emplace.actor")

from emplace.actor.access import Access, Keys, access, load_keys
from emplace.actor.executor import (
    EMULATED,
    MEASURED,
    PARTLY_SYNTHETIC,
    PYTORCH,
    SIMULATED,
    Executor,
    executors,
)
from emplace.actor.frames import Incoming
from emplace.actor.graph import Graph
from emplace.actor.learner import Learner, Scored, UpdateMade, learners
from emplace.actor.log import Episode
from emplace.actor.messages import Measurement
from emplace.actor.node import Actor, Node
from emplace.actor.run import Run, fetch, join
from emplace.actor.sampler import Proposal, Sampler, samplers

__all__ = [
    "EMULATED",
    "MEASURED",
    "PARTLY_SYNTHETIC",
    "PYTORCH",
    "SIMULATED",
    "Access",
    "Actor",
    "EmplaceError",
    "Episode",
    "Executor",
    "Graph",
    "Incoming",
    "Keys",
    "Learner",
    "Measurement",
    "Node",
    "Proposal",
    "Run",
    "Sampler",
    "Scored",
    "UpdateMade",
    "access",
    "executors",
    "fetch",
    "join",
    "learners",
    "load_keys",
    "samplers",
]
