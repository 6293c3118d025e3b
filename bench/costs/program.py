"""The program's answers about step times and times of ops."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from tables import Failed, run_program

#: The card of today's catalogue that stood for a measured one before the catalogue had it.
STAND_INS = {
    "a100_pcie_40": "a100_40",
    "a100_pcie_80": "a100_80",
    "p100_pcie_16": "p100",
    "v100_pcie_32": "v100_32",
}


class Program:
    """`emplace`, which may be older than version 2 of the costs: then there are no answers of version 2."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self._folder = path, folder

    @functools.cached_property
    def has_version_2(self) -> bool:
        return self._machine_file("h100", 2) is not None

    def step(self, graph: Path, device: str, version: int) -> dict[str, Any] | None:
        """The answer of `place` for the graph on one device; nothing if the program does not know the device
        or the version."""
        machine = self._machine_file(device, version)
        if machine is None:
            return None
        words = ["place", str(graph), "--devices", str(machine), "--method", "single-gpu"]
        # 3: it does not fit in memory; the step is simulated all the same.
        answer: dict[str, Any] = run_program(str(self.path), words, (0, 3))
        return answer

    def op_times(self, graph: Path, device: str, version: int) -> dict[str, float] | None:
        """The time of every op that takes some [us], by name."""
        machine = self._machine_file(device, version)
        if machine is None:
            return None
        placement = self._folder / "placement.json"
        words = ["--devices", str(machine)]
        run_program(
            str(self.path), ["place", str(graph), *words, "--method", "single-gpu", "-o", str(placement)]
        )
        words += ["--graph", str(graph), "--op", ".", "--top", "1000000"]
        found = run_program(str(self.path), ["explain", str(placement), *words])
        return {item["op"]: 1e6 * item["time_s"] for item in found["items"]}

    @functools.cache
    def _machine_file(self, device: str, version: int) -> Path | None:
        """One such device, with memory for any graph: a file without a version has version 1."""
        for name in (device, STAND_INS.get(device, device)):
            path = self._folder / f"{name}-{version}.toml"
            text = f'[[device]]\nname = "gpu:0"\nprofile = "{name}"\nmemory = "100TiB"\n'
            path.write_text((f"costs = {version}\n" if version != 1 else "") + text)
            if self._accepts(path):
                return path
        return None

    def _accepts(self, machine: Path) -> bool:
        ops = [
            {"id": 0, "name": "x", "type": "Input", "inputs": [], "attrs": {}, "flops": 0, "param_bytes": 0}
        ]
        ops[0]["outputs"] = [{"dtype": "f32", "shape": [1]}]
        document = {"format": "emplace-graph v1", "name": "x", "source": "bench", "meta": {}, "ops": ops}
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self._folder) as graph:
            json.dump(document, graph)
            graph.flush()
            try:
                run_program(str(self.path), ["inspect", graph.name, "--devices", str(machine)])
            except Failed:
                return False
        return True
