#!/usr/bin/env python3
"""Goal: scripts/costs recovers from measurements of products what made them, holds rows out on all devices at
once, and writes the same bytes for tables in any order.
Method: made-up rows of a known law on devices of the catalogue; skipped without numpy, scipy and pandas."""

import sys
import unittest
import zlib
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
try:
    import numpy as np
    from costs import writing
    from costs.devices import DEVICES
    from costs.fit import device_table, family_table, fit, predict
    from costs.grid import base_us, from_bytes, hat, to_bytes
    from costs.rows import Rows, is_held
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

KNOTS = [[16, 256, 4096], [64, 1024, 16384], [64, 16384]]
LAUNCH_US = 3.0
UNEVEN = 0.24


def made_up(device: str, arithmetic: str, rows: int = 3000) -> Rows:
    """Products that take the time of the data sheet, 1.5 times at m = 256, and more with uneven sizes."""
    choice = np.random.default_rng(7)
    at = 2.0 ** choice.uniform([4, 6, 6], [12, 14, 14], size=(rows, 3))
    step = np.where(choice.random(rows) < 0.5, 16, 1)[:, None]
    at = np.maximum(np.round(at / step), 1) * step
    m, n, k = at.T
    held = is_held(f"{one:.0f},{two:.0f},{three:.0f}" for one, two, three in at)
    found = Rows(
        device, "product", arithmetic, at, 2 * m * n * k, 4 * (m * k + k * n + m * n), m, held, "made up"
    )
    hill = np.clip(1 - np.abs(np.log2(m) - 8) / 4, 0, 1)
    law = np.exp(np.log(1.5) * hill + UNEVEN * found.uneven)
    return replace(found, us=base_us(DEVICES[device], found, LAUNCH_US) * law)


class Fits(unittest.TestCase):
    def test_recovers_the_law_of_a_device(self):
        rows = made_up("h100", "fp32")
        table = device_table(rows, KNOTS, uneven=True, launch_us=LAUNCH_US)
        self.assertAlmostEqual(table.uneven, UNEVEN, delta=0.02)
        self.assertEqual(table.error.rows, int(rows.held.sum()))
        self.assertLess(table.error.p90, 0.02)
        values = from_bytes(table.values).reshape(3, 3, 2)
        np.testing.assert_allclose(values[1], np.log(1.5), atol=0.03)
        np.testing.assert_allclose(values[[0, 2]], 0, atol=0.03)

    def test_judges_a_device_by_rows_that_it_has_not_seen(self):
        rows = made_up("h100", "fp32")
        wrong = replace(rows, us=np.where(rows.held, 2 * rows.us, rows.us))
        error = device_table(wrong, KNOTS, uneven=True, launch_us=LAUNCH_US).error
        self.assertAlmostEqual(error.median, 0.5, delta=0.02)

    def test_judges_a_family_by_devices_that_it_has_not_seen(self):
        rows = [made_up(device, "fp32") for device in ("h100", "a100_80", "t4")]
        same = family_table("made-up", rows, KNOTS, uneven=True, launch_us=LAUNCH_US)
        self.assertLess(same.error.p90, 0.02)
        rows[2] = replace(rows[2], us=3 * rows[2].us)
        other = family_table("made-up", rows, KNOTS, uneven=True, launch_us=LAUNCH_US)
        self.assertAlmostEqual(other.parts["t4"].median, 2 / 3, delta=0.02)

    def test_outliers_move_nothing(self):
        rows = made_up("a100_80", "bf16")
        spoilt = replace(rows, us=np.where(np.arange(len(rows)) % 11 == 0, 9 * rows.us, rows.us))
        clean, robust = (fit([one], KNOTS, LAUNCH_US, uneven=True) for one in (rows, spoilt))
        np.testing.assert_allclose(predict(rows, KNOTS, robust), predict(rows, KNOTS, clean), rtol=0.03)


class Form(unittest.TestCase):
    def test_holds_a_tenth_out_by_the_key_alone(self):
        keys = [f"bfloat16,{m},4096,{k}" for m in range(1, 200) for k in range(64, 6400, 64)]
        held = is_held(keys)
        self.assertAlmostEqual(held.mean(), 0.1, delta=0.01)
        self.assertEqual(held.tolist(), [zlib.crc32(key.encode()) % 10 == 0 for key in keys])

    def test_weights_add_up_and_stop_at_the_last_knot(self):
        at = np.array([[1.0, 64, 1e6], [256, 1024, 64], [90, 300, 5000]])
        weights = hat(at, KNOTS).toarray()
        np.testing.assert_allclose(weights.sum(axis=1), 1)
        self.assertEqual(weights[0].argmax(), 1)  # First m and n, last k.
        self.assertEqual(weights[1].argmax(), 8)

    def test_values_keep_their_steps(self):
        values = np.array([-2.56, -0.02, 0, 0.5, 2.54])
        np.testing.assert_allclose(from_bytes(to_bytes(values)), values, atol=1e-12)

    def test_uses_the_units_that_a_device_has(self):
        a100 = DEVICES["a100_80"]
        self.assertEqual(a100.peak("fp8"), a100.peaks["bf16"])
        self.assertEqual(DEVICES["v100_pcie_32"].peak("bf16"), DEVICES["v100_pcie_32"].peaks["fp32"])

    def test_writes_the_same_text_for_tables_in_any_order(self):
        tables = [
            device_table(made_up(device, "fp32", 400), KNOTS, uneven=True, launch_us=LAUNCH_US)
            for device in ("t4", "h100")
        ]
        text = writing.fitted_text({"product": KNOTS}, tables, {"data_sheet": tables[0].error})
        self.assertEqual(
            text, writing.fitted_text({"product": KNOTS}, tables[::-1], {"data_sheet": tables[0].error})
        )
        self.assertLess(text.index('of = "h100"'), text.index('of = "t4"'))


if __name__ == "__main__":
    unittest.main()
