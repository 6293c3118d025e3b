"""The switches for TF32 that a trace records, in PyTorch's older and newer words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import emplace as em

BACKENDS: Any = torch.backends
#: Newer PyTorch has switches per operation; it refuses the older ones once these were set.
NEWER = hasattr(BACKENDS.cudnn, "conv")
DEFAULT = {"products": "ieee", "convolutions": "tf32"}


def recorded() -> Any:
    """What a trace records, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return em.trace(nn.Linear(4, 2), torch.zeros(3, 4)).document["meta"]["float32"]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Sets the switches back."""
    if NEWER:
        switches = (BACKENDS, BACKENDS.cuda.matmul, BACKENDS.cudnn, BACKENDS.cudnn.conv)
        before = [switch.fp32_precision for switch in switches]
        yield
        for switch, value in zip(switches, before):
            switch.fp32_precision = value
    else:
        products, convolutions = BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32
        yield
        BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32 = products, convolutions


def test_defaults_differ_between_products_and_convolutions() -> None:
    assert recorded() == DEFAULT


@pytest.mark.parametrize("precision, products", [("highest", "ieee"), ("high", "tf32"), ("medium", "tf32")])
def test_matmul_precision_decides_products(precision: str, products: str) -> None:
    torch.set_float32_matmul_precision(precision)
    assert recorded() == {**DEFAULT, "products": products}
    torch.set_float32_matmul_precision("highest")
    assert recorded() == DEFAULT


def test_older_switches() -> None:
    BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32 = True, False
    assert recorded() == {"products": "tf32", "convolutions": "ieee"}
    BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32 = False, True
    assert recorded() == DEFAULT


@pytest.mark.skipif(not NEWER, reason="this PyTorch has only the older switches")
def test_newer_switches_of_all_backends_and_of_one() -> None:
    BACKENDS.cudnn.conv.fp32_precision = "none"
    BACKENDS.fp32_precision = "tf32"
    assert recorded() == {"products": "tf32", "convolutions": "tf32"}
    BACKENDS.fp32_precision = "ieee"
    assert recorded() == {"products": "ieee", "convolutions": "ieee"}
    BACKENDS.cuda.matmul.fp32_precision = "tf32"
    assert recorded() == {"products": "tf32", "convolutions": "ieee"}
