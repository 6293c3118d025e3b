"""Brings a model's tensors to the devices of a placement, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from emplace.errors import EmplaceError

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep


class Moved:
    """The user's parameters, buffers and optimizer state on their placed devices.

    All copies are made before the first tensor changes, so that a device that fills up leaves the model as it
    was. A tensor object of the user stays the same object: its data is on another device. Single numbers of
    an optimizer (its count of steps) stay in the CPU's memory, as PyTorch keeps them.
    """

    def __init__(self, step: TracedStep, devices: list[torch.device]) -> None:
        self._devices = [self._wanted(step, number, device) for number, device in enumerate(devices)]
        self._moved: list[tuple[torch.Tensor, torch.device]] = []
        made: list[tuple[torch.Tensor, torch.Tensor]] = []
        for entry, device in zip(step.inputs, self._devices):
            if entry.kind == "input" or device is None:
                continue
            tensor = step.slots[entry.op].own()
            if tensor is None or tensor.device == device:
                continue
            try:
                made.append((tensor, tensor.detach().to(device)))
            except RuntimeError as error:
                raise EmplaceError(
                    f"{entry.kind} '{entry.name}'",
                    f"cannot be moved to {device}: {error}",
                    "place less on that device",
                ) from error
        for tensor, data in made:
            self._moved.append((tensor, tensor.device))
            tensor.data = data

    def placed(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """The step's arguments, each on its device: what is not there already (the batch) is copied there."""
        return [
            argument
            if device is None or argument.device == device
            else argument.to(device, non_blocking=True)
            for argument, device in zip(arguments, self._devices)
        ]

    def restore(self) -> None:
        """Moves the tensors back to where they were, with the values that they have now."""
        made = [(tensor, tensor.detach().to(device)) for tensor, device in self._moved]
        for tensor, data in made:
            tensor.data = data
        self._moved = []

    @staticmethod
    def _wanted(step: TracedStep, number: int, device: torch.device) -> torch.device | None:
        entry = step.inputs[number]
        if entry.kind == "optimizer" and "/" in entry.name and entry.name.rsplit("/", 1)[1] in ("step", "lr"):
            return None
        return device
