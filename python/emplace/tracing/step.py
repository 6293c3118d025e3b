"""A traced training step: the contract between the tracer and the code that places or runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import torch

from emplace.errors import EmplaceError
from emplace.tracing import compat
from emplace.tracing.calls import CallLog

if TYPE_CHECKING:
    from emplace.tracing.batches import TreeBatch, TreeResult

InputKind = Literal["parameter", "buffer", "optimizer", "input"]
OutputKind = Literal["loss", "result", "parameter", "buffer", "optimizer"]
_EXECUTION = {"foreach", "fused", "initial_lr", "params", "lr", "capturable", "differentiable"}


@dataclass(frozen=True)
class StepInput:
    """One placeholder of the step's module."""

    kind: InputKind
    name: str
    """Name of the parameter or buffer in the model, ``weight/exp_avg`` for the optimizer's state of a
    parameter, ``group.0/lr`` for a number of a parameter group (a float64 scalar), the path in the batch
    for an input.
    """
    parameter: str | None
    """The parameter that owns a state of the optimizer, else None."""
    op: str
    """Name of its op in the emplace graph."""


@dataclass(frozen=True)
class StepOutput:
    """One result of the step's module: what is returned, or the new value of a parameter, buffer or state."""

    kind: OutputKind
    name: str


class Slot(Protocol):
    """Where a parameter, buffer or optimizer state is kept in the user's objects."""

    name: str

    def own(self) -> torch.Tensor | None:
        """The tensor object that the user's code sees; None if there is none, or a number."""

    def read(self) -> torch.Tensor:
        """The tensor now (the user's own storage where there is one; what the optimizer would create if
        not).
        """

    def write(self, value: torch.Tensor) -> None:
        """Puts a new value in its place; a tensor that the user holds is overwritten, not exchanged."""


@dataclass
class TracedStep:
    """A training step (or an inference) as a functional flat graph of ATen ops.

    ``module(*step.arguments(batch))`` computes the outputs, ``step.store(values)`` writes new parameters,
    buffers and optimizer state into the user's model and optimizer and returns the loss (or the model's
    result).
    """

    module: torch.fx.GraphModule
    """No op writes to an argument. Placeholders in the order of ``inputs``, the output is a flat tuple in
    the order of ``outputs``. ``node.meta``: ``tensors`` (a tuple with a TensorInfo, or None, for each of
    the node's outputs), ``scope``, ``phase``, ``scalar`` (True: the node's value is a Python number).
    """
    inputs: list[StepInput]
    outputs: list[StepOutput]
    op_of: dict[str, str]
    """Node name -> op name in the emplace graph. Nodes without an entry (getitem, detach, arithmetic of
    Python numbers) cost nothing and run where their first argument lies.
    """
    random_nodes: set[str]
    """Nodes that draw from the default generator; they run in the order of the trace."""
    signature: str
    """sha256 over types, shapes and edges of the ops."""
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer | None
    batch_spec: TreeBatch
    result_spec: TreeResult
    gradients: dict[str, str]
    """Parameter -> node of its gradient (the last one, after accumulation), for those that have one."""
    slots: dict[str, Slot] = field(default_factory=dict)
    """Name of a placeholder's op -> where its tensor is kept, for all kinds but ``input``."""
    log: CallLog = field(default_factory=CallLog)
    """The calls of the forward pass and the modules that issued them."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Hyperparameters of the optimizer that are constants of the graph, by ``group.0/beta`` and so on."""

    def flatten(self, batch: Any) -> list[torch.Tensor]:
        """Tensors of a batch in the order of the inputs of kind ``input``."""
        return self.batch_spec.flatten(batch)

    def arguments(self, batch: Any) -> list[torch.Tensor]:
        """What ``module`` takes, in order: the user's tensors themselves (nothing is copied) and the
        batch's.
        """
        self.check()
        leaves = iter(self.flatten(batch))
        return [
            next(leaves) if entry.kind == "input" else self.slots[entry.op].read() for entry in self.inputs
        ]

    def check(self) -> None:
        """Refuses if the optimizer is not the one that was traced (other hyperparameters or groups)."""
        if self.optimizer is None:
            return
        now = fixed_hyperparameters(self.optimizer)
        for name in sorted(now.keys() | self.fixed.keys()):
            if now.get(name) != self.fixed.get(name):
                raise EmplaceError(
                    f"optimizer {name}",
                    f"is {now.get(name)}, was {self.fixed.get(name)} when the step was traced",
                    "trace the step again (the learning rate alone may change between steps)",
                )

    def store(self, values: list[torch.Tensor] | tuple[torch.Tensor, ...]) -> Any:
        """Writes the module's outputs into the user's objects; returns the loss or the result.

        Everything is checked before anything is written.
        """
        if len(values) != len(self.outputs):
            raise EmplaceError(
                "step", f"has {len(self.outputs)} outputs, got {len(values)}", "pass module's outputs"
            )
        by_name = {(entry.kind, entry.name): entry.op for entry in self.inputs}
        writes = [
            (self.slots[by_name[cast(InputKind, entry.kind), entry.name]], value)
            for value, entry in zip(values, self.outputs)
            if entry.kind not in ("loss", "result")
        ]
        olds = [slot.read() for slot, _ in writes]
        for old, (slot, value) in zip(olds, writes):
            if value.shape != old.shape or value.dtype != old.dtype:
                raise EmplaceError(
                    slot.name,
                    f"is {old.dtype} {tuple(old.shape)}, its new value is {value.dtype} {tuple(value.shape)}",
                    "pass the outputs of this step's module",
                )
        # What was computed in place, or is as before, is where it belongs.
        writes = [write for old, write in zip(olds, writes) if not _is(write[1], old)]
        # A new value may be the old one of another tensor: it is copied before that is overwritten.
        held = {compat.storage_address(old) for old in olds}
        writes = [
            (slot, value.clone() if compat.storage_address(value) in held else value)
            for slot, value in writes
        ]
        returned = [value for value, entry in zip(values, self.outputs) if entry.kind in ("loss", "result")]
        for slot, value in writes:
            slot.write(value)
        return self.result_spec.unflatten(returned)


def _is(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape are the same elements of one storage."""
    return (
        compat.storage_address(one) == compat.storage_address(other)
        and one.layout == torch.strided == other.layout
        and int(one.storage_offset()) == int(other.storage_offset())
        and one.stride() == other.stride()
    )


def fixed_hyperparameters(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Hyperparameters that become constants of the graph: all but the learning rate."""
    fixed: dict[str, Any] = {"groups": [len(group["params"]) for group in optimizer.param_groups]}
    for i, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if key not in _EXECUTION and not isinstance(value, (torch.Tensor, list)):
                fixed[f"group.{i}/{key}"] = value
    return fixed
