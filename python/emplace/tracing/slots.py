"""Where the tensors of a step are kept in the user's model and optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from emplace.errors import EmplaceError


def _overwrite(tensor: torch.Tensor, value: torch.Tensor) -> None:
    with torch.no_grad():
        # What a sparse tensor stores is exchanged, which its detached twin does not see.
        (tensor if tensor.layout == torch.sparse_coo else tensor.detach()).copy_(value)


class ModuleSlot:
    """A parameter or buffer."""

    def __init__(self, name: str, module: torch.nn.Module, table: str, key: str) -> None:
        self.name, self.module, self.table, self.key = name, module, table, key

    def own(self) -> torch.Tensor | None:
        """The user's tensor."""
        tensor: torch.Tensor | None = getattr(self.module, self.table).get(self.key)
        return tensor

    def read(self) -> torch.Tensor:
        """The user's tensor, without its autograd history."""
        tensor = self.own()
        if tensor is None:
            raise EmplaceError(self.name, "is no longer in the model", "trace the step again")
        return tensor.detach()

    def write(self, value: torch.Tensor) -> None:
        """Overwrites the user's tensor."""
        _overwrite(self.read(), value)


class StateSlot:
    """State that the optimizer keeps for a parameter, a tensor or a Python number."""

    def __init__(
        self,
        name: str,
        optimizer: torch.optim.Optimizer,
        parameter: torch.Tensor,
        key: str,
        number: type | None,
        initial: Callable[[torch.Tensor], torch.Tensor] | None,
    ) -> None:
        self.name, self.optimizer, self.parameter, self.key = name, optimizer, parameter, key
        self.number, self.initial = number, initial

    def own(self) -> torch.Tensor | None:
        """The optimizer's tensor; None if there is none yet, or a Python number."""
        value = self.optimizer.state.get(self.parameter, {}).get(self.key)
        return value if isinstance(value, torch.Tensor) else None

    def read(self) -> torch.Tensor:
        """The state, or the first one that the optimizer would make."""
        state = self.optimizer.state.get(self.parameter, {})
        value = state.get(self.key)
        if value is None:
            if self.initial is None:
                raise EmplaceError(
                    self.name,
                    "the optimizer has no such state yet, and had it when traced",
                    "trace the step again",
                )
            return self.initial(self.parameter.detach())
        if isinstance(value, torch.Tensor):
            return value.detach()
        return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)

    def write(self, value: torch.Tensor) -> None:
        """Overwrites the state, or adds it."""
        state = self.optimizer.state[self.parameter]
        old = state.get(self.key)
        if isinstance(old, torch.Tensor):
            _overwrite(old, value)
        elif self.number is not None:
            state[self.key] = self.number(value.item())
        else:
            state[self.key] = value.detach().clone()


class GroupSlot:
    """A number of one of the optimizer's parameter groups; it is read at each step."""

    def __init__(
        self,
        name: str,
        optimizer: torch.optim.Optimizer,
        group: int,
        key: str,
        first: Callable[[], bool] | None = None,
    ) -> None:
        self.name, self.optimizer, self.group, self.key, self.first = name, optimizer, group, key, first

    def own(self) -> None:
        """A number is no tensor."""

    def read(self) -> torch.Tensor:
        """A float64 scalar."""
        value: Any = self.optimizer.param_groups[self.group][self.key]
        if self.first is not None and self.first():
            value = 0.0
        return torch.tensor(float(value), dtype=torch.float64)

    def write(self, value: torch.Tensor) -> None:
        """A step does not change it."""
        raise EmplaceError(self.name, "is not changed by a step", "report this")
