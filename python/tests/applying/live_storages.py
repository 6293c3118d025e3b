"""Counts the storages that exist on each logical device while a step runs, and the most that there were.

Logical devices share one memory, so PyTorch's allocator has one sum for all. Here a storage belongs to the
device whose thread made it, as the memory of a GPU does: the thread of a device makes the outputs of its ops
and the copies to it. A dispatch mode shows each tensor that an operator returns. What a kernel allocates for
itself is not seen, and neither does the simulator count it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from emplace.tracing import compat

_Untyped: Any = torch.UntypedStorage


class LiveStorages:
    """The bytes of the storages that exist, by device. Each counts once, however many tensors show it.

    Weak references are those to storages themselves, not to tensors: a storage exists as long as any tensor,
    view or saved variable keeps it. Only a new storage can make a peak, so that references are asked then.
    """

    def __init__(self, devices: int) -> None:
        self.peak = [0] * devices
        #: By device: weak reference -> bytes. A reference keeps its address from being another's.
        self._live: list[dict[int, int]] = [{} for _ in range(devices)]
        self._lock = threading.Lock()

    def claim(self, device: int, tensors: Iterable[Any]) -> None:
        """Counts the storages of tensors, where no device has them yet, on a device."""
        with self._lock:
            for tensor in tensors:
                for storage in _storages(tensor):
                    if not any(storage._cdata in live for live in self._live):
                        self._live[device][storage._weak_ref()] = storage.nbytes()
            self.peak[device] = max(self.peak[device], self._now(device))

    def now(self, device: int) -> int:
        """Bytes of the storages that exist on a device."""
        with self._lock:
            return self._now(device)

    def _now(self, device: int) -> int:
        live = self._live[device]
        for reference in [each for each in live if _Untyped._expired(each)]:
            del live[reference]
            _Untyped._free_weak_ref(reference)
        return sum(live.values())

    def mode(self, device: int) -> TorchDispatchMode:
        """A mode for the thread of a device: what an operator returns there, that device has."""
        return _Counting(lambda result: self.claim(device, result))

    def __del__(self) -> None:
        for live in self._live:
            for reference in live:
                _Untyped._free_weak_ref(reference)


class _Counting(TorchDispatchMode):
    def __init__(self, claim: Callable[[list[Any]], None]) -> None:
        super().__init__()
        self._claim = claim

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._claim(list(_flat(result)))
        return result


def _flat(result: Any) -> Iterable[Any]:
    if isinstance(result, (list, tuple)):
        for each in result:
            yield from _flat(each)
    else:
        yield result


def _storages(tensor: Any) -> Iterable[Any]:
    if not isinstance(tensor, torch.Tensor):
        return
    if tensor.layout == torch.sparse_coo:
        yield from (*_storages(tensor._indices()), *_storages(tensor._values()))
    elif compat.OLD:
        yield tensor.storage().untyped()
    else:
        yield tensor.untyped_storage()
