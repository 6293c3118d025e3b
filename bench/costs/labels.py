"""The whole models of ../shared/measured-gpus: steps, sums of their nodes, and labels to distrust."""

from __future__ import annotations

import csv
import gzip
import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: First and last node of the one layer that was measured, by family of models.
LAYER = {
    "bert": ("bert_encoder_layer_0_attention_self_query", "bert_encoder_layer_0_output_layer_norm"),
    "gpt": ("transformer_h_0_ln_1", "add_15"),
}
#: Functions whose nodes launch kernels although no tensor comes out.
WITH_KERNELS = re.compile(r"(split|full)(_\d+)?$")
#: Backward is 1.54 to 2.02 times forward but in five labels, whose forward is not that of their nodes.
LEAST_BACKWARD = 1.5
#: A larger batch takes no more time a sequence, but for noise.
MOST_PER_SEQUENCE = 1.04


@dataclass(frozen=True)
class Node:
    """One node of the traced model. Times in ms; a node of the layer counts `times`, once a layer."""

    forward: float
    backward: float
    times: int
    no_kernel: bool


@dataclass(frozen=True)
class Label:
    """One measured model. Times in ms."""

    device: str
    model: str
    mode: str
    seq: int
    batch: int
    step: float
    forward: float
    backward: float
    nodes: tuple[Node, ...]

    @property
    def graph(self) -> str:
        """What is computed, on whatever device."""
        return f"{self.model}-{self.mode}-{self.seq}-{self.batch}"

    @property
    def key(self) -> str:
        return f"{self.device}/{self.graph}"

    def sum_of_nodes(self, phases: Sequence[str] = ("forward", "backward"), less: float = 0) -> float:
        """Time of all nodes [ms], each `less` this time."""
        total = 0.0
        for node in self.nodes:
            total += node.times * sum(max(0.0, getattr(node, phase) - less) for phase in phases)
        return total


def _node(row: dict[str, str], times: int) -> Node:
    nothing = row["output_shape"] == "(1,)" and row["dtype"] in ("", "None")
    backward = float(row["backward_ms"]) + float(row["accumulate_ms"])
    return Node(float(row["forward_ms"]), backward, times, nothing and not WITH_KERNELS.match(row["node"]))


def read(path: Path) -> Label:
    """The label of one DEVICE/MODEL-MODE-SEQ-BATCH.csv.gz and of the .json beside it."""
    model, mode, seq, batch = path.name.removesuffix(".csv.gz").rsplit("-", 3)
    numbers = json.loads(path.with_name(path.name.replace(".csv.gz", ".json")).read_text())
    with gzip.open(path, "rt") as text:
        rows = list(csv.DictReader(text))
    names = [row["node"] for row in rows]
    first, last = (names.index(name) for name in LAYER["bert" if model.startswith("bert") else "gpt"])
    layers = int(numbers["num_layer"])
    nodes = tuple(_node(row, layers if first <= i <= last else 1) for i, row in enumerate(rows))
    step, forward, backward = (float(numbers[key]) for key in ("e2e_latency", "fw_latency", "bwall_latency"))
    return Label(path.parent.name, model, mode, int(seq), int(batch), step, forward, backward, nodes)


def read_all(root: Path) -> list[Label]:
    """All of them, in the bytewise order of their paths."""
    paths = sorted(root.glob("*/*.csv.gz"), key=lambda path: str(path.relative_to(root)).encode())
    return [read(path) for path in paths]


def _floors(labels: Iterable[Label]) -> dict[str, float]:
    """By device the median time of nodes without a kernel [ms]: what measuring a node costs."""
    times: dict[str, list[float]] = {}
    for label in labels:
        mine = times.setdefault(label.device, [])
        mine += [node.forward for node in label.nodes if node.no_kernel]
    return {device: statistics.median(found) for device, found in times.items()}


def is_suspect(label: Label) -> bool:
    """Whether a step of training contradicts itself: its forward takes too long beside its backward."""
    return label.mode == "train" and label.backward < LEAST_BACKWARD * label.forward


def doubts(labels: Sequence[Label]) -> dict[str, list[str]]:
    """By key of a label, what it contradicts: itself, its nodes, or a smaller batch on the same device."""
    floors, found = _floors(labels), {label.key: list[str]() for label in labels}
    for label in labels:
        if is_suspect(label):
            found[label.key].append(f"backward is {label.backward / label.forward:.2f} of forward")
        for phase, time in (("forward", label.forward), ("backward", label.backward)):
            if not time:
                continue
            nodes = label.sum_of_nodes([phase]) / time
            above_floor = label.sum_of_nodes([phase], floors[label.device]) / time
            if nodes < 0.9 or above_floor > 1.1:
                found[label.key].append(f"nodes of {phase} sum to {nodes:.2f} of it")
        for other in labels:
            same = (other.device, other.model, other.mode) == (label.device, label.model, label.mode)
            if same and other.batch < label.batch:
                ratio = label.step / label.batch / (other.step / other.batch)
                if ratio > MOST_PER_SEQUENCE:
                    found[label.key].append(f"{ratio:.2f} of the time per sequence of batch {other.batch}")
    return {key: texts for key, texts in found.items() if texts}
