"""The graph of ops that is placed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emplace.errors import EmplaceError
from emplace.program import Json, run_command
from emplace.scratch import Scratch

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep


@dataclass(frozen=True)
class Op:
    """One op of a graph; ``docs/reference/file_formats.md`` describes the fields."""

    id: int
    name: str
    type: str
    inputs: tuple[tuple[int, int], ...]
    """(producer's id, index of its output), in the order of the arguments."""
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    """(dtype, shape) of each output."""
    flops: int
    param_bytes: int
    scope: str
    """Module path with "/" between levels; empty if the graph has none."""
    phase: str
    colocate: int | None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def _of(entry: Mapping[str, Any]) -> Op:
        return Op(
            id=entry["id"],
            name=entry["name"],
            type=entry["type"],
            inputs=tuple((producer, output) for producer, output in entry["inputs"]),
            outputs=tuple((output["dtype"], tuple(output["shape"])) for output in entry["outputs"]),
            flops=entry.get("flops", 0),
            param_bytes=entry.get("param_bytes", 0),
            scope=entry.get("group") or "",
            phase=entry.get("phase") or "forward",
            colocate=entry.get("colocate"),
            attrs=entry.get("attrs") or {},
        )


class Graph:
    """A graph file, read by the program: made by :func:`emplace.read` and :func:`emplace.trace`.

    ``len(graph)`` is the number of ops, iteration yields them. ``step`` is the traced step if PyTorch made
    the graph.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, reading: tuple[str, ...] = (), step: TracedStep | None = None
    ) -> None:
        self._source = Path(path)
        self.step = step
        self._reading = reading
        self._scratch = Scratch()
        self._has_file = True
        self._document: Json | None = None
        self._made: Json | None = None
        """The document that the package made, for the file; the program counts the work of a trace."""

    @classmethod
    def _from_dict(cls, document: Json, step: TracedStep | None = None) -> Graph:
        """A graph from the dict of an emplace-graph file; its file is written when the program needs it."""
        if document.get("format") != "emplace-graph v1":
            raise EmplaceError("graph", "is not an emplace-graph v1", "set format to 'emplace-graph v1'")
        graph = cls("", step=step)
        graph._made = document
        if step is None:
            graph._document = document
        graph._has_file = False
        return graph

    @property
    def path(self) -> Path:
        """The file that the program reads: the one given to :func:`emplace.read`, or a temporary one."""
        if not self._has_file:
            self._source = self._scratch.folder / "graph.json"
            if not self._source.exists():
                with open(self._source, "w", encoding="utf-8") as out:
                    json.dump(self._made, out)
        return self._source

    @property
    def document(self) -> Json:
        """The graph as the dict of an emplace-graph file (docs/reference/file_formats.md)."""
        if self._document is None:
            self._document = self._load()
        return self._document

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The ops, in the order in which the framework issued them."""
        return tuple(Op._of(entry) for entry in self.document["ops"])

    @property
    def name(self) -> str:
        return str(self.inspection["graph"])

    @property
    def sha256(self) -> str:
        """The hash that placement files refer to: over the ops, so that every form of a graph shares it."""
        return str(self.inspection["graph_sha256"])

    @cached_property
    def inspection(self) -> Json:
        """The JSON of ``emplace inspect``: counts, flops, bytes, and what the reader assumed."""
        return run_command("inspect", self._arguments(), shown=self._shown()).result

    @property
    def _model(self) -> Any:
        """The model that a traced graph was made of; None if it no longer exists."""
        model = getattr(self.step, "model", None)
        return model() if callable(model) and not hasattr(model, "named_modules") else model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph to a file: .json, .json.gz, .json.zst, .epg or .msgpack."""
        arguments = [*self._arguments(), "-o", os.fspath(path)]
        run_command("import", arguments, shown=self._shown())

    def __len__(self) -> int:
        return int(self.inspection["ops"])

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __repr__(self) -> str:
        return f"<emplace.Graph {self.name!r}: {len(self)} ops>"

    def _arguments(self) -> list[str]:
        """The operand and the options of reading, for a command line."""
        return [os.fspath(self.path), *self._reading]

    def _shown(self) -> dict[str, str]:
        """What errors call the temporary file of a graph that has no file of its own."""
        if self._made is None:
            return {}
        return {os.fspath(self.path): f"graph '{self._made.get('name', '')}'"}

    def _batch(self) -> int | None:
        """The size of a traced batch: the first dimension of its tensors, if it is the same."""
        infos = getattr(getattr(self.step, "batch_spec", None), "infos", ())
        sizes = {info.shape[0] if info.shape else None for info in infos if info is not None}
        return sizes.pop() if len(sizes) == 1 else None

    def _load(self) -> Json:
        path = self.path
        if self._has_file and not self._reading and path.name.endswith((".json", ".json.gz")):
            import gzip

            opened = gzip.open if path.name.endswith(".gz") else open
            try:
                with opened(path, "rt", encoding="utf-8") as file:
                    document = json.load(file)
                if isinstance(document, dict) and document.get("format") == "emplace-graph v1":
                    return document
            except (OSError, ValueError):
                pass  # The program names what is wrong with the file.
        converted = self._scratch.folder / "imported.json"
        self.save(converted)
        with open(converted, encoding="utf-8") as file:
            document = json.load(file)
        converted.unlink()
        return dict(document)


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    shape: Mapping[str, int] | None = None,
    batch: int | None = None,
) -> Graph:
    """Reads a graph file of any format that the program reads, a TensorFlow SavedModel folder included.

    ``format`` overrides the detection; ``shape`` and ``batch`` give sizes to open dimensions.
    """
    reading: list[str] = []
    if format is not None:
        reading += ["--from", format]
    if shape:
        reading += ["--shape", ",".join(f"{name}={size}" for name, size in shape.items())]
    if batch is not None:
        reading += ["--batch", str(batch)]
    graph = Graph(path, reading=tuple(reading))
    graph.inspection  # Reads the file now, so that a bad one is refused here.
    return graph
