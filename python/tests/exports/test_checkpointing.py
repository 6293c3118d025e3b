"""Plans that PyTorch's own training loop carries out: the bits of plain training, and the ops of the plan."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils import checkpoint as torch_checkpoint  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import emplace as em  # noqa: E402

MACHINE = "h100, epyc9654"
contexts = pytest.mark.skipif(
    not hasattr(torch_checkpoint, "noop_context_fn"), reason="checkpoints of this torch take no contexts"
)
policies = pytest.mark.skipif(
    not hasattr(torch_checkpoint, "CheckpointPolicy"), reason="checkpoints of this torch take no policy"
)


class Block(nn.Module):
    """Views of a part, a write to a product by another view of it, dropout, and running statistics."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.statistics = nn.LayerNorm(width), nn.BatchNorm1d(6)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, width, bias=False)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        left, right = self.up(self.norm(x)).chunk(2, dim=-1)
        mixed = torch.relu_(self.down(nn.functional.gelu(left) * right.sigmoid())) * scale
        return x + self.drop(self.statistics(self.drop(mixed)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.blocks = nn.ModuleList([Block(16) for _ in range(3)])
        self.cell, self.out = nn.LSTMCell(16, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.first(x))
        for block in self.blocks:
            x = block(x, scale=0.5)
        h = c = torch.zeros(x.shape[0], 16)
        for t in range(3):
            h, c = self.cell(x[:, t], (h, c))
        return self.out(h)


def loss_of(model: Any, batch: Any) -> Any:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def made() -> tuple[Any, Any, Any]:
    torch.manual_seed(1)
    model = Net()
    batch = torch.randn(8, 6, 16), torch.randint(0, 4, (8,))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2), batch


class Count(TorchDispatchMode):
    """How often each operator runs; below other modes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[str(func).removeprefix("aten.").partition(".")[0].rstrip("_")] += 1
        return func(*args, **(kwargs or {}))


def trained(
    wrap: Callable[[Any], Any] = lambda model: None,
    around: Callable[[Any], Any] | None = None,
    steps: int = 2,
) -> tuple[list[Any], Counter[str]]:
    """Parameters and buffers after some steps, and the calls of one."""
    model, optimizer, batch = made()
    wrap(model)
    torch.manual_seed(2)
    # Under a mode, torch 1.13 cannot detach a number that a backward pass needs.
    count = Count()
    with count if hasattr(torch_checkpoint, "noop_context_fn") else contextlib.nullcontext():
        for _ in range(steps):
            optimizer.zero_grad()
            with around(model) if around else contextlib.nullcontext():
                loss = loss_of(model, batch)
            loss.backward()
            optimizer.step()
    return [*model.parameters(), *model.buffers()], Counter({k: n // steps for k, n in count.seen.items()})


@pytest.fixture(scope="module")
def plain() -> tuple[list[Any], Counter[str]]:
    return trained()


@pytest.fixture(scope="module")
def kept() -> em.Placement:
    """A placement that keeps everything."""
    model, optimizer, batch = made()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    return em.place(graph, MACHINE, method="single-gpu", progress=False)


def planned(placement: em.Placement, path: Path, recompute: Any, move: Any = (), **keys: Any) -> em.Placement:
    moves = [{"tensor": name, "to": "cpu:0", **keys} for name in move]
    document = {**placement.document, "version": 2, "recompute": list(recompute), "move": moves}
    path.write_text(json.dumps(document))
    return em.open_placement(path, placement.graph, MACHINE)


def kernels(placement: em.Placement) -> dict[str, Any]:
    state = {"Parameter", "Buffer", "Input", "Constant", "OptimizerState"}
    return {
        op.name: op
        for op in placement.graph.ops
        if op.phase == "forward" and op.type not in state and not op.attrs.get("view")
    }


def waiting(placement: em.Placement) -> set[str]:
    """Ops whose first output the backward pass reads, itself or by a view."""
    by_id, found = {op.id: op for op in placement.graph.ops}, set()
    for op in placement.graph.ops:
        for producer, output in op.inputs if op.phase != "forward" and not op.attrs.get("view") else ():
            while by_id[producer].attrs.get("view"):
                producer, output = by_id[producer].inputs[0]
            found |= {by_id[producer].name} if output == 0 else set()
    return found & kernels(placement).keys()


def by_chance(placement: em.Placement, path: Path, seed: int, moves: bool = False) -> em.Placement:
    draw = random.Random(seed)
    recompute = [name for name in sorted(kernels(placement)) if draw.random() < 0.4]
    move = [name for name in sorted(waiting(placement) - set(recompute)) if moves and draw.random() < 0.5]
    return planned(placement, path, recompute, move)


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        yield


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(itertools.starmap(torch.equal, zip(found, expected, strict=True)))


def runs_again(
    checkpointing: em.placement.Placement, names: Any, found: Counter[str], plain: Counter[str]
) -> None:
    """Exactly these ops ran again, besides views and what makes empty tensors."""
    ops = kernels(checkpointing.plan)  # type: ignore[attr-defined]
    expected = Counter(ops[name].type.partition("::")[2] for name in names)
    free = {"empty_like", "empty_strided", "unsafe_split", "clone", "bernoulli"}
    more = found - plain
    for kind in {op.type.partition("::")[2] for op in ops.values()} - free:
        assert more[kind] == expected[kind], kind


@contexts
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("modules", ["blocks.*", "", ["blocks.0", "blocks.2.down", "cell"]])
def test_exactly_the_ops_of_a_plan_run_again(
    modules: Any, seed: int, kept: Any, plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from emplace.checkpoints import running

    def nothing(tensor: Any) -> Any:
        size, stride, kind = tensor.size(), tensor.stride(), tensor.dtype
        other = float("nan") if kind.is_floating_point else 1
        return lambda given: torch.empty_strided(size, stride, dtype=kind).fill_(other)

    monkeypatch.setattr(running, "_empty", nothing)  # Reads of what was not kept give other bits.
    made = em.checkpointing(by_chance(kept, tmp_path / "p.json", seed), modules)
    found, calls = trained(made.wrap)
    assert same(found, plain[0])
    assert made.again
    runs_again(made, made.again, calls, plain[1])


@policies
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", range(2))
def test_a_policy_runs_the_plan_and_names_what_else(seed: int, kept: Any, plain: Any, tmp_path: Path) -> None:
    made = em.checkpointing(by_chance(kept, tmp_path / "p.json", seed), "blocks.*")

    def wrap(model: Any) -> None:
        for name in made.modules:
            module = model.get_submodule(name)
            module.forward = checkpointed(module.forward, name)

    def checkpointed(own: Any, name: str) -> Any:
        def context() -> Any:
            return torch_checkpoint.create_selective_checkpoint_contexts(
                made.policy(name), allow_cache_entry_mutation=True
            )

        return lambda *args, **kwargs: torch_checkpoint.checkpoint(
            own, *args, use_reentrant=False, context_fn=context, **kwargs
        )

    found, calls = trained(wrap)
    assert same(found, plain[0])
    answers = [made.policy(name) for name in made.modules]
    wanted = set((made.plan.memory_plan or {})["recompute"])
    for answer in answers:
        assert set(answer.extra) == answer.again - wanted
        assert answer.extra_s > 0
    late = {"mul", "add"}  # PyTorch stops when it has all that is needed.
    again = {name for answer in answers for name in answer.again}
    expected = Counter(kernels(kept)[name].type.partition("::")[2] for name in again)
    more = calls - plain[1]
    for kind in expected.keys() - late - {"empty_like", "bernoulli"}:
        assert more[kind] == expected[kind], kind


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("modules", ["blocks.*", "", ["cell", "blocks.1.statistics"]])
def test_whole_modules_have_the_bits_of_plain_training(modules: Any, kept: Any, plain: Any) -> None:
    made = em.checkpointing(kept, modules, selective=False)
    found, calls = trained(made.wrap)
    assert same(found, plain[0])  # Statistics among them, which changed once.
    assert not calls or sum((calls - plain[1]).values()) > 10


@pytest.mark.parametrize("seed", range(2))
def test_saved_tensors_move_as_planned(seed: int, kept: Any, plain: Any, tmp_path: Path) -> None:
    ops = kernels(kept)
    # Not what shares memory with others, and not what PyTorch keeps as a number or a statistic.
    names = [
        n for n in sorted(waiting(kept)) if ops[n].type.partition("::")[2] in ("gelu", "mul", "div", "relu")
    ]
    move = random.Random(seed).sample(names, len(names) // 2)
    made = em.checkpointing(planned(kept, tmp_path / "p.json", [], move))
    assert made.exact and made.modules == ()
    copied = []

    @contextlib.contextmanager
    def around(model: Any) -> Iterator[None]:
        with made.offload(model, devices={"cpu:0": "cpu"}) as off:
            yield
        copied.append(off.moved_bytes)

    found, _ = trained(around=around)
    assert same(found, plain[0])
    assert copied == 2 * [sum(4 * int(torch.tensor(ops[n].outputs[0][1]).prod()) for n in move)]


@contexts
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", range(2))
def test_both_together_have_the_bits_of_plain_training(
    seed: int, kept: Any, plain: Any, tmp_path: Path
) -> None:
    made = em.checkpointing(
        by_chance(kept, tmp_path / "p.json", seed, moves=True), ["blocks.0", "blocks.1", "cell"]
    )
    handles = []
    found, _ = trained(lambda model: handles.append(made.wrap(model)), made.offload)
    assert same(found, plain[0])
    assert handles[0].moved_bytes > 0


@contexts
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("micro", [False, True])
def test_autocast_and_micro_batches(micro: bool, tmp_path: Path) -> None:
    def run(around: Any = None, wrap: Any = None) -> Any:
        model, optimizer, batch = made()
        wrapped = wrap(model) if wrap else None
        torch.manual_seed(2)
        for k in range(2 if micro else 1):
            with around(model, batch=k) if around else contextlib.nullcontext():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = loss_of(model, batch)
                if micro:
                    loss = loss / 2
            loss.backward()
        optimizer.step()
        return [*model.parameters(), *model.buffers()], wrapped

    model, optimizer, batch = made()
    options: Any = {"accumulate": 2} if micro else {}
    graph = em.trace(
        model, [batch, batch] if micro else batch, loss_of, optimizer, autocast=torch.bfloat16, **options
    )
    placed = em.place(graph, MACHINE, method="single-gpu", progress=False)
    found = em.checkpointing(by_chance(placed, tmp_path / "p.json", 3, moves=True), "blocks.*")
    assert same(run(found.offload, found.wrap)[0], run()[0])


def test_a_plan_inside_of_blocks_is_exact_and_a_wider_region_is_not(
    kept: Any, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    names = [name for name in kernels(kept) if name.startswith(("gelu", "sigmoid", "native_layer_norm"))]
    inside = [name for name in names if kernels(kept)[name].scope.startswith("blocks/")]
    plan = planned(kept, tmp_path / "p.json", inside)
    made = em.checkpointing(plan, "blocks.*")
    assert made.exact and made.again == tuple(inside)
    assert made.step_time == pytest.approx(plan.step_time, rel=1e-3)
    assert kept.step_time < plan.step_time and plan.peak["gpu:0"] < kept.peak["gpu:0"]
    assert made.peak["gpu:0"] < kept.peak["gpu:0"]
    assert not [warning for warning in recwarn if warning.category is em.LossyExport]
    # All of the model at once: its tensors are in memory together, as without a plan.
    assert em.checkpointing(plan, "").peak["gpu:0"] > made.peak["gpu:0"]
    assert em.checkpointing(plan).step_time <= made.step_time  # Of all that fit, the fastest.


def test_what_is_lost_is_a_warning_with_its_cost(kept: Any, tmp_path: Path) -> None:
    plan = planned(kept, tmp_path / "p.json", [n for n in kernels(kept) if n.startswith(("gelu", "tanh"))])
    with pytest.warns(
        em.LossyExport, match=r"ops of the plan do not run again.*: step time .* -> .*, peak gpu:0"
    ):
        made = em.checkpointing(plan, "blocks.*")
    assert "tanh_1" not in made.again and made.losses
    assert made.step_time is not None
    with pytest.warns(
        em.LossyExport, match="does not fit, peak gpu:0 .*; place with a larger reserve= and give"
    ):
        assert em.checkpointing(plan, "blocks.*", reserve="99.9999%").step_time is None
    with pytest.warns(em.LossyExport, match=r"[1-9]\d* ops run again that the plan keeps"):
        whole = em.checkpointing(plan, "blocks.*", selective=False)
    assert len(whole.again) > len(made.again)
    assert whole.placement.step_time > made.placement.step_time


def test_checkpoints_of_all_blocks_to_compare_with(kept: Any) -> None:
    blocks = em.checkpoint_blocks(kept)
    assert blocks.modules == ("blocks.0", "blocks.1", "blocks.2")
    assert em.checkpoint_blocks(kept, "blocks.*").again == blocks.again
    assert blocks.step_time > kept.step_time and blocks.peak["gpu:0"] < kept.peak["gpu:0"]
    assert set(blocks.again) < set(kernels(kept))
    with pytest.raises(em.UnknownName, match="is not called in the traced step; the nearest is 'blocks"):
        em.checkpoint_blocks(kept, "block.*")


def test_other_forward_passes_are_refused(kept: Any, tmp_path: Path) -> None:
    plan = planned(kept, tmp_path / "p.json", ["gelu_1"], ["gelu_2"])
    model, _, batch = made()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        found = em.checkpointing(plan, "blocks.*")
    other = copy.deepcopy(model)
    other.blocks[0].drop = nn.Identity()
    if hasattr(torch_checkpoint, "noop_context_fn"):
        with (
            found.wrap(other),
            pytest.raises(em.EmplaceError, match=r"module 'blocks.0': issues aten\..* trace the"),
        ):
            loss_of(other, batch)
        with found.wrap(model):
            with pytest.raises(em.EmplaceError, match="module 'blocks.0': is checkpointed already; remove"):
                found.wrap(model)
            loss = loss_of(model, batch)
            loss.backward(retain_graph=True)
            with pytest.raises(em.EmplaceError, match="second backward pass; call backward"):
                loss.backward()
    else:
        with pytest.raises(
            em.EmplaceError, match="checkpoints whole modules only; install torch 2.1 or later, or"
        ):
            found.wrap(model)
    assert "forward" not in model.blocks[0].__dict__
    other.blocks[1] = nn.Identity()
    other.blocks[1].forward = lambda x, scale: x
    with pytest.raises(em.EmplaceError, match=r"offload\(\): op 'gelu_2' of the plan did not run"):
        with found.offload(other):
            loss_of(other, batch)
    with (
        pytest.warns(em.LossyExport),
        pytest.raises(em.EmplaceError, match="module 'blocks.0': is not in this model"),
    ):
        em.checkpointing(plan, "blocks.*", selective=False).wrap(nn.Linear(1, 1))


def test_wrong_requests_are_refused(kept: Any, cnn: em.Graph, tmp_path: Path) -> None:
    for wrong, message in (
        (
            lambda: em.checkpointing(kept),
            "has no memory plan; place with allow='recompute', or name modules=",
        ),
        (
            lambda: em.checkpointing(kept, ["blocks.9"], selective=False),
            "'blocks.9': is not called in the traced step; the nearest",
        ),
        (
            lambda: em.checkpointing(kept, ["blocks.0", ""], selective=False),
            "'blocks.0': is inside of ''; name modules side by side",
        ),
        (
            lambda: em.checkpointing(em.place(cnn, "h100", method="heft", progress=False)),
            "was not traced from a",
        ),
    ):
        with pytest.raises(em.EmplaceError, match=message):
            wrong()
    found = em.checkpointing(planned(kept, tmp_path / "p.json", [], ["gelu_1"]))
    with pytest.raises(em.EmplaceError, match="the traced step has 1 micro-batches; give batch="):
        found.offload(batch=1)


@contexts
@pytest.mark.usefixtures("quiet")
def test_writes_across_the_border_of_a_region_are_refused(tmp_path: Path) -> None:
    class Adds(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.add_(1).sigmoid()

    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.adds, self.last = nn.Linear(16, 16), Adds(), nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            return self.last(self.adds(self.first(x)).mean(1))

    model, (_, _, batch) = Writes(), made()
    graph = em.trace(model, batch, loss_of, torch.optim.SGD(model.parameters(), lr=0.1))
    placed = em.place(graph, MACHINE, method="single-gpu", progress=False)
    plan = planned(placed, tmp_path / "p.json", ["sigmoid_1"])
    with pytest.raises(
        em.EmplaceError, match="module 'adds': writes in place to a tensor that is made outside"
    ):
        em.checkpointing(plan, ["adds"])
    assert em.checkpointing(plan).modules == ("",)  # The only one that holds the write as well as the tensor.


@contexts
@pytest.mark.usefixtures("quiet")
def test_gradients_that_were_not_traced_are_refused(kept: Any, tmp_path: Path) -> None:
    model, optimizer, batch = made()
    model.blocks[0].norm.weight.requires_grad = False
    model.blocks[0].unused = nn.Linear(2, 2)  # A parameter without a gradient is no reason.
    graph = em.trace(model, batch, loss_of, optimizer)
    placed = em.place(graph, MACHINE, method="single-gpu", progress=False)
    found = em.checkpointing(planned(placed, tmp_path / "p.json", ["gelu_1"]), "blocks.*")
    with found.wrap(model):
        loss_of(model, batch).backward()
        model.blocks[0].norm.weight.requires_grad = True
        with pytest.raises(
            em.EmplaceError, match="module 'blocks.0': has a parameter that required no gradient"
        ):
            loss_of(model, batch)
