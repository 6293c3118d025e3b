"""Writes flops.json: totals of FlopCounterMode of the newest torch, which torch 1.13 is compared with.

torch 1.13 has no fused attention on CPUs; its totals are those of the newest torch's unfused one.
"""

from __future__ import annotations

import json
from pathlib import Path

import replay
import torch
import zoo


def total(case: zoo.Case) -> int:
    """The operations of forward and backward in plain PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        replay.plain_step(
            case.model(), case.batch(), case.loss, torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)
        )
    return int(counter.get_total_flops())


if __name__ == "__main__":
    from torch.nn.attention import SDPBackend, sdpa_kernel

    totals: dict[str, dict[str, int]] = {}
    for name, case in zoo.CASES.items():
        totals[name] = {"newest": total(case)}
        if name not in zoo.TEXT:
            with sdpa_kernel(SDPBackend.MATH):
                totals[name]["1.13"] = total(case)
    Path(__file__).with_name("flops.json").write_text(json.dumps(totals, indent=1) + "\n")
