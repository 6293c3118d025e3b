"""What PyTorch's checkpoints make of a memory plan: which modules and ops, and what the step takes."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from emplace.checkpoints.regions import Decided, Ops, Region, layers_of, regions_of
from emplace.checkpoints.simulated import at_once, with_plan
from emplace.errors import EmplaceError, LossyExport, UnknownName
from emplace.program import Json
from emplace.tables import bytes_text, seconds_text

if TYPE_CHECKING:
    from emplace.checkpoints.offload import Offload
    from emplace.checkpoints.running import Policy, Wrapped
    from emplace.placement import Placement
    from emplace.tracing.step import TracedStep

#: Shares of the ops of a module that wait and are in the plan, from which on the whole module is tried.
_SHARES = (0.0, 0.3, 0.6)


@dataclass(frozen=True)
class Checkpointing:
    """Made by :func:`emplace.checkpointing` and :func:`emplace.checkpoint_blocks`."""

    plan: Placement
    """What it was made of."""
    modules: tuple[str, ...]
    """The modules that are checkpointed, as PyTorch names them; empty text: the model itself."""
    selective: bool
    """Whether only ops of the plan run again, or all of these modules."""
    placement: Placement
    """The decisions as a placement: an op runs again when its first reader needs it."""
    losses: tuple[str, ...]
    """What differs from the plan; empty: exact."""
    _measured: Json = field(repr=False)
    _ops: Ops = field(repr=False)

    @property
    def exact(self) -> bool:
        return not self.losses

    @property
    def step_time(self) -> float | None:
        """Seconds of a step in which all that runs again of a module does so at once, as in PyTorch; None if
        it does not fit."""
        seconds: float | None = self._measured["step_time_s"]
        return seconds

    @property
    def peak(self) -> dict[str, int]:
        """Bytes of memory at the peak of this step, per device."""
        return dict(zip(self.plan.devices, self._measured["peak_memory_bytes"]))

    @property
    def again(self) -> tuple[str, ...]:
        """The ops that run again, in their order."""
        return tuple(_decisions(self.placement)["recompute"])

    def __str__(self) -> str:
        how = "ops of the plan" if self.selective else "whole modules"
        after = seconds_text(self.step_time) if self.step_time is not None else "does not fit"
        return f"{len(self.modules)} modules, {how}: {after}, peak {_peaks(self.peak)}"

    # For PyTorch.

    def policy(self, module: str = "", call: int = 0) -> Policy:
        """The policy for one ``torch.utils.checkpoint.create_selective_checkpoint_contexts`` of a module.

        Contexts need ``allow_cache_entry_mutation=True``, because tensors may be written in place. ``call``
        is the number of the module's call in a step. PyTorch runs a call again or keeps it. So ops whose
        outputs no op needs run again as well: ``.extra`` names these, ``.extra_s`` is their time.
        """
        from emplace.checkpoints.running import Policy

        step, wanted = _step(self.plan), set(_decisions(self.plan)["recompute"])
        regions = regions_of(step, _named(step, [module])[0])
        if not 0 <= call < len(regions):
            what = f"has {len(regions)} calls in a step"
            raise EmplaceError(f"policy('{module}', {call})", what, "name one of these calls")
        decided = regions[call].decide(self._ops, wanted, by_policy=True)
        extra = tuple(op for ops in regions[call].ops for op in ops if op in decided.again - wanted)
        times = {each.op: each.time_s for each in self.plan.schedule.slices}
        seconds = sum(times.get(op.id, 0.0) for op in self.plan.graph.ops if op.name in extra)
        return Policy(regions[call], decided, extra, seconds)

    def wrap(self, model: Any = None, *, devices: Mapping[str, Any] | None = None) -> Wrapped:
        """Checkpoints the modules of a model in place (that which was traced, if not given).

        The model keeps its names and its bits: random numbers are drawn again as they were, running
        statistics change once. Returns a handle with ``remove()``, which is also a context manager.
        ``devices`` are those of :meth:`offload`.
        """
        from emplace.checkpoints.running import wrapped

        step = _step(self.plan)
        found = {name: [(r, self._decided(r)) for r in regions_of(step, name)] for name in self.modules}
        return wrapped(self.plan.graph._model if model is None else model, found, step, self._moves(devices))

    def offload(
        self, model: Any = None, *, devices: Mapping[str, Any] | None = None, batch: int = 0
    ) -> Offload:
        """A context for forward pass and loss, in which saved tensors leave as in the plan.

        ``devices`` names the PyTorch devices of devices of the machine, as in ``{"cpu:0": "cpu"}``, which is
        the default. ``batch`` is the number of a micro-batch. ``.moved_bytes`` of the context counts.
        """
        from emplace.checkpoints.offload import Offload

        step = _step(self.plan)
        count = len(step.log.starts) - 1
        if not 0 <= batch < count:
            raise EmplaceError(
                "offload()", f"the traced step has {count} micro-batches", "give batch= below that"
            )
        model = self.plan.graph._model if model is None else model
        return Offload(model, step, self._moves(devices), batch)

    def _moves(self, devices: Mapping[str, Any] | None) -> dict[tuple[str, int], Any]:
        import torch

        def device(name: str) -> torch.device:
            kind, _, number = name.partition(":")
            cuda = kind != "cpu" and torch.cuda.is_available()
            return torch.device((devices or {}).get(name, f"cuda:{number or 0}" if cuda else "cpu"))

        moves = _decisions(self.placement)["move"]
        return {(move["tensor"], move.get("output", 0)): device(move["to"]) for move in moves}

    def _decided(self, region: Region) -> Decided | None:
        return region.decide(self._ops, set(_decisions(self.plan)["recompute"])) if self.selective else None


def checkpointing(
    placement: Placement,
    modules: str | Sequence[str] | None,
    selective: bool,
    reserve: str | None = None,
) -> Checkpointing:
    """The checkpoints of a plan, of modules that are named or of those with the fastest step that fits."""
    if reserve is not None:
        placement = replace(placement, settings=replace(placement.settings, reserve=reserve))
    step, ops, plan = _step(placement), Ops(placement.graph), _decisions(placement)
    if placement.memory_plan is None and (modules is None or selective):
        cure = "place with allow='recompute', or name modules= with selective=False"
        raise EmplaceError("checkpointing()", "the placement has no memory plan", cure)
    if modules is not None or not plan["recompute"]:
        return _made(placement, ops, _named(step, () if modules is None else modules), selective)
    wanted, late = set(plan["recompute"]), {name for name, _ in ops.late}
    found: dict[tuple[str, ...], Checkpointing] = {}
    for layer in layers_of(step):
        shares: dict[str, float] = {}
        for name in layer:
            regions = regions_of(step, name)
            waits = {op for region in regions for op in region.decide(ops, ops.kernels).again} & late
            if waits & wanted and not any(region.foreign for region in regions):
                shares[name] = len(waits & wanted) / len(waits)
        for share in _SHARES[: 1 if selective else None]:
            names = tuple(name for name in layer if shares.get(name, 0.0) > share)
            if names and names not in found:
                found[names] = _made(placement, ops, names, selective)
    if not found:
        what = "no op of the plan is inside of a module that can run again"
        raise EmplaceError("checkpointing()", what, "run the plan by p.apply()")
    return min(found.values(), key=_cost)


def checkpoint_blocks(placement: Placement, pattern: str | None = None) -> Checkpointing:
    """Every block runs again as a whole; blocks that are not named are the outermost numbered modules."""
    step = _step(placement)
    numbered = [visit.module for visit in step.log.visits if re.search(r"(^|\.)\d+$", visit.module)]
    names = [name for name in dict.fromkeys(numbered) if not any(name.startswith(f"{n}.") for n in numbered)]
    if not names and pattern is None:
        raise EmplaceError(
            "checkpoint_blocks()", "the model has no numbered modules", "name them by a pattern"
        )
    found = checkpointing(with_plan(placement, [], []), pattern or names, selective=False)
    return replace(found, plan=found.placement, losses=())


def warn_of_losses(made: Checkpointing) -> Checkpointing:
    """Passes on what is lost."""
    if made.losses:
        before, after = seconds_text(made.plan.step_time), seconds_text(made.step_time)
        fits, cure = (
            made.step_time is not None,
            "; place with a larger reserve= and give the smaller one here",
        )
        step = f"step time {before} -> {after}" if fits else "does not fit"
        peaks = f"peak {_peaks(made.plan.peak)} -> {_peaks(made.peak)}{'' if fits else cure}"
        text = f"{'; '.join(made.losses)}: {step}, {peaks}"
        warnings.warn(text, LossyExport, stacklevel=3)
    return made


def _step(placement: Placement) -> TracedStep:
    if placement.graph.step is None:
        what = f"{placement.graph.name} was not traced from a PyTorch model"
        cure = "make the graph with em.trace(model, batch, loss=..., optimizer=...)"
        raise EmplaceError("checkpointing()", what, cure)
    return placement.graph.step


def _decisions(placement: Placement) -> Json:
    return placement.memory_plan or {"recompute": [], "move": []}


def _named(step: TracedStep, modules: str | Sequence[str]) -> tuple[str, ...]:
    """The modules of patterns, which are called in a step and of which none is inside of another."""
    called = list(dict.fromkeys(visit.module for visit in step.log.visits))
    given = [modules] if isinstance(modules, str) else modules
    names = list[str]()
    for each in given:
        depth = each.count(".")
        found = [name for name in called if fnmatchcase(name, each) and name.count(".") == depth]
        if not found:
            near = get_close_matches(each, called, n=1, cutoff=0.4)
            cure = f"the nearest is '{near[0]}'" if near else "name one of model.named_modules()"
            raise UnknownName(f"module '{each}'", "is not called in the traced step", cure)
        names += found
    for name in names:
        for other in names:
            if other != name and (not other or name.startswith(f"{other}.")):
                raise EmplaceError(f"module '{name}'", f"is inside of '{other}'", "name modules side by side")
    return tuple(names)


def _made(placement: Placement, ops: Ops, names: tuple[str, ...], selective: bool) -> Checkpointing:
    regions = [region for name in names for region in regions_of(_step(placement), name)]
    for region in regions:
        if region.foreign:
            what = "writes in place to a tensor that is made outside of it, and cannot run again"
            cure = "name the module around it, or make the write not in place"
            raise EmplaceError(f"module '{region.module}'", what, cure)
    plan, losses = _decisions(placement), []
    planned = set(plan["recompute"]) & ops.kernels
    again = {op for r in regions for op in r.decide(ops, planned if selective else ops.kernels).again}
    order = [op.name for op in placement.graph.ops if op.name in again]
    moves = [{**move, "after": None} for move in plan["move"] if move["tensor"] not in again]
    coarse = with_plan(placement, order, [{k: v for k, v in m.items() if v is not None} for m in moves])
    measured = at_once(coarse, [region.inside for region in regions])
    if missing := planned - again:
        losses.append(f"{len(missing)} of {len(planned)} ops of the plan do not run again")
    if more := again - planned:
        losses.append(f"{len(more)} ops run again that the plan keeps")
    if early := sum("after" in move for move in plan["move"]):
        losses.append(f"copies back of {early} tensors start when they are read")
    if not losses and (measured["step_time_s"] or math.inf) > 1.001 * placement.step_time:
        losses.append("all that runs again of a module does so at once")
    return Checkpointing(placement, names, selective, coarse, tuple(losses), measured, ops)


def _cost(made: Checkpointing) -> tuple[bool, float, int]:
    """Those that fit come first, the fastest of them first, else that with the lowest peak."""
    return made.step_time is None, made.step_time or 0.0, max(made.peak.values())


def _peaks(peak: dict[str, int]) -> str:
    return ", ".join(f"{name} {bytes_text(count)}" for name, count in peak.items())
