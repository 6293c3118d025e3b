#!/usr/bin/env python3
"""Judges the estimator of the package aiconfigurator-core on the kernels that the fits hold out.

usage: bench/costs/peer.py --wheel FOLDER --out FILE

Needs aiconfigurator-core 0.12.0 beside numpy, scipy, pandas and pyarrow. The estimator interpolates between
rows of its tables, so it gets copies of them without the rows that are held out, and is asked for these. FILE
is for the option --judged of measure.py.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts")]

import aiconfigurator_core  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from aiconfigurator_core.sdk import common  # noqa: E402
from aiconfigurator_core.sdk.operations.attention import ContextAttention, GenerationAttention  # noqa: E402
from aiconfigurator_core.sdk.operations.gemm import GEMM  # noqa: E402
from aiconfigurator_core.sdk.perf_database import PerfDatabase  # noqa: E402
from costs import attention, products  # noqa: E402
from costs.grid import error_of  # noqa: E402
from costs.rows import is_held  # noqa: E402
from costs.sources import SYSTEMS, Wheel, download_wheel  # noqa: E402

PEER = "aiconfigurator 0.12.0"


class Package:
    """Tables of one system and framework, without the rows that are held out."""

    def __init__(self, wheel: Wheel, system: str, folder: Path) -> None:
        self._wheel, self._system, self._folder = wheel, system, folder
        for path in (Path(aiconfigurator_core.__file__).parent / "systems").glob("*.yaml"):
            shutil.copy(path, folder)

    def database(self, path: str, kept: pd.DataFrame) -> PerfDatabase:
        """The estimator on the table of this path, of which these rows are left."""
        copy = self._folder / "data" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        kept.to_parquet(copy)
        _, _, framework, version, _ = path.split("/")
        return PerfDatabase(self._system, framework, version, str(self._folder), shared_layer=False)


def _judged(kernel: str, arithmetic: str, system: str, predicted: list[float], us: Any) -> dict[str, Any]:
    error = error_of(np.array(predicted), np.asarray(us))
    return {
        "peer": PEER,
        "device": SYSTEMS[system],
        "kernel": kernel,
        "arithmetic": arithmetic,
        "median": error.median,
        "mean": error.mean,
        "p90": error.p90,
        "rows": error.rows,
    }


def judge_products(wheel: Wheel, system: str, dtype: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Its products of one dtype, if the system has them."""
    for framework in ("vllm", "trtllm", "sglang"):
        for path in reversed(wheel.paths(system, "gemm", framework)):
            table = wheel.table(path)
            mine = table.gemm_dtype == dtype
            if not mine.any():
                continue
            held = is_held(f"{dtype},{m},{n},{k}" for m, n, k in zip(table.m, table.n, table.k, strict=True))
            database = Package(wheel, system, folder).database(path, table[~held])
            mode = common.GEMMQuantMode[dtype]
            asked = table[mine & held]
            predicted = [
                1e3 * float(GEMM("x", 1.0, int(n), int(k), mode)._engine_query(database, x=int(m)))
                for m, n, k in zip(asked.m, asked.n, asked.k, strict=True)
            ]
            yield _judged("product", products.DTYPES[dtype][0], system, predicted, 1e3 * asked.latency)
            return


def _keyed(table: pd.DataFrame, cache: str) -> pd.DataFrame:
    """The table with all columns of a shape."""
    defaults = {"attn_dtype": "bfloat16", "kv_cache_dtype": cache, "window_size": 0, "step": 0}
    return table.assign(**{key: value for key, value in defaults.items() if key not in table})


def _ask_attention(database: PerfDatabase, kernel: str, dtype: str, row: Any) -> float:
    """Its time of one shape [us]."""
    cache, size = common.KVCacheQuantMode[dtype], int(row.head_dim)
    heads = int(row.num_heads), int(row.num_key_value_heads)
    if kernel == "prefill":
        prefill = ContextAttention("x", 1.0, *heads, cache, common.FMHAQuantMode[dtype], 0, size)
        return 1e3 * float(prefill._engine_query(database, batch_size=int(row.batch_size), s=int(row.isl)))
    decode = GenerationAttention("x", 1.0, *heads, cache, 0, size)
    keys = int(row.isl) + int(row.step)
    return 1e3 * float(decode._engine_query(database, batch_size=int(row.batch_size), s=keys))


def _added_us(database: PerfDatabase, kernel: str, dtype: str, kept: pd.DataFrame) -> float:
    """What it adds to rows of its own table [us]: launches around the kernel, which the rows do not have."""
    asked = kept.iloc[:: max(1, len(kept) // 100)]
    more = [_ask_attention(database, kernel, dtype, row) for row in asked.itertuples()] - 1e3 * asked.latency
    return float(np.median(more))


def judge_attention(
    wheel: Wheel, system: str, kernel: str, arithmetic: str, folder: Path
) -> Iterator[dict[str, Any]]:
    """Its attention of whole prompts or of one new token, if the system has it."""
    dtype = attention.DTYPES[arithmetic]
    queries = dtype if kernel == "prefill" else "bfloat16"
    name = "context_attention" if kernel == "prefill" else "generation_attention"
    for framework in ("vllm", "trtllm"):
        for path in reversed(wheel.paths(system, "attention", framework)):
            if not path.endswith(f"/{name}_perf.parquet"):
                continue
            table = wheel.table(path)
            keyed = _keyed(table, dtype)
            same = (keyed.attn_dtype == queries) & (keyed.kv_cache_dtype == dtype) & (keyed.window_size == 0)
            if not same.any():
                continue
            shapes = keyed[attention.SHAPE].itertuples(index=False)
            held = is_held(",".join([queries, *map(str, shape)]) for shape in shapes)
            database = Package(wheel, system, folder).database(path, table[~held])
            asked = keyed[same & held].groupby(attention.SHAPE, as_index=False).latency.median()
            added = _added_us(database, kernel, dtype, keyed[same & ~held])
            predicted = [_ask_attention(database, kernel, dtype, row) - added for row in asked.itertuples()]
            yield _judged(kernel, arithmetic, system, predicted, 1e3 * asked.latency)
            return


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, default=ROOT / "build/costs")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    wheel = Wheel(download_wheel(options.wheel))
    found: list[dict[str, Any]] = []
    for system in SYSTEMS:
        for dtype in products.DTYPES:
            with tempfile.TemporaryDirectory() as folder:
                found += judge_products(wheel, system, dtype, Path(folder))
        for kernel, arithmetic in attention.FITTED:
            if kernel != "encoder":
                with tempfile.TemporaryDirectory() as folder:
                    found += judge_attention(wheel, system, kernel, arithmetic, Path(folder))
        print(f"{system}: {len(found)} rows", file=sys.stderr, flush=True)
    options.out.write_text(json.dumps({"peers": found}, indent=1))


if __name__ == "__main__":
    main()
