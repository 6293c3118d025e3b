"""The machine that a graph is placed on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from emplace.program import Json, run_command
from emplace.scratch import Scratch

# The smallest graph: the program lists the devices of a machine when it inspects a graph on it.
_PROBE = {
    "format": "emplace-graph v1",
    "name": "probe",
    "ops": [
        {"id": 0, "name": "x", "type": "Input", "inputs": [], "outputs": [{"dtype": "f32", "shape": []}]}
    ],
}


@dataclass(frozen=True)
class Device:
    """One device of a machine."""

    name: str
    """The name that placements use: "gpu:0", in a cluster "host0/gpu:0"."""
    profile: str
    memory_bytes: int


class Machine:
    """Devices and their links. ``emplace.machine`` is this class:

    ``em.machine("h100 x 4, epyc9654")`` takes names of the catalogue (docs/reference/machines.md),
    ``em.machine("box.toml")`` a device file, and ``em.machine.here()`` is the machine that this process runs
    on, with the memory that is free when a command runs.
    """

    def __init__(self, text: str | os.PathLike[str]) -> None:
        self.text = os.fspath(text)
        self.devices  # Read now, so that a bad text is refused here.

    @classmethod
    def here(cls) -> Machine:
        """This machine: its CPU and its GPUs."""
        return cls("here")

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order in which results list them."""
        scratch = Scratch()
        probe = scratch.folder / "probe.json"
        probe.write_text(json.dumps(_PROBE), encoding="utf-8")
        result: Json = run_command("inspect", [probe, "--devices", self.text]).result
        return tuple(
            Device(entry["name"], entry["profile"], entry["memory_bytes"]) for entry in result["devices"]
        )

    @property
    def names(self) -> list[str]:
        """The names of the devices."""
        return [device.name for device in self.devices]

    def __len__(self) -> int:
        return len(self.devices)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<emplace.Machine {self.text!r}: {', '.join(self.names)}>"
