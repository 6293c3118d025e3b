"""Modules that run again as decided, by torch.utils.checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from emplace.checkpoints.offload import Moves, Waiting, first_output, tensors_in, unseen
from emplace.checkpoints.regions import Decided, Decision, Region
from emplace.errors import EmplaceError
from emplace.tracing.calls import ignored
from emplace.tracing.step import TracedStep

_TRACE_AGAIN = "trace the step again, with the model and the batch as they are trained"
Value = Callable[[Sequence[torch.Tensor]], Any]


class _Position:
    """Follows the calls of a region, and refuses others than those that were traced."""

    def __init__(self, region: Region) -> None:
        self._region, self._next = region, 0

    def of(self, func: Any) -> int:
        calls, index = self._region.calls, self._next
        traced = calls[index].func if index < len(calls) else "the end"
        if traced != str(func):
            what = f"issues {func} where the traced step has {traced}"
            raise EmplaceError(f"module '{self._region.module}'", what, _TRACE_AGAIN)
        self._next += 1
        return index

    def end(self) -> None:
        if self._next < len(self._region.calls):
            what = f"ends where the traced step has {self._region.calls[self._next].func}"
            raise EmplaceError(f"module '{self._region.module}'", what, _TRACE_AGAIN)


class Policy:
    """A policy function for one forward pass of a module: calls are matched with the traced ones in order."""

    def __init__(self, region: Region, decided: Decided, extra: tuple[str, ...], extra_s: float) -> None:
        if not hasattr(torch.utils.checkpoint, "CheckpointPolicy"):
            cure = "install torch 2.4 or later, or use wrap()"
            raise EmplaceError("policy()", f"PyTorch {torch.__version__} has no policies", cure)
        self.again = decided.again
        """The ops that run again."""
        self.extra = extra
        """Those of them that the plan does not name."""
        self.extra_s = extra_s
        """Their time in the simulator."""
        self._calls, self._kinds = decided.calls, torch.utils.checkpoint.CheckpointPolicy
        self._positions = {again: _Position(region) for again in (False, True)}

    def __call__(self, context: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if ignored(func) or self._calls[self._positions[context.is_recompute].of(func)] is Decision.RUN:
            return self._kinds.MUST_RECOMPUTE
        return self._kinds.MUST_SAVE


class _Kept:
    """What the calls of a region leave for when it runs again."""

    def __init__(self, region: Region, decided: Decided, moves: Moves, wrapped: Wrapped) -> None:
        self.region, self.decided, self._moves, self._wrapped = region, decided, moves, wrapped
        self.states: dict[int, tuple[Any, torch.Tensor]] = {}
        self._results: dict[int, tuple[Any, list[Any]]] = {}

    def put(self, index: int, result: Any, given: list[torch.Tensor]) -> None:
        """Keeps what is needed of a result; ``given`` are the tensors that the call got."""
        needed, made, found = self.decided.outputs[index], 0, list[Any]()
        for each in result if isinstance(result, (tuple, list)) else (result,):
            own = [at for at, tensor in enumerate(given) if tensor is each]
            if own or not isinstance(each, torch.Tensor):
                found.append(_argument(own[0]) if own else _same(each))
            elif self.decided.calls[index] is Decision.SKIP or needed is not None and made not in needed:
                found.append(_empty(each))
            else:
                found.append((each.detach(), first_output(self.region.calls[index], result, given) + made))
            made += isinstance(each, torch.Tensor)
        self._results[index] = (type(result) if isinstance(result, (tuple, list)) else None, found)

    def end(self) -> None:
        """The region has run: all writes to its tensors are done, and those that move leave."""
        for index, (_, found) in self._results.items():
            op = self.region.result.get(self.region.unit[index], "")
            for at, each in enumerate(found):
                if isinstance(each, tuple):
                    device = self._moves.get((op, each[1]))
                    found[at] = self._there(each[0], device) if device else self._here(each[0])

    def _there(self, tensor: torch.Tensor, device: torch.device) -> Value:
        waiting = Waiting(tensor, device)
        self._wrapped.moved_bytes += waiting.leave(tensor)
        return lambda given: waiting.come_back()

    def _here(self, tensor: torch.Tensor) -> Value:
        version = tensor._version

        def value(given: Sequence[torch.Tensor]) -> torch.Tensor:
            if tensor._version != version:
                what, cure = "made a tensor that was written to later", "make this write not in place"
                raise EmplaceError(f"module '{self.region.module}'", what, cure)
            return tensor

        return value

    def take(self, index: int, given: list[torch.Tensor]) -> Any:
        """The result, once."""
        if index not in self._results:
            what, cure = "runs again for a second backward pass", "call backward() once per forward pass"
            raise EmplaceError(f"module '{self.region.module}'", what, cure)
        kind, found = self._results.pop(index)
        values = [value(given) for value in found]
        return kind(values) if kind else values[0]


def _same(value: Any) -> Value:
    return lambda given: value


def _argument(at: int) -> Value:
    return lambda given: given[at]


def _empty(tensor: torch.Tensor) -> Value:
    size, stride, kind, device = tensor.size(), tensor.stride(), tensor.dtype, tensor.device
    return lambda given: torch.empty_strided(size, stride, dtype=kind, device=device)


class _Selective(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The calls of a region: the first time results are kept, then those that the plan does not name return
    them."""

    def __init__(self, kept: _Kept, again: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept, self._again = kept, again

    def __enter__(self) -> Any:
        self._position = _Position(self._kept.region)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, kind: Any, *rest: Any) -> None:
        super().__exit__(kind, *rest)  # type: ignore[no-untyped-call]
        if kind is None and not self._again:
            self._position.end()
            self._kept.end()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if ignored(func):
            return func(*args, **(kwargs or {}))
        index, given = self._position.of(func), tensors_in(*args, *(kwargs or {}).values())
        runs = self._kept.decided.calls[index] is Decision.RUN
        if self._again and not runs:
            return self._kept.take(index, given)
        if runs and self._kept.region.calls[index].random:
            self._random(index, given)
        result = func(*args, **(kwargs or {}))
        if not runs:
            self._kept.put(index, result, given)
        return result

    def _random(self, index: int, given: list[torch.Tensor]) -> None:
        """The same numbers each time, whatever was drawn before."""
        cuda = next((each.device for each in given if each.device.type == "cuda"), None)
        if not self._again:
            state = torch.cuda.get_rng_state(cuda) if cuda else torch.get_rng_state()
            self._kept.states[index] = cuda, state
        elif cuda:
            torch.cuda.set_rng_state(self._kept.states[index][1], cuda)
        else:
            torch.set_rng_state(self._kept.states[index][1])


class Wrapped(contextlib.ExitStack):
    """Modules that are checkpointed, until ``remove()``."""

    def __init__(self) -> None:
        super().__init__()
        self.moved_bytes = 0
        """Bytes that tensors of these modules copied to other devices."""

    def remove(self) -> None:
        """The modules as they were."""
        self.close()


def wrapped(
    model: torch.nn.Module,
    modules: Mapping[str, Sequence[tuple[Region, Decided | None]]],
    step: TracedStep,
    moves: Moves,
) -> Wrapped:
    """Checkpoints modules. For each of its calls in a step one has a region, and decisions unless all of it
    runs again."""
    selective = any(decided for regions in modules.values() for _, decided in regions)
    if selective and not hasattr(torch.utils.checkpoint, "noop_context_fn"):
        what = f"PyTorch {torch.__version__} checkpoints whole modules only"
        raise EmplaceError("wrap()", what, "install torch 2.1 or later, or give selective=False")
    found = dict(model.named_modules())
    for name in modules:
        if name not in found:
            raise EmplaceError(f"module '{name}'", "is not in this model", "give the model that was traced")
        if isinstance(found[name].__dict__.get("forward"), _Forward):
            raise EmplaceError(
                f"module '{name}'", "is checkpointed already", "remove() the other handle first"
            )
    handle = Wrapped()
    for name, regions in modules.items():
        before = {key: value for key, value in found[name].__dict__.items() if key == "forward"}
        found[name].__dict__["forward"] = _Forward(model, name, regions, step, moves, handle)
        handle.callback(found[name].__dict__.update, before)
        handle.callback(found[name].__dict__.pop, "forward")
    return handle


class _Forward:
    """The forward pass of a module, checkpointed."""

    def __init__(
        self,
        model: torch.nn.Module,
        name: str,
        regions: Sequence[tuple[Region, Decided | None]],
        step: TracedStep,
        moves: Moves,
        handle: Wrapped,
    ) -> None:
        self._own, self._regions, self._visit = model.get_submodule(name).forward, regions, 0
        self._moves, self._handle = moves, handle
        within = f"{name}." if name else ""
        updated = [
            entry.name for entry in step.outputs if entry.kind == "buffer" and entry.name.startswith(within)
        ]
        self._buffers = [(model.get_submodule(b.rpartition(".")[0]), b.rpartition(".")[2]) for b in updated]
        inputs = [
            entry.name for entry in step.inputs if entry.kind == "parameter" and entry.name.startswith(within)
        ]
        self._frozen = [model.get_parameter(entry) for entry in inputs if entry not in step.log.trainable]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self._own(*args, **kwargs)
        region, decided = self._regions[self._visit % len(self._regions)]
        self._visit += 1
        options: dict[str, Any] = {}
        if decided is not None:
            if any(
                parameter.requires_grad for parameter in self._frozen
            ):  # Their gradients need other tensors.
                what = "has a parameter that required no gradient when it was traced"
                raise EmplaceError(f"module '{region.module}'", what, _TRACE_AGAIN)
            kept = _Kept(region, decided, self._moves, self._handle)
            options["context_fn"] = lambda: (_Selective(kept, False), _Selective(kept, True))
        with unseen():
            before = [owner._buffers[key].clone() for owner, key in self._buffers]  # type: ignore[union-attr]
        ran = False

        def run(*given: Any) -> Any:
            nonlocal ran
            first, ran = not ran, True
            with (
                unseen(not first),
                contextlib.nullcontext() if first else self._exchanged(before, not decided),
            ):
                return self._own(*given, **kwargs)

        with unseen():
            return torch.utils.checkpoint.checkpoint(
                run, *args, use_reentrant=False, preserve_rng_state=True, **options
            )

    @contextlib.contextmanager
    def _exchanged(self, before: Sequence[torch.Tensor], copy: bool) -> Iterator[None]:
        """While open, buffers have their values of before: what is written to them is lost."""
        now = [owner._buffers[key] for owner, key in self._buffers]
        for (owner, key), value in zip(self._buffers, before):
            owner._buffers[key] = value.clone() if copy else value
        try:
            yield
        finally:
            for (owner, key), own in zip(self._buffers, now):
                owner._buffers[key] = own
