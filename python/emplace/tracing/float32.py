"""Whether a GPU would compute float32 products and convolutions in TF32, by the switches of PyTorch."""

from __future__ import annotations

from typing import Any

import torch


def float32_use() -> dict[str, str]:
    """The switches as they are now: ``{"products": "ieee" | "tf32", "convolutions": "ieee" | "tf32"}``.

    Newer PyTorch has ``fp32_precision`` and refuses its older switches once the newer ones were set, so
    these are read first; they state what the older ones set, too.
    """
    backends: Any = torch.backends
    conv = getattr(backends.cudnn, "conv", None)
    return {
        "products": _word(backends.cuda.matmul),
        "convolutions": _word(conv if conv is not None else backends.cudnn),
    }


def _word(switch: Any) -> str:
    try:
        precision = switch.fp32_precision
    except (AttributeError, AssertionError):  # Torch before 2.9; its switch of products asserts its names.
        precision = None
    return "tf32" if (switch.allow_tf32 if precision is None else precision == "tf32") else "ieee"
