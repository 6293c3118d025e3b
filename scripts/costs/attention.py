"""Attention: whole prompts (causal), encoders (not causal), and one new token a sequence against a
cache of keys.

Truth is the newest vLLM table of the package, TensorRT-LLM's where vLLM has none of the arithmetic.
Rows with a sliding window are left out. The measured calls of `prefill` and `decode` write the new
keys and values into the cache as well.

A shape is held out by the key "dtype,batch,queries,keys in the cache before,heads,key heads,head
size,window", where dtype is that of the queries: rows whose caches differ in their dtype are held
out together.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from costs.families import nvidia_families
from costs.fit import Fits, Table, device_table
from costs.grid import Knots
from costs.rows import Numbers, Rows, is_held
from costs.sources import SYSTEMS, Wheel, source_of

# Batch x heads; queries, as many as keys; head size.
PREFILL: Knots = [
    [1, 4, 16, 64, 256, 1024, 4096, 24576],
    [1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 16384],
    [64, 128, 192, 256, 512],
]
ENCODER: Knots = [
    [1, 4, 16, 64, 256, 1024, 4096],
    [16, 64, 128, 256, 512, 1024, 2048, 4096, 16384],
    [64, 72, 80],
]
# Batch x key heads; elements of all keys (batch x key heads x keys x head size): what L2 may hold; heads that
# share a key head.
DECODE: Knots = [
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16384],
    [2.0**power for power in (10, 14, 17, 20, 22, 23, 24, 25, 26, 27, 28)],
    [1, 2, 4, 8, 16, 32, 96],
]

DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
SHAPE = ["batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size"]


def _newest(
    wheel: Wheel, system: str, kind: str, name: str, queries: str, cache: str
) -> tuple[pd.DataFrame, str]:
    """Rows of one system with these dtypes, one a shape, and their source; none if no framework has them."""
    for framework in ("vllm", "trtllm"):
        for path in reversed(wheel.paths(system, kind, framework)):
            if not path.endswith(f"/{name}_perf.parquet"):
                continue
            table = wheel.table(path)
            defaults = {"attn_dtype": "bfloat16", "kv_cache_dtype": cache, "window_size": 0, "step": 0}
            table = table.assign(**{key: value for key, value in defaults.items() if key not in table})
            if "num_key_value_heads" not in table:
                table = table.assign(num_key_value_heads=table.num_heads)
            same = (table.attn_dtype == queries) & (table.kv_cache_dtype == cache) & (table.window_size == 0)
            if same.any():
                return table[same].groupby(SHAPE, as_index=False).latency.median(), source_of(path)
    return pd.DataFrame(), ""


def _held(table: pd.DataFrame, queries: str) -> np.ndarray:
    return is_held(",".join([queries, *map(str, shape)]) for shape in table[SHAPE].itertuples(index=False))


def _shape(table: pd.DataFrame) -> Sequence[Numbers]:
    """Batch, heads, key heads, head size."""
    names = ("batch_size", "num_heads", "num_key_value_heads", "head_dim")
    return [table[name].to_numpy(np.float64) for name in names]


def whole_rows(wheel: Wheel, system: str, kernel: str, arithmetic: str) -> Rows | None:
    """Attention of all tokens of a sequence to one another: "prefill" is causal, "encoder" is not."""
    dtype = DTYPES[arithmetic]
    kind, name = {
        "prefill": ("attention", "context_attention"),
        "encoder": ("encoder_attention", "encoder_attention"),
    }[kernel]
    table, source = _newest(wheel, system, kind, name, dtype, dtype)
    if table.empty:
        return None
    batch, heads, key_heads, size = _shape(table)
    tokens = table.isl.to_numpy(np.float64)
    pairs = tokens * (tokens + 1) / 2 if kernel == "prefill" else tokens**2
    element = 2.0 if arithmetic == "bf16" else 1.0
    return Rows(
        device=SYSTEMS[system],
        kernel=kernel,
        arithmetic=arithmetic,
        at=np.stack([batch * heads, tokens, size], axis=1),
        flops=4 * batch * heads * size * pairs,
        bytes=element * 2 * batch * tokens * size * (heads + key_heads),
        us=table.latency.to_numpy(np.float64) * 1e3,
        held=_held(table, dtype),
        source=source,
    )


def decode_rows(wheel: Wheel, system: str, arithmetic: str) -> Rows | None:
    """One query a sequence in bf16 against keys and values in a cache; `arithmetic` is that of the cache."""
    table, source = _newest(
        wheel, system, "attention", "generation_attention", "bfloat16", DTYPES[arithmetic]
    )
    if table.empty:
        return None
    batch, heads, key_heads, size = _shape(table)
    keys = table.isl.to_numpy(np.float64) + table.step.to_numpy(np.float64)
    element = 2.0 if arithmetic == "bf16" else 1.0
    elements = batch * key_heads * keys * size
    return Rows(
        device=SYSTEMS[system],
        kernel="decode",
        arithmetic=arithmetic,
        at=np.stack([batch * key_heads, elements, heads / key_heads], axis=1),
        flops=4 * batch * heads * keys * size,
        bytes=element * 2 * elements + 2 * 2 * batch * heads * size,
        us=table.latency.to_numpy(np.float64) * 1e3,
        held=_held(table, "bfloat16"),
        source=source,
    )


AXES: dict[str, Knots] = {"prefill": PREFILL, "encoder": ENCODER, "decode": DECODE}
FITTED = (
    ("prefill", "bf16"),
    ("prefill", "fp8"),
    ("encoder", "bf16"),
    ("decode", "bf16"),
    ("decode", "fp8"),
)


def all_rows(wheel: Wheel, kernel: str, arithmetic: str) -> list[Rows]:
    """The rows of every system that has them."""
    if kernel == "decode":
        found = [decode_rows(wheel, system, arithmetic) for system in SYSTEMS]
    else:
        found = [whole_rows(wheel, system, kernel, arithmetic) for system in SYSTEMS]
    return [rows for rows in found if rows is not None]


def tables(wheel: Wheel, fp32: pd.DataFrame) -> Fits:
    """All tables of this module."""
    found: list[Table] = []
    used: list[Rows] = []
    for kernel, arithmetic in FITTED:
        rows = all_rows(wheel, kernel, arithmetic)
        found.extend(device_table(one, AXES[kernel]) for one in rows)
        found.extend(nvidia_families(rows, AXES[kernel]))
        used.extend(rows)
    return Fits(AXES, found, used)
