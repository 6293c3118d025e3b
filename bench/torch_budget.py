#!/usr/bin/env python3
"""PyTorch's `activation_memory_budget` beside plans of `--allow recompute`, by the peaks of steps that run.

usage: bench/torch_budget.py [--program P] [--only REGEX] [--budgets N] [--search S] [--device PROFILE]
                             [--solver dp|ilp|greedy] [--estimator flops|times] [--gradients] [--peaks]

Each model is one forward and backward pass on this CPU. AOTAutograd and the min-cut partitioner make forward
and backward graph for each of N budgets, without decompositions and without a compiler: their ops are the
kernels of eager PyTorch, as in a graph of `em.trace`. An interpreter runs both and drops each value after its
last reader. Ours is placed on one device that has as much memory as theirs took at its peak, and runs by
`apply(lean=True)` in the order of the simulated step. In both, the storages that exist are counted
(python/tests/applying/live_storages.py): parameters, buffers, batch and activations. Gradients of parameters
end where they are made, as with an optimizer in the backward pass; with --gradients they wait to the end.

Work is the time of the kernels that run twice, by emplace's costs of `--device` for both: theirs have the
time of the traced kernel of their type and shapes. "share" is their peak over that at the budget 1, both less
parameters, buffers and batch; "asked" is the peak if it were the budget. `--estimator` is how their solver
guesses times: "flops", the default, or "times", those same times.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests/applying")]
_PROGRAM = str(ROOT / "build/release/emplace")

import torch  # noqa: E402
from torch import Tensor, fx, nn  # noqa: E402
from torch._functorch import config as functorch  # noqa: E402
from torch._functorch.aot_autograd import aot_function  # noqa: E402
from torch._functorch.partitioners import default_partition  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402
from torch._inductor.custom_graph_pass import CustomRuntimeEstimator  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import emplace as em  # noqa: E402
from budget_models import MODELS, loss_of  # noqa: E402
from live_storages import LiveStorages  # noqa: E402
from measured_peaks import peaks_as_simulated  # noqa: E402


def joint_graph(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Callable[[], Any], list[Tensor]]:
    """What makes forward and backward graph with the budget of now, and the forward's inputs."""
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    caught: list[Any] = []

    def loss(tensors: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(model, tensors, (x,)), y)

    def catch(joint: fx.GraphModule, inputs: Any, **how: Any) -> Any:
        caught.append((copy.deepcopy(joint), how))
        return default_partition(joint, inputs, **how)

    def keep(gm: fx.GraphModule, example_inputs: Any) -> fx.GraphModule:
        return gm

    aot_function(loss, keep, keep, catch, keep_inference_input_mutations=True)(state, batch["x"], batch["y"])
    ((joint, how),) = caught
    inputs = [*state.values(), batch["x"], batch["y"]]
    return lambda: min_cut_rematerialization_partition(copy.deepcopy(joint), (), **how), inputs


Shapes = tuple[tuple[int, ...], ...]


def kernel_of(node: fx.Node) -> tuple[str, Shapes]:
    """Type and shapes of what it reads, the same in a traced graph and in one of AOTAutograd."""
    shapes = []
    for source in node.all_input_nodes:
        value = source.meta["tensors"][0] if "tensors" in source.meta else source.meta["val"]
        shapes.append(tuple(getattr(value, "shape", ())))
    name = str(node.target)
    if name in (
        "functional_aten_native_batch_norm_default",
        "aten._native_batch_norm_legit_functional.default",
    ):
        name = "batch norm"
    return name, tuple(sorted(shapes))


class Times(CustomRuntimeEstimator):
    """Seconds of kernels by their type and shapes: emplace's costs of the traced step on a device."""

    def __init__(self, placement: em.Placement) -> None:
        ran = {each.name: each.time_s for each in placement.schedule.slices}
        step = placement.graph.step
        found: dict[Any, list[float]] = defaultdict(list)
        for node in step.module.graph.nodes:
            if node.op == "call_function" and node.meta.get("phase") != "update":
                found[kernel_of(node)].append(ran.get(step.op_of.get(node.name, ""), 0.0))
        self.by_kernel = {kernel: statistics.mean(times) for kernel, times in found.items()}
        self.unknown: set[Any] = set()

    def __call__(self, node: fx.Node) -> float:
        kernel = kernel_of(node)
        if kernel not in self.by_kernel:
            self.unknown.add(kernel)
        return self.by_kernel.get(kernel, 0.0) * 1e6

    def uuid(self) -> str:
        return "emplace's costs"


def run(graph: fx.Graph, inputs: list[Any], results_wait: bool = True) -> list[Any]:
    """Runs a graph; a value ends with its last reader. Takes the inputs out of their list."""
    *nodes, output = graph.nodes
    results = set(output.all_input_nodes) if results_wait else set()
    last = {source: node for node in nodes for source in node.all_input_nodes}
    ends: dict[fx.Node, list[fx.Node]] = defaultdict(list)
    for node in nodes:
        if node not in results:
            ends[last.get(node, node)].append(node)
    values: dict[fx.Node, Any] = {}
    inputs.reverse()
    for node in nodes:
        if node.op == "placeholder":
            values[node] = inputs.pop()
        else:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
            del args, kwargs
        for ended in ends[node]:
            del values[ended]
    return [values.get(each) for each in output.args[0]]


class Theirs:
    """Forward and backward graph of a budget."""

    def __init__(self, forward: fx.GraphModule, backward: fx.GraphModule) -> None:
        self.forward, self.backward = forward.graph, backward.graph
        calls = {n.name for n in self.forward.nodes if n.op == "call_function"}
        self.again = [n for n in self.backward.nodes if n.op == "call_function" and n.name in calls]

    def peak(self, inputs: list[Tensor], gradients_wait: bool) -> tuple[int, list[Any]]:
        """Bytes at the peak, and the gradients, where they wait."""
        count = LiveStorages(1)
        count.claim(0, inputs)
        with count.mode(0), torch.no_grad():
            made = run(self.forward, list(inputs))
            # The loss, then what is saved. Changed buffers are written in the graph.
            results: Any = self.forward.output_node().args[0]
            loss, named = made[0], {node.name: value for node, value in zip(results, made)}
            named |= {"tangents_1": torch.ones_like(loss)}
            del made
            arguments = [named.pop(n.name) for n in self.backward.nodes if n.op == "placeholder"]
            gradients = run(self.backward, arguments, gradients_wait)
        return count.peak[0], gradients


def machine(folder: Path, profile: str, memory: int) -> em.Machine:
    file = folder / f"{memory}.toml"
    file.write_text(f'[[device]]\nname = "one"\nprofile = "{profile}"\nmemory = "{memory}B"\n')
    return em.machine(file)


def ours(
    graph: em.Graph, batch: Any, memory: int, options: argparse.Namespace, folder: Path
) -> tuple[int, float] | str:
    """Real peak and seconds of work of a plan for so much memory; "proof" if provably there is none."""
    asked = memory - 4  # The loss waits to the end; in the simulator it ends at once, because no op reads it.
    for _ in range(3):
        there = machine(folder, options.device, asked)
        try:
            p = em.place(graph, there, allow="recompute", budget=options.search, progress=False, threads=1)
        except em.NoPlacement as error:
            return "proof" if "no placement fits" in str(error) else "none"
        (real,) = peaks_as_simulated(p, batch).values()
        if real <= memory:
            return real, sum(each.time_s for each in p.schedule.slices if each.name.endswith("@again"))
        asked -= real - memory
    return "none"


def cell(found: tuple[int, float] | str) -> list[str]:
    return [found, ""] if isinstance(found, str) else [f"{found[0] / 2**20:.1f}", f"{found[1] * 1e6:.0f}"]


def compare(name: str, options: argparse.Namespace, folder: Path) -> dict[str, list[Any]]:
    """Prints the table of a model; the counts of its rows."""
    torch.manual_seed(1)
    model, x, y = MODELS[name]()
    batch = {"x": x, "y": y}
    partition, inputs = joint_graph(model, batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0) if options.gradients else None
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    whole = em.place(graph, machine(folder, options.device, 1 << 40), budget="1s", progress=False)
    times = Times(whole)
    functorch.activation_memory_budget_solver = options.solver
    estimator: Any = times if options.estimator == "times" else "flops"
    functorch.activation_memory_budget_runtime_estimator = estimator
    wanted = torch.autograd.grad(loss_of(model, batch), list(model.parameters()))
    fixed = sum(each.nbytes for each in inputs)
    counts: dict[str, list[Any]] = defaultdict(list)
    print(f"\n**{name}**: {fixed / 2**20:.1f} MiB of parameters, buffers and batch,", end=" ")
    all_kept, us = whole.peak["one"] / 2**20, whole.step_time * 1e6
    print(f"{all_kept:.1f} MiB with everything kept, a step of {us:.0f} us.\n")
    columns = ["budget", "share", "asked", "theirs", "us again", "ours, same peak", "us again", "ratio"]
    print("| " + " | ".join([*columns, "ours, asked", "us again"]) + " |\n|" + 10 * "--:|", flush=True)
    known: dict[int, Any] = {}
    full = 0
    for step in range(options.budgets, 0, -1):
        budget = step / options.budgets
        functorch.activation_memory_budget = budget
        theirs = Theirs(*partition())
        if not full:  # The graphs compute what eager PyTorch does.
            _, gradients = theirs.peak(inputs, True)
            for a, b in zip(wanted, gradients):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
            del gradients, wanted
        peak, _ = theirs.peak(inputs, options.gradients)
        work = sum(map(times, theirs.again)) * 1e-6
        full = full or peak
        asked = fixed + int(budget * (full - fixed))
        for memory in (peak, asked)[: 1 if options.peaks else 2]:
            if memory not in known:
                known[memory] = ours(graph, batch, memory, options, folder)
        same, kept = known[peak], known.get(asked, "")
        found = math.inf if isinstance(same, str) else same[1]
        no_worse, fifth = 1.001 * work, 0.8 * work  # Times in a trace are rounded.
        counts["better"].append(found <= no_worse)
        counts["fifth"].append(found <= fifth < no_worse)
        counts["ratio"] += [found / work] if work else []
        counts["theirs kept"].append(peak <= asked)
        counts["ours kept"].append(not isinstance(kept, str))
        counts["proof"].append(kept == "proof")
        ratio = f"{found / work:.2f}" if work else ""
        share = (peak - fixed) / (full - fixed)
        row = [f"{budget:.2f}", f"{share:.2f}", f"{asked / 2**20:.1f}"]
        row += [*cell((peak, work)), *cell(same), ratio, *cell(kept)]
        print("| " + " | ".join(row) + " |", flush=True)
    if times.unknown:
        print(f"\nKernels without a time, counted as 0: {sorted(times.unknown)}")
    return counts


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--program", default=os.environ.get("EMPLACE_PROGRAM", _PROGRAM))
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name matches")
    parser.add_argument("--budgets", type=int, default=20)
    parser.add_argument("--search", default="2s", help="budget of a search")
    parser.add_argument("--device", default="epyc9654", help="the profile whose costs count")
    parser.add_argument("--solver", default="dp")
    parser.add_argument("--estimator", default="flops", choices=("flops", "times"))
    parser.add_argument("--gradients", action="store_true", help="gradients wait for an SGD update at the end")
    parser.add_argument(
        "--peaks", action="store_true", help="only with the peak of theirs, not with what is asked"
    )
    options = parser.parse_args()
    os.environ["EMPLACE_PROGRAM"] = options.program
    torch.set_num_threads(1)
    total: dict[str, list[Any]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            if re.search(options.only, name):
                for what, values in compare(name, options, Path(folder)).items():
                    total[what] += values
    n, sums = len(total["better"]), {what: sum(values) for what, values in total.items()}
    kept = "" if options.peaks else f", ours {sums['ours kept']} (provably impossible {sums['proof']})"
    print(
        f"\n{n} budgets: ours no worse in peak and work in {sums['better']}, at least 20 % less work in"
        f" {sums['fifth']}, median ratio {statistics.median(total['ratio'] or [1.0]):.2f};"
        f" peak as asked: theirs {sums['theirs kept']}{kept}"
    )


if __name__ == "__main__":
    main()
