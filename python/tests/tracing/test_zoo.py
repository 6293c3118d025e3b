"""Models by name: trace time, scopes, flops, layouts and bits. ``--newest`` runs all twenty."""

from __future__ import annotations

import json
import time
from math import prod
from pathlib import Path
from typing import Any

import pytest
import replay
import torch
import zoo
from replay import trace_step

FAST = ["resnet18", "alexnet", "gpt2", "llama", "lstm_cells", "gru"]
FLOPS = json.loads((Path(__file__).parent / "flops.json").read_text())
SECONDS = 30.0
OLD = torch.__version__.startswith("1.")


class Layouts(torch.fx.Interpreter):
    """Compares the tensors of each node with those that the trace records."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.wrong: list[str] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        several = result if isinstance(result, (tuple, list)) else (result,)
        for tensor, info in zip(several, n.meta.get("tensors") or ()):
            if (
                info is not None
                and isinstance(tensor, torch.Tensor)
                and tensor.numel()
                and (tuple(tensor.shape), tensor.dtype) != (info.shape, info.dtype)
            ):
                self.wrong.append(n.name)
            elif (
                info is not None
                and isinstance(tensor, torch.Tensor)
                and _strides(tensor.shape, tensor.stride()) != _strides(info.shape, info.stride)
            ):
                self.wrong.append(f"{n.name}: {tensor.stride()} is not {info.stride}")
        return result


def products(ops: list[dict[str, Any]]) -> int:
    """Operations of products alone, without addends and softmax, as FlopCounterMode counts them."""

    def size(tensor: tuple[int, int] | list[int]) -> list[int]:
        shape: list[int] = ops[tensor[0]]["outputs"][tensor[1]]["shape"]
        return shape

    total = 0
    for op in ops:
        name, inputs = op["type"].removeprefix("aten::"), op["inputs"]
        attention = "scaled_dot_product" in name
        backward = name.endswith("_backward")
        if name in ("addmm", "baddbmm") or (name == "convolution" and len(inputs) > 2):
            total += op["flops"] - prod(op["outputs"][0]["shape"])
        elif name == "convolution_backward":
            total += op["flops"] - (prod(size(inputs[0])) if op["attrs"]["output_mask"][2] else 0)
        elif attention:
            query, key = size(inputs[backward]), size(inputs[backward + 1])
            total += op["flops"] - (4 if backward else 5) * prod(query[:-1]) * key[-2]
        elif name in ("mm", "bmm", "convolution"):
            total += op["flops"]
    return total


def _strides(shape: Any, stride: Any) -> list[int]:
    """The strides of the dimensions with more than one element."""
    return [s for size, s in zip(shape, stride) if size > 1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", zoo.CASES)
def test_model(name: str, thorough: bool) -> None:
    if not thorough and name not in FAST:
        pytest.skip("long: --newest runs it")
    if name in zoo.TEXT:
        pytest.importorskip("transformers")
    if name in zoo.VISION:
        pytest.importorskip("torchvision")
    case = zoo.CASES[name]
    replay.seed(0)
    model, batch = case.model(), case.batch()
    start = time.perf_counter()
    document, step = trace_step(model, batch, case.loss, case.optimizer(model.parameters()))
    assert time.perf_counter() - start < SECONDS
    replay.seed(1)
    with torch.no_grad():
        layouts = Layouts(step.module)
        layouts.run(*step.arguments(batch))
    assert layouts.wrong == []
    ops = document["ops"]
    assert all(op["group"] and op["phase"] in ("forward", "backward", "update") for op in ops)
    assert "uncounted" not in document["meta"]
    for op in ops:
        assert all(producer < op["id"] for producer, _ in op["inputs"])
        assert all(index < len(ops[producer]["outputs"]) for producer, index in op["inputs"])
    total = products(ops)
    # PyTorch's counter does not divide the gradient of a convolution's weights by the groups.
    grouped = any(op["attrs"].get("groups", 1) > 1 for op in ops)
    if not OLD and not grouped:
        from torch.utils.flop_counter import FlopCounterMode

        counter = FlopCounterMode(display=False)
        with counter:
            replay.plain_step(
                case.model(), batch, case.loss, torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)
            )
        assert total == counter.get_total_flops()
    if name in FLOPS and not grouped:
        expected = FLOPS[name].get("1.13" if OLD else "newest", FLOPS[name]["newest"])
        assert total == expected
    assert replay.compare(case.model(), batch, case.loss, case.optimizer)[2] == []
