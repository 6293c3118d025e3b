"""Ops that run as another kernel, since their device has none of the traced one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from emplace.applying.tasks import Kind
from emplace.errors import EmplaceError
from emplace.tracing.functional import FunctionalOp
from emplace.tracing.kernels import Counterpart, counterpart, has_kernel

if TYPE_CHECKING:
    from emplace.applying.devices import Device
    from emplace.applying.plan import StepPlan


class Recorded:
    """A forward that autograd followed: the saved result of an op that ran as its counterpart."""

    __slots__ = ("leaves", "outputs")

    def __init__(self, found: Counterpart, args: Sequence[Any], named: dict[str, Any]) -> None:
        count = found.differentiable
        self.leaves = [tensor.detach().requires_grad_() for tensor in args[:count]]
        with torch.enable_grad():
            self.outputs = list(found.compute(*self.leaves, *args[count:], **named))

    def backward(self, gradients: Sequence[torch.Tensor | None]) -> Sequence[torch.Tensor | None]:
        """The gradients of the leaves; None of one that is not used (the biases of an LSTM without)."""
        given = [(out, grad) for out, grad in zip(self.outputs, gradients) if grad is not None]
        return torch.autograd.grad(
            [out for out, _ in given],
            self.leaves,
            [grad.reshape(out.shape) for out, grad in given],
            retain_graph=True,
            allow_unused=True,
        )


class Forward:
    """An op as its counterpart."""

    def __init__(self, found: Counterpart, node: Node, recorded: bool) -> None:
        self.found, self.recorded, self.traced = found, recorded, node.meta["tensors"]

    def __call__(self, *args: Any, **named: Any) -> list[Any]:
        recorded = Recorded(self.found, args, named) if self.recorded else None
        outputs = recorded.outputs if recorded is not None else self.found.compute(*args, **named)
        return [*(_laid(out.detach(), info) for out, info in zip(outputs, self.traced)), recorded]


class Backward:
    """The backward of an op as that of its counterpart, which runs again if it ran elsewhere."""

    def __init__(self, found: Counterpart, node: Node) -> None:
        self.found, self.traced = found, node.meta["tensors"]

    def __call__(self, *args: Any, **named: Any) -> list[torch.Tensor]:
        recorded, gradients = args[self.found.saved], args[self.found.gradients]
        here = next(gradient for gradient in gradients if gradient is not None)
        if not isinstance(recorded, Recorded) or recorded.outputs[0].device != here.device:
            recorded = Recorded(self.found, [args[at] for at in self.found.arguments], named)
        return [
            here.new_zeros(info.shape) if grad is None else _laid(grad, info)
            for grad, info in zip(recorded.backward(gradients), self.traced)
        ]


def _laid(tensor: torch.Tensor, traced: Any) -> torch.Tensor:
    """The tensor with the shape and the strides of the trace, for the views that follow."""
    if traced is None:
        return tensor
    tensor = tensor.reshape(traced.shape)
    strides = zip(traced.shape, tensor.stride(), traced.stride)
    if all(size < 2 or mine == theirs for size, mine, theirs in strides):
        return tensor
    made = torch.empty_strided(traced.shape, traced.stride, dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor)


def counterparts(plan: StepPlan, devices: list[Device]) -> dict[Node, Forward | Backward]:
    """What runs in the place of ops whose device has no kernel of them.

    Refuses an op that has neither. A backward runs as its forward does, and as the device's own kernel
    asks.
    """
    chosen: dict[Node, Forward | Backward] = {}
    for task in plan.tasks:
        if task.kind is not Kind.KERNEL:
            continue
        node: Node = task.node
        func: Any = node.target.func if isinstance(node.target, FunctionalOp) else node.target
        if not isinstance(func, OpOverload):
            continue
        found, device = counterpart(func), devices[task.device]
        lacks = not has_kernel(func, device.device.type)
        if found is None:
            if lacks:
                raise EmplaceError(
                    f"op '{task.op}' on {device.name}",
                    f"PyTorch has no kernel of {func._schema.name} for {device.device}",
                    "place it on a device of another kind, as `place` does",
                )
        elif found[1]:
            saved = node.args[found[0].saved]
            forward = saved.args[0] if isinstance(saved, Node) and saved.args else None
            if lacks or forward in chosen:
                chosen[node] = Backward(found[0], node)
        elif lacks:
            saved_at = len(func._schema.returns) - 1
            chosen[node] = Forward(found[0], node, any(user.args[1] == saved_at for user in node.users))
    return chosen
