"""A graph of a run: its ops, and the hash that executors and proposals name it by."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from functools import cached_property
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]
import numpy as np
from numpy.typing import NDArray

from emplace.errors import EmplaceError
from emplace.program import run_command

_MAX_F32 = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


class Graph:
    """A graph file of a run. Files that are not `emplace-graph v1` are named by the program, if it is
    installed.
    """

    def __init__(self, path: Path, name: str = "", options: tuple[str, ...] = ()) -> None:
        self.path, self.file = path, name or path.name
        self._options = options  # How the program reads the file: --from, --shape, --batch.

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document of docs/reference/file_formats.md. Raises EmplaceError for another format."""
        data = self.path.read_bytes()
        try:
            if data[:2] == b"\x1f\x8b":
                data = gzip.decompress(data)
            text = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
            document = json.loads(data) if text else msgpack.unpackb(data, raw=False, strict_map_key=False)
        except (OSError, EOFError, ValueError, msgpack.UnpackException):
            document = None
        if not isinstance(document, dict) or document.get("format") != "emplace-graph v1":
            raise EmplaceError(
                self.file, "is not an emplace graph", "convert it: emplace import FILE -o GRAPH.json"
            )
        return document

    @cached_property
    def ops(self) -> list[dict[str, Any]]:
        """Its ops, in the order of ids."""
        ops: list[dict[str, Any]] = self.document["ops"]
        return ops

    @property
    def num_ops(self) -> int:
        return len(self.ops)

    @cached_property
    def leaders(self) -> NDArray[np.int64]:
        """[ops] The lowest op of those that must share a device with each op (`colocate`).

        `placements[:, graph.leaders]` obeys that. Rules of the run and `devices` of ops are the sampler's to
        obey.
        """
        leaders = np.arange(self.num_ops)

        def leader(op: int) -> int:
            while leaders[op] != op:
                leaders[op] = leaders[leaders[op]]
                op = int(leaders[op])
            return op

        for op in self.ops:
            if op.get("colocate") is not None:
                one, other = leader(op["id"]), leader(op["colocate"])
                leaders[max(one, other)] = min(one, other)
        return np.array([leader(op) for op in range(self.num_ops)])

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over the canonical MessagePack of the ops. Raises EmplaceError."""
        try:
            ops = self.ops
        except EmplaceError:  # Another format: the program reads it, or its error is raised.
            return str(run_command("inspect", [self.path, *self._options]).result["graph_sha256"])
        return hashlib.sha256(canonical_ops(ops)).hexdigest()


def canonical_ops(ops: list[dict[str, Any]]) -> bytes:
    """The ops as MessagePack with sorted keys, without defaults, each number in its shortest form."""
    return b"".join(
        [_packer.pack_array_header(len(ops)), *(_pack(_canonical(i, op)) for i, op in enumerate(ops))]
    )


def _canonical(index: int, op: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": index,
        "name": op["name"],
        "type": op["type"],
        "inputs": op["inputs"],
        "outputs": [{"dtype": output["dtype"], "shape": output["shape"]} for output in op["outputs"]],
        "attrs": op.get("attrs") or {},
        "flops": op.get("flops") or 0,
        "param_bytes": op.get("param_bytes") or 0,
        "phase": op.get("phase") or "forward",
    }
    found |= {key: op[key] for key in ("group", "measured_us") if op.get(key)}
    found |= {key: op[key] for key in ("colocate", "devices") if op.get(key) is not None}
    if "measured_us" in found:
        found["measured_us"] = {name: float(us) for name, us in found["measured_us"].items()}
    return found


_packer = msgpack.Packer(use_bin_type=True, unicode_errors="surrogateescape")


def _pack(value: Any) -> bytes:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: str(key).encode(errors="surrogateescape"))
        return b"".join(
            [
                _packer.pack_map_header(len(keys)),
                *(part for key in keys for part in (_pack(key), _pack(value[key]))),
            ]
        )
    if isinstance(value, list):
        return b"".join([_packer.pack_array_header(len(value)), *map(_pack, value)])
    if isinstance(value, float):
        exact = abs(value) <= _MAX_F32 and struct.unpack(">f", struct.pack(">f", value))[0] == value
        return b"\xca" + struct.pack(">f", value) if exact else b"\xcb" + struct.pack(">d", value)
    packed: bytes = _packer.pack(value)
    return packed
