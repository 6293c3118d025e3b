"""A device runs a kernel that it has: PyTorch's dispatcher knows, and can be asked without a GPU."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tracing")]
import replay  # noqa: E402
import test_forms as forms  # noqa: E402
from simulated import needs_program  # noqa: E402
from torch import nn  # noqa: E402

import emplace as em  # noqa: E402
from emplace.applying import apply, counterparts  # noqa: E402
from emplace.applying.lowering import LoweredStep  # noqa: E402
from emplace.applying.plan import StepPlan  # noqa: E402
from emplace.tracing import kernels  # noqa: E402

OLD = torch.__version__.startswith("1.")
CUDA = kernels._in_table("aten::empty.memory_format", "CUDA")


class Attention(nn.Module):
    """nn.MultiheadAttention, with or without a mask."""

    def __init__(self, causal: bool = False, mask: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.causal, self.mask = causal, torch.rand(5, 5) if mask else None

    def forward(self, x: Any) -> Any:
        """(3, 5, 16) to a loss."""
        mask = nn.Transformer.generate_square_subsequent_mask(5) if self.causal else self.mask
        more = {"is_causal": True} if self.causal else {}
        return self.attention(x, x, x, attn_mask=mask, need_weights=False, **more)[0].pow(2).mean()


class Grouped(nn.Module):
    """Four heads of queries, two of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        """(3, 5, 16) to a loss."""
        query = self.query(x).view(3, 5, 4, 4).transpose(1, 2)
        key, value = self.key(x).view(3, 5, 2, 2, 4).permute(2, 0, 3, 1, 4)
        out = nn.functional.scaled_dot_product_attention(query, key, value, scale=0.3, enable_gqa=True)
        return out.transpose(1, 2).reshape(3, 5, 16).sin().mean()


MODELS: dict[str, Any] = {
    "attention": Attention,
    "causal attention": lambda: Attention(causal=True),
    "attention with a mask": lambda: Attention(mask=True),
    "attention of groups": Grouped,
    **{n: make for n, (make, _) in forms.FORMS.items() if n.startswith("lstm") and "projected" not in n},
}


def traced(name: str) -> tuple[nn.Module, Any, Any, em.Graph]:
    """Model, batch, optimizer and graph."""
    replay.seed(0)
    model, batch = MODELS[name](), torch.randn(3, 5, 16)
    if name.startswith("lstm") and not model.recurrent.batch_first:
        batch = batch.transpose(0, 1).contiguous()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, batch, optimizer, em.trace(model, batch, loss=forms.loss_of, optimizer=optimizer)


def lacking(which: str) -> Any:
    """A device without the traced kernels of the forward, of the backward, or of both."""

    def has_kernel(func: Any, device: str) -> bool:
        found = kernels.counterpart(func)
        return found is None or which not in ("both", "backward" if found[1] else "forward")

    return has_kernel


@pytest.mark.skipif(OLD, reason="torch 1.13 has no such kernels")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("which", ["forward", "backward", "both"])
@pytest.mark.parametrize("name", MODELS)
def test_another_kernel_trains_alike(name: str, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterparts, "has_kernel", lacking(which))
    model, batch, optimizer, graph = traced(name)
    other = copy.deepcopy(model)
    reference = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    names = sum("for_cpu" in op.type or "mkldnn_rnn" in op.type for op in graph.ops)
    assert graph.step is not None and names >= 2
    with apply(graph.step, forms.placement(graph, 1), dict.fromkeys(forms.NAMES, "cpu"), threads=1) as step:
        assert len(step._bound._counterparts) == (names // 2 if which == "backward" else names)
        for turn in range(3):
            replay.seed(turn)
            expected = replay.plain_step(other, batch, forms.loss_of, reference)
            replay.seed(turn)
            # The counterpart's own kernels are others, too: cells of the LSTM, attention by matrices.
            with torch.backends.mkldnn.flags(enabled=False), torch.nn.attention.sdpa_kernel(
                torch.nn.attention.SDPBackend.MATH
            ):
                assert torch.allclose(step(batch), expected, rtol=1e-5, atol=1e-7), turn
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.allclose(p, q, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(OLD, reason="torch 1.13 has no such kernels")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["attention", "lstm of two layers"])
def test_an_inference_runs_as_another_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterparts, "has_kernel", lacking("both"))
    model, batch, _, _ = traced(name)
    model.eval()
    graph = em.trace(model, batch)
    assert graph.step is not None
    with apply(graph.step, {op.name: "cpu:0" for op in graph.ops}, {"cpu:0": "cpu"}) as step:
        assert step._bound._counterparts
        assert torch.allclose(step(batch), model(batch), rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(not CUDA, reason="this build of PyTorch has no kernels of GPUs")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_every_op_on_a_gpu_has_a_kernel_there(name: str) -> None:
    _, _, _, graph = traced(name)
    assert graph.step is not None
    plan = StepPlan(LoweredStep(graph.step), {op.name: "gpu:0" for op in graph.ops}, ["gpu:0"])

    class Gpu:
        name, device = "gpu:0", torch.device("cuda:0")

    chosen = counterparts.counterparts(plan, [Gpu()])  # type: ignore[list-item]
    assert chosen
    for kernel in plan.lowered.kernels:
        func: Any = getattr(kernel.node.target, "func", kernel.node.target)
        assert kernel.node in chosen or kernels.has_kernel(func, "cuda"), func
    (note,) = graph.document["meta"]["notes"]
    assert "the device's own kernel" in note and all(
        op["type"] in note for op in graph.document["ops"] if "for_cpu" in op["type"]
    )
    assert not any("devices" in op for op in graph.document["ops"])
    # What the counterparts call has a kernel for each device.
    for call in ("aten::scaled_dot_product_attention", "aten::lstm.input", "aten::_cudnn_rnn"):
        assert kernels._in_table(call, "CUDA")


class Histogram(nn.Module):
    """An op that only a CPU has."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        """(4, 16) to (4, 16)."""
        y = self.linear(x)
        return y + torch.histogram(y.detach(), 10)[0].sum()


@needs_program
def test_an_op_without_a_counterpart_stays_on_a_cpu() -> None:
    """By the dispatcher's table, or where the build has none for GPUs, by the list that it is made from."""
    batch = torch.randn(4, 16)
    graph = em.trace(Histogram(), batch)
    pinned = {op["name"]: op["devices"] for op in graph.document["ops"] if "devices" in op}
    assert pinned == {"histogram_1": ["cpu:*"]}
    assert graph.document["meta"]["notes"] == [
        "PyTorch has aten::histogram for a CPU alone: pinned to cpu:* (1 op)"
    ]
    placed = em.place(graph, em.machine("h100 x 2, epyc9654"), method="single-gpu", progress=False)
    where = placed.ops_by_device()
    assert {name: where[name] for name in pinned} == {"histogram_1": "cpu:0"}
    assert "gpu:0" in where.values() and em.verify(graph, placed, batch)
    with pytest.raises(em.EmplaceError, match="histogram_1"):
        em.place(graph, em.machine("h100 x 2"), method="single-gpu", progress=False)


def test_a_placement_that_no_kernel_can_follow_is_refused() -> None:
    graph = em.trace(Histogram(), torch.randn(4, 16))
    assert graph.step is not None
    plan = StepPlan(LoweredStep(graph.step), {op.name: "gpu:0" for op in graph.ops}, ["gpu:0"])

    class Gpu:
        name, device = "gpu:0", torch.device("cuda:0")

    with pytest.raises(em.EmplaceError) as error:
        counterparts.counterparts(plan, [Gpu()])  # type: ignore[list-item]
    assert str(error.value) == (
        "op 'histogram_1' on gpu:0: PyTorch has no kernel of aten::histogram for cuda:0;"
        " place it on a device of another kind, as `place` does"
    )


@pytest.mark.skipif(OLD or not CUDA, reason="torch.library of torch 1.13 has no custom_op")
def test_a_custom_op_is_pinned_by_its_kernels_and_not_by_its_name() -> None:
    for name, devices, expected in (("one_cpu", "cpu", ["cpu:*"]), ("any_for_cpu", None, None)):
        op = torch.library.custom_op(
            f"emplace_test::{name}",
            lambda x: x * 2,
            mutates_args=(),
            device_types=devices,
            schema="(Tensor x) -> Tensor",
        )
        op.register_fake(torch.empty_like)
        module = nn.Linear(4, 4)
        module.register_forward_hook(lambda _, __, out, op=op: op(out))
        graph = em.trace(module, torch.randn(2, 4))
        (found,) = [o for o in graph.document["ops"] if o["type"] == f"emplace_test::{name}"]
        assert found.get("devices") == expected


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_data_is_traced_alike() -> None:
    name = "lstm of two layers" if OLD else "attention with a mask"
    model, batch, _, graph = traced(name)
    empty = copy.deepcopy(model).to("meta")
    if not OLD:
        empty.mask = model.mask
    other = em.trace(
        empty, batch, loss=forms.loss_of, optimizer=torch.optim.SGD(empty.parameters(), lr=0.1, momentum=0.9)
    )
    assert other.document["ops"] == graph.document["ops"]
    assert other.document["meta"].get("notes") == graph.document["meta"].get("notes")


def test_the_list_of_ops_agrees_with_the_table() -> None:
    listed = kernels._listed()
    assert len(listed) > 2000
    assert listed["mm"] and listed["add.Tensor"] and not listed["histogram.bin_ct"]
    if CUDA:
        known = ("mm", "addmm", "relu", "mkldnn_rnn_layer")
        names = [name for name in listed if "_for_cpu" in name or name in known]
        assert len(names) > 5
        assert {n: listed[n] for n in names} == {n: kernels._in_table(f"aten::{n}", "CUDA") for n in names}
