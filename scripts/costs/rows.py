"""Measured kernels as the fit sees them: one `Rows` for each device, kind of kernel and arithmetic."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Kernels measured on one device. All arrays have one entry a row; `at` has one row of coordinates."""

    device: str  # Name in the catalogue.
    kernel: str  # Word of KernelKind: "product", "convolution", ...
    arithmetic: str  # "bf16", "fp32", ...
    at: Numbers  # [rows, axes]
    flops: Numbers  # Work of the kernel.
    bytes: Numbers  # Its memory traffic.
    us: Numbers  # Measured.
    held: Flags  # Held out: never fitted before judging.
    source: str  # "aiconfigurator-core 0.12.0, h100_sxm/gemm/vllm/0.24.0"

    def __len__(self) -> int:
        return len(self.us)

    @property
    def uneven(self) -> Flags:
        """Whether m, n or k of a product, the last three coordinates, is no multiple of 16."""
        return np.asarray(np.any(self.at[:, -3:] % 16 != 0, axis=1))

    def thinned(self, rows: int) -> Self:
        """About that many of the rows, evenly spread over the order of the source."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[:: max(1, round(len(self) / rows))] = True
        return self.where(chosen)

    def where(self, chosen: Flags) -> Self:
        """The chosen rows."""
        return replace(
            self,
            at=self.at[chosen],
            flops=self.flops[chosen],
            bytes=self.bytes[chosen],
            us=self.us[chosen],
            held=self.held[chosen],
        )


def is_held(keys: Iterable[str]) -> Flags:
    """Whether a row is held out, by its key, which names no device: a shape is held out on all of them."""
    return np.array([zlib.crc32(key.encode()) % 10 == 0 for key in keys], dtype=bool)
