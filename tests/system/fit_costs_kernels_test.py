#!/usr/bin/env python3
"""Goal: scripts/costs recovers from measurements what made them: the host's share of timed kernels,
the law of a collective; and it holds rows out by keys that no dtype of a cache and no device
changes. Method: made-up measurements with a known law; skipped without numpy, scipy and pandas."""

import sys
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
try:
    import numpy as np
    import pandas as pd
    from costs import attention, collectives, pointwise
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

GBS = 700.0  # Of the made-up device.


def timed(op: str, rows: int, width: int, floor: float, share: float) -> float:
    """What a clock around one call shows: the host, then the kernel; at least the whole call."""
    (tensors,) = [counts[op] for counts in pointwise.TENSORS.values() if op in counts]
    return max(floor, share * floor + 4 * tensors * rows * width / GBS / 1e3)


def timed_table(floors: dict[str, float], share: float) -> pd.DataFrame:
    """Rows of read_fp32 for one device."""
    sizes = [(2**power, width) for power in range(1, 17) for width in (64, 640, 5120)]
    found = [
        (op, "v100_pcie_32", f"B={rows};H={width}", timed(op, rows, width, floor, share))
        for op, floor in floors.items()
        for rows, width in sizes
    ]
    return pd.DataFrame(found, columns=["op", "device", "dimensions", "us"])


FLOORS = {"add": 30.0, "mulu": 38.0, "tanh": 33.0, "softmax": 41.0, "ln": 58.0}  # Host time of a call [us].


class Clock(unittest.TestCase):
    def test_separates_the_host_from_the_kernel(self):
        clock = pointwise.clock_of(timed_table(FLOORS, share=0.55))
        self.assertAlmostEqual(clock.share, 0.55, delta=0.005)
        for op, floor in FLOORS.items():
            self.assertAlmostEqual(clock.floor[op], floor, delta=0.1)

    def test_leaves_the_kernel_alone(self):
        table = timed_table(FLOORS, share=0.55)
        for kernel in pointwise.AXES:
            rows = pointwise.rows_of(table, "v100_pcie_32", kernel, pointwise.clock_of(table))
            kernels = rows.bytes / GBS / 1e3 + pointwise.LAUNCH_US
            self.assertGreater(len(rows), 10)
            np.testing.assert_allclose(rows.us, kernels, rtol=0.03)

    def test_drops_rows_of_the_host(self):
        table = timed_table({"add": 30.0}, share=0.55)
        rows = pointwise.rows_of(table, "v100_pcie_32", "elementwise", pointwise.clock_of(table))
        self.assertEqual(len(rows), int((table.us > 30 * pointwise.ABOVE_FLOOR).sum()))


class Collectives(unittest.TestCase):
    @staticmethod
    def rows(op: str) -> collectives.Collectives:
        """A link of 200 GB/s whose latency grows with the number of GPUs."""
        sizes = [2**power for power in range(10, 30)]
        gpus, size = (
            np.array(one, dtype=np.float64) for one in zip(*[(n, s) for n in (2, 4, 8) for s in sizes])
        )
        factor = (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus
        held = np.array([zlib.crc32(f"{op},{n:.0f},{s:.0f}".encode()) % 10 == 0 for n, s in zip(gpus, size)])
        return collectives.Collectives(size, gpus, 5 + gpus / 2 + factor * size / 200e3, held, "made up")

    def test_foretells_rows_that_it_has_not_seen(self):
        for op in collectives.AXES:
            rows = self.rows(op)
            table = collectives.collective_table(collectives.Link("nvlink3", (), 228), op, rows)
            self.assertEqual(table.error.rows, int(rows.held.sum()))
            self.assertGreater(table.error.rows, 2)
            self.assertLess(table.error.p90, 0.1)
            predicted = collectives.predict(op, rows, table.launch_us, table.gbs, table.values)
            np.testing.assert_allclose(predicted, rows.us, rtol=0.1)

    def test_writes_the_same_text_for_tables_in_any_order(self):
        tables = [
            collectives.collective_table(collectives.Link(link, (), 228), "alltoall", self.rows("alltoall"))
            for link in ("nvlink4", "nvlink3")
        ]
        text = collectives.collectives_text(tables)
        self.assertEqual(text, collectives.collectives_text(tables[::-1]))
        self.assertLess(text.index('of = "nvlink3"'), text.index('of = "nvlink4"'))


class MadeUpWheel:
    """A package with one table of decoding, in two dtypes of the cache."""

    def paths(self, system: str, kind: str, framework: str) -> list[str]:
        return (
            [f"{system}/{kind}/{framework}/1.0/generation_attention_perf.parquet"]
            if framework == "vllm"
            else []
        )

    def table(self, path: str) -> pd.DataFrame:
        shapes = [
            (b, keys, h, kv)
            for b in (1, 8, 64)
            for keys in (127, 2047)
            for h, kv in ((32, 8), (32, 1), (16, 16))
        ]
        frame = pd.DataFrame(shapes, columns=["batch_size", "step", "num_heads", "num_key_value_heads"])
        frame = frame.assign(isl=1, head_dim=128, window_size=0, attn_dtype="bfloat16", latency=0.02)
        windowed = frame.assign(window_size=128, latency=0.01)
        whole = [frame.assign(kv_cache_dtype=dtype) for dtype in ("bfloat16", "fp8")]
        return pd.concat([*whole, windowed.assign(kv_cache_dtype="bfloat16")])


class Attention(unittest.TestCase):
    def test_holds_a_shape_out_for_all_caches(self):
        wide, narrow = (attention.decode_rows(MadeUpWheel(), "h100_sxm", dtype) for dtype in ("bf16", "fp8"))
        self.assertEqual(len(wide), 18)  # Without those of a sliding window.
        np.testing.assert_array_equal(wide.at, narrow.at)
        np.testing.assert_array_equal(wide.held, narrow.held)
        key = "bfloat16,8,1,2047,32,8,128,0"
        expected = zlib.crc32(key.encode()) % 10 == 0
        (chosen,) = np.flatnonzero((wide.at == [64, 64 * 2048 * 128, 4]).all(axis=1))
        self.assertEqual(bool(wide.held[chosen]), expected)

    def test_counts_the_cache_once_a_key_head(self):
        rows = attention.decode_rows(MadeUpWheel(), "h100_sxm", "fp8")
        (chosen,) = np.flatnonzero((rows.at == [64, 64 * 2048 * 128, 4]).all(axis=1))
        self.assertEqual(rows.bytes[chosen], 2 * 64 * 2048 * 128 + 2 * 2 * 8 * 32 * 128)
        self.assertEqual(rows.flops[chosen], 4 * 8 * 32 * 2048 * 128)


if __name__ == "__main__":
    unittest.main()
