"""Megatron's steps on A100, as vTrain published them, beside those of `emplace evaluate --micro-batches`.

What is known of the program: FP16 without recomputation on one host, with it on many (the activations would
not fit otherwise); 1F1B; stages of equally many layers; the vocabulary of vTrain's own model, 50,257; gradients
in FP16 that are added up over the replicas after the last micro-batch. What is known of the machine: A100 SXM
with 80 GB (the largest steps need more than 40 GB), NVLink, and on many hosts 800 Gbit/s for each of them.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from measured.megatron import Gpt, layer_name, step
from measured.rows import Row, interpolated
from measured.step_graph import STATE, evaluate, even_stages

VOCABULARY = 50257
HOST_GPUS, NIC_BYTES_PER_S = 8, 100e9
#: An estimate: PyTorch's padding of such products makes a compiled step of GPT-2 in FP16 on an A100 30 % faster
#: (intel/torch-xpu-ops#1129), of which the padded products are about 15 %.
UNALIGNED_RATE = 1 / 3


@dataclass(frozen=True)
class Measured:
    """A row of the source."""

    gpus: int
    global_batch: int
    batch: int
    hidden: int
    heads: int
    layers: int
    sequence: int
    tensor: int
    data: int
    stages: int
    ms: float

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one replica."""
        return self.global_batch // (self.batch * self.data)

    def model(self) -> Gpt:
        return Gpt(
            hidden=self.hidden,
            heads=self.heads,
            layers=self.layers,
            sequence=self.sequence,
            batch=self.batch,
            vocabulary=VOCABULARY,
            tied=self.stages == 1,
            recompute=self.gpus > HOST_GPUS,
        )


def read_rows(path: Path) -> list[Measured]:
    """The rows of a file. The one of many hosts has the number of parameters in front."""
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text))[1:]
    return [Measured(*map(int, row[-11:-1]), float(row[-1])) for row in rows]


class AllReduce:
    """The time of NCCL's all-reduce: measured on the GPUs of one host, by the network's rate on more."""

    def __init__(self, folder: Path) -> None:
        self._tables: dict[int, list[tuple[float, float]]] = {}
        for path in folder.glob("allreduce-a100-*.txt.gz"):
            with gzip.open(path, "rt", encoding="utf-8") as text:
                rows = list(csv.reader(text))[1:]
            points = [(float(row[0]), min(float(row[3]), float(row[5])) * 1e-6) for row in rows]
            self._tables[int(path.name.split("-")[-1].split(".")[0])] = sorted(points)

    def ms(self, gpus: int, size: float) -> float:
        if gpus == 1:
            return 0
        if gpus in self._tables:
            return interpolated(self._tables[gpus], size)
        return 2 * (gpus - 1) / gpus * size / NIC_BYTES_PER_S * 1e3


def layer_slopes(rows: Iterable[Measured]) -> dict[tuple[int, int, int], float]:
    """{(hidden, batch, tensor): ms} What a layer adds to a micro-batch: the time of a micro-batch more, by the
    number of layers. Rows of one stage alone."""
    steps: dict[tuple[int, ...], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.stages == 1:
            key = (row.hidden, row.batch, row.tensor, row.layers, row.data)
            steps[key][row.micro_batches] = row.ms
    by_layers: dict[tuple[int, int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (hidden, batch, tensor, layers, _), times in steps.items():
        few, many = min(times), max(times)
        if many > few:
            each = (times[many] - times[few]) / (many - few)
            by_layers[hidden, batch, tensor][layers].append(each)
    slopes = {}
    for model, times in by_layers.items():
        few, many = min(times), max(times)
        if many > few:
            slopes[model] = (fmean(times[many]) - fmean(times[few])) / (many - few)
    return slopes


def issued_ops() -> int:
    """Ops of a layer that the host issues for a micro-batch: kernels, and one to add each gradient up."""
    graph = step(Gpt(64, 1, 1, 16, 1, 64, tied=True))
    own = [op for op in graph.ops if op["group"] == layer_name(0) and op["phase"] != "update"]
    parameters = sum(op["type"] == "Parameter" for op in own)
    return sum(op["type"] not in STATE and not op["attrs"].get("view") for op in own) + parameters


def host_us(rows: Iterable[Measured], reduce: AllReduce) -> float:
    """The time that the host needs for an op, from steps with tensor degree 2 and 4, which are not predicted.

    The smallest model and micro-batch leave the GPUs so little that the host decides. A layer then also has
    four all-reduces of its result."""
    split = [row for row in rows if row.tensor in (2, 4)]
    hidden, batch = min((row.hidden, row.batch) for row in split)
    size = 2.0 * batch * split[0].sequence * hidden
    slopes = layer_slopes(split)
    each = [
        (slopes[hidden, batch, tensor] - 4 * reduce.ms(tensor, size)) / issued_ops() * 1e3
        for tensor in (2, 4)
        if (hidden, batch, tensor) in slopes
    ]
    if not each:
        raise ValueError("no steps with tensor degree 2 or 4 show the time of the host")
    return fmean(each)


def machine(stages: int, hosts: bool, dispatch_us: float, unaligned_rate: float) -> str:
    """The device file of one replica; with `hosts` its stages are on different hosts."""
    text = f"""costs = 2
[[profile]]
name = "a100"
base = "a100_80"
dispatch = "{dispatch_us:.3f}us"
unaligned_rate = {unaligned_rate:.4f}
[[device]]
profile = "a100"
count = {stages}
"""
    link = f'bandwidth = "{NIC_BYTES_PER_S / HOST_GPUS * 1e-9}GB/s"\nlatency = "10us"'
    link = link if hosts else 'profile = "nvlink3"'
    return text + (f'[[link]]\nbetween = ["gpu:*", "gpu:*"]\n{link}\n' if stages > 1 else "")


class Predictor:
    """Predicts steps; equal replicas are simulated once. Threads may share it."""

    def __init__(self, program: str, dispatch_us: float, unaligned_rate: float) -> None:
        self._program, self._machine = program, (dispatch_us, unaligned_rate)
        self._ms = lru_cache(maxsize=None)(self._simulated_ms)

    def _simulated_ms(self, row: Measured) -> float:
        model = row.model()
        stage_of = even_stages(model.layers, row.stages)
        device_of = {layer_name(layer): f"gpu:{stage}" for layer, stage in enumerate(stage_of)}
        device_of |= {"embedding": "gpu:0", "head": f"gpu:{row.stages - 1}"}
        text = machine(row.stages, row.gpus > HOST_GPUS, *self._machine)
        graph = step(model)
        result = evaluate(self._program, graph, device_of, text, row.micro_batches)
        return 1e3 * float(result["step_time_s"])

    def row(self, row: Measured, reduce: AllReduce) -> Row:
        """A step beside its prediction. After the last micro-batch the largest stage's gradients are added up
        over its replicas."""
        alone = replace(row, global_batch=row.batch * row.micro_batches, data=1, ms=0)
        gradients = 2.0 * max(row.model().parameters(row.stages))
        predicted = self._ms(alone) + reduce.ms(row.data, gradients)
        groups = {
            "stages": f"stages {row.stages}",
            "replicas": f"replicas {row.data}",
            "model": f"width {row.hidden}, micro-batch {row.batch}",
            "micro-batches": f"micro-batches {row.micro_batches}",
        }
        name = f"{row.hidden} x {row.layers}, {row.gpus} GPUs"
        return Row(name, row.ms, predicted, groups)


def judged(rows: Sequence[Measured]) -> list[Measured]:
    """Steps without tensor parallelism."""
    return [row for row in rows if row.tensor == 1]
