"""The measurement of a placement by the program's simulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

PROGRAM = os.environ.get("EMPLACE_PROGRAM") or shutil.which("emplace")
needs_program = pytest.mark.skipif(PROGRAM is None, reason="the program is not built: set EMPLACE_PROGRAM")


def _json(*arguments: str) -> Any:
    done = subprocess.run([str(PROGRAM), *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def evaluate(
    document: dict[str, Any], placement: dict[str, str], machine: str = "h100 x 3"
) -> dict[str, Any]:
    """The JSON of ``emplace evaluate``; devices are gpu:0, gpu:1, gpu:2."""
    with tempfile.TemporaryDirectory() as folder:
        graph, file = Path(folder, "graph.json"), Path(folder, "placement.json")
        graph.write_text(json.dumps(document))
        found = _json("inspect", str(graph))
        file.write_text(
            json.dumps(
                {
                    "format": "emplace-placement",
                    "version": 1,
                    "graph": document["name"],
                    "graph_sha256": found["graph_sha256"],
                    "devices": sorted(set(placement.values())),
                    "ops": placement,
                }
            )
        )
        return dict(_json("evaluate", str(graph), str(file), "-d", machine))
