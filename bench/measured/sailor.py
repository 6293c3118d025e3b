"""Sailor's measured plans beside steps from its layer profiles: unlike GPUs, stages, replicas.

A tensor-parallel group of GPUs is one device here: the profiles have its times. Of two outer keys of a profile
the first is the micro-batch and the second the tensor degree: so the times grow with the first and shrink with
the second. What is known of the program: FP32, Adam; 1F1B with blocking sends and receives (DeepSpeed), each of
which occupies both devices; gradients are added up over the replicas after the last micro-batch.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from measured.rows import Row
from measured.step_graph import StepGraph, evaluate

PHASES = ("forward", "backward", "update")
Times = dict[str, list[float]]  # {layer: [seconds of each phase]}


@dataclass(frozen=True)
class Stage:
    """The layers of a stage, and the groups of GPUs of its replicas."""

    layers: tuple[int, ...]
    groups: tuple[tuple[str, int], ...]  # [replicas] (kind, tensor degree)


@dataclass(frozen=True)
class Plan:
    """A measured plan."""

    name: str
    model: str
    batch: int
    micro_batches: int
    stages: tuple[Stage, ...]
    seconds: float
    peak_bytes: float

    @property
    def replicas(self) -> int:
        return len(self.stages[0].groups)

    @property
    def is_alike(self) -> bool:
        return len({group for stage in self.stages for group in stage.groups}) == 1


def read_plan(path: Path) -> Plan:
    """A plan. The model is the one with as many layers as it places."""
    source = json.loads(path.read_text(encoding="utf-8"))
    pipeline = source["pipeline_list"][0]
    stages = tuple(
        Stage(tuple(layers), tuple((group[0][0][0], group[1]) for group in groups))
        for layers, groups in zip(pipeline["layers_per_stage"], pipeline["tmp_per_stage"])
    )
    layers = sum(len(stage.layers) for stage in stages)
    model = {26: "OPT-350", 34: "GPT-Neo-2.7"}[layers]
    micro_batches = source["gbs"] // (source["mbs"] * pipeline["dp"][0])
    return Plan(path.stem, model, source["mbs"], micro_batches, stages, source["real"], source["max_mem"])


def never_faster(profile: dict[str, dict[str, Times]], batch: int, tensor: int) -> Times:
    """The times of a micro-batch, none longer than that of a larger one on the same GPUs: where a profile has
    that, the smaller one was measured late."""
    sizes = [size for size in map(int, profile) if size >= batch and str(tensor) in profile[str(size)]]
    if batch not in sizes:
        raise KeyError(f"micro-batch {batch}, tensor degree {tensor}")
    of = {size: profile[str(size)][str(tensor)] for size in sizes}
    return {
        layer: [min(of[size][layer][phase] for size in sizes) for phase in range(3)] for layer in of[batch]
    }


class Source:
    """The profiles, shapes and links of the source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shapes = self._unpacked("llm_info.json.gz")
        self._links = self._unpacked("multizone_bandwidths_het.json.gz")["us-central1-a"]
        self.profile = lru_cache(maxsize=None)(self._profile)

    def _unpacked(self, name: str) -> Any:
        with gzip.open(self._folder / name, "rt", encoding="utf-8") as text:
            return json.load(text)

    def plans(self) -> list[Plan]:
        return [read_plan(path) for path in sorted((self._folder / "plans").glob("*.json"))]

    def _profile(self, model: str, kind: str) -> dict[str, dict[str, Times]]:
        path = self._folder / "profiles" / f"{model}-{kind}.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def times(self, plan: Plan, group: tuple[str, int]) -> Times:
        """[layers] Of a plan's micro-batch on a group of GPUs. KeyError: they were not measured."""
        times = never_faster(self.profile(plan.model, group[0]), plan.batch, group[1])
        if missing := {str(layer) for stage in plan.stages for layer in stage.layers} - times.keys():
            raise KeyError(f"{len(missing)} layers of {plan.model} on {group[0]}")
        return times

    def shapes(self, plan: Plan, tensor: int) -> dict[str, dict[str, int]]:
        """[layers] Bytes on one GPU of a group, for a batch of one."""
        return self._shapes[plan.model][str(tensor)]

    def bytes_per_s(self, one: str, other: str) -> float:
        """The link of two kinds: the fastest of its entries, because more GPUs do not slow it down."""
        rates = [
            entry[1]
            for source, target in ((one, other), (other, one))
            for by_count in self._links.get(source, {}).values()
            for entry in by_count.get("us-central1-a", {}).get(target, {}).values()
        ]
        if not rates:
            raise KeyError(f"the link of {one} and {other}")
        return max(rates)


def part_name(layer: int) -> str:
    """The part of a layer."""
    return f"layer{layer:02}"


def pipeline_graph(source: Source, plan: Plan, replica: int) -> tuple[StepGraph, dict[str, str]]:
    """One replica's step of one micro-batch, and the device of each part."""
    graph = StepGraph(f"{plan.name}-{replica}", batch=plan.batch)
    placed: dict[str, str] = {}
    stage_of = {layer: k for k, stage in enumerate(plan.stages) for layer in stage.layers}
    group_of = [stage.groups[replica] for stage in plan.stages]
    times = [source.times(plan, group) for group in group_of]
    shapes = [source.shapes(plan, group[1]) for group in group_of]
    layers = sorted(stage_of)

    def floats(layer: int, key: str, batch: int = 1) -> tuple[str, tuple[int]]:
        return ("f32", (max(1, shapes[stage_of[layer]][str(layer)][key] * batch // 4),))

    def timed(layer: int, phase: int, inputs: Sequence[Any], *outputs: Any) -> int:
        us = {"gpu": 1e6 * times[stage_of[layer]][str(layer)][phase]}
        return graph.add(PHASES[phase], "Work", inputs, *outputs, measured_us=us)

    def passed(tensor: int, output: int, giver: int, taker: int) -> tuple[int, int]:
        """A tensor that the layer `taker` reads: across stages it is sent and received."""
        if stage_of[giver] == stage_of[taker]:
            return (tensor, output)
        kinds = [group_of[stage_of[layer]][0] for layer in (giver, taker)]
        shape = graph.ops[tensor]["outputs"][output]["shape"]
        us = {"gpu": 4e6 * shape[0] / source.bytes_per_s(kinds[0], kinds[1])}
        last = (tensor, output)
        for name, layer in (("send", giver), ("receive", taker)):
            graph.part = part_name(layer)
            one = graph.add(f"{graph.phase}_{name}", "Work", [last], ("f32", shape), measured_us=us)
            last = (one, 0)
        return last

    weights, saved = {}, {}
    for layer in layers:
        graph.part = part_name(layer)
        placed[graph.part] = f"gpu:{stage_of[layer]}"
        weights[layer] = graph.add("weights", "Parameter", [], floats(layer, "params_bytes"))
    x: tuple[int, int] | None = None
    for layer in layers:
        before = passed(*x, layer - 1, layer) if x is not None else None
        graph.part = part_name(layer)
        inputs = [weights[layer], *([before] if before is not None else [])]
        result = floats(layer, "act_output_bytes", plan.batch)
        kept = floats(layer, "act_mem_bytes", plan.batch)
        rest = ("f32", (max(1, kept[1][0] - result[1][0]),))
        saved[layer] = timed(layer, 0, inputs, result, rest)
        x = (saved[layer], 0)
    graph.phase = "backward"
    gradients = {}
    g: tuple[int, int] | None = None
    for layer in reversed(layers):
        after = passed(*g, layer + 1, layer) if g is not None else None
        graph.part = part_name(layer)
        inputs = [weights[layer], (saved[layer], 0), (saved[layer], 1)]
        inputs += [after] if after is not None else []
        of_input = floats(max(layer - 1, layers[0]), "act_output_bytes", plan.batch)
        of_output = floats(layer, "act_output_bytes", plan.batch)  # No other op reads it.
        gradients[layer] = timed(layer, 1, inputs, floats(layer, "params_bytes"), of_input, of_output)
        g = (gradients[layer], 1)
    graph.phase = "update"
    for layer in layers:
        graph.part = part_name(layer)
        flat = floats(layer, "params_bytes")
        state = [graph.add(name, "OptimizerState", [], flat) for name in ("mean", "variance")]
        timed(layer, 2, [weights[layer], gradients[layer], *state], flat)
    return graph, placed


def machine(stages: int) -> str:
    """The device file of a replica. Sends and receives have the time of a copy, which itself takes none."""
    link = '[[link]]\nbetween = ["gpu:*", "gpu:*"]\nbandwidth = "1000000GB/s"\nlatency = "0us"\n'
    return f"""costs = 2
[[profile]]
name = "group"
base = "h200"
memory = "1000GiB"
[[device]]
profile = "group"
count = {stages}
""" + (link if stages > 1 else "")


def reduction_s(source: Source, plan: Plan) -> float:
    """The longest sum of gradients over the replicas of a stage: a ring of the slowest of its links, which
    the GPUs of a group share."""
    longest = 0.0
    for stage in plan.stages:
        kinds = [kind for kind, _ in stage.groups]
        if len(kinds) == 1:
            continue
        ring = zip(kinds, kinds[1:] + kinds[:1])
        rate = min(source.bytes_per_s(one, other) for one, other in ring)
        tensor = stage.groups[0][1]
        shapes = source.shapes(plan, tensor)
        size = tensor * sum(shapes[str(layer)]["params_bytes"] for layer in stage.layers)
        longest = max(longest, 2 * (len(kinds) - 1) / len(kinds) * size / rate)
    return longest


def predicted(source: Source, plan: Plan, program: str) -> tuple[Row, Row]:
    """Time [s] and peak memory [GB] of a plan beside its measurement. KeyError: the profiles lack it."""
    seconds, peak = 0.0, 0.0
    pipelines = {tuple(stage.groups[k] for stage in plan.stages): k for k in range(plan.replicas)}
    for replica in pipelines.values():
        graph, placed = pipeline_graph(source, plan, replica)
        text = machine(len(plan.stages))
        result = evaluate(program, graph, placed, text, plan.micro_batches)
        seconds = max(seconds, float(result["step_time_s"]))
        peak = max(peak, *result["peak_memory_bytes"])
    groups = {
        "GPUs": "alike" if plan.is_alike else "unlike",
        "stages": f"stages {len(plan.stages)}",
        "replicas": f"replicas {plan.replicas}",
    }
    seconds += reduction_s(source, plan)
    memory = Row(plan.name, plan.peak_bytes * 1e-9, peak * 1e-9, groups)
    return Row(plan.name, plan.seconds, seconds, groups), memory


def copied_profiles(folder: Path) -> set[str]:
    """Profiles that are another model's, to the byte."""
    seen: dict[bytes, str] = {}
    copies = set()
    for path in sorted(
        (folder / "profiles").glob("*.json"), key=lambda one: (one.stem[:3] != "OPT", one.stem)
    ):
        content = path.read_bytes()
        if seen.setdefault(content, path.stem) != path.stem:
            copies.add(path.stem)
    return copies
