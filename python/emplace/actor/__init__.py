"""Actors in Python: a client of emplace's wire format, written from docs/reference/wire_format.md.

- `fetch(ADDRESS, key=…)`: the settings, graphs and devices of a running run.
- `join(ADDRESS, lambda run: executors(run, Mine), key=…)`: takes part until the run ends.

Subclass `Executor`, `Sampler` or `Learner`; for another actor subclass `Actor` (docs/guide/python_actors.md).
"""

from emplace.errors import EmplaceError, need

need("emplace.actor", zmq="pyzmq", msgpack="msgpack", xxhash="xxhash")

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
from emplace.actor.graph import Graph
from emplace.actor.learner import Learner, Scored, UpdateMade, learners
from emplace.actor.log import Episode
from emplace.actor.node import Actor, Node
from emplace.actor.run import Run, fetch, join
from emplace.actor.sampler import Proposal, Sampler, samplers
from emplace.wire.executor_messages import Measurement
from emplace.wire.frames import Incoming

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
