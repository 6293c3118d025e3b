"""Goal: bench/held_out.py measures every row once, continues where it stopped, and only ever lowers a reference.
Method: the driver as a process on three of its rows with tiny budgets, with references and files changed in between.

usage: held_out_test.py SOURCE_DIR EMPLACE
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]
ROWS = ("002-recommender", "008-recommender", "030-dense")


class HeldOut(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.rows, self.out = self.root / "rows.jsonl", self.root / "out.jsonl"
        with open(f"{SOURCE}/configs/pretrained/held_out.jsonl") as file:
            self.shipped = [json.loads(line) for line in file]
        self.write([{k: v for k, v in row.items() if k != "reference"} for row in self.shipped if row["row"] in ROWS])

    def tearDown(self):
        self.folder.cleanup()

    def write(self, rows):
        self.rows.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def read(self, path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    def drive(self, *words, status=0):
        done = subprocess.run(
            [sys.executable, f"{SOURCE}/bench/held_out.py", *words, "--rows", self.rows, "--out", self.out, "--worlds",
             self.root / "worlds", "--program", PROGRAM, "--page", self.root / "page.md"], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_the_shipped_list(self):
        self.assertEqual(len(self.shipped), 30)
        self.assertEqual(len({row["row"] for row in self.shipped}), 30)
        for row in self.shipped:
            self.assertGreater(row["reference"]["step_time_s"], 0, row["row"])
            self.assertTrue(row["reference"]["found_by"] and row["reference"]["budget"], row["row"])
        self.assertEqual({row["memory"] for row in self.shipped}, {"loose", "uneven", "tight"})
        self.assertEqual({row["training"] for row in self.shipped}, {True, False})

    def test_every_row_is_measured_once(self):
        self.drive("measure", "--what", "heuristics,auto", "--budget", "50ms,100ms")
        results = self.read(self.out)
        self.assertEqual(len(results), 9)
        for result in results:
            reference = next(r for r in self.read(self.rows) if r["row"] == result["row"])["reference"]["step_time_s"]
            times = [m["step_time_s"] for m in result["methods"].values()] if "methods" in result else [result["step_time_s"]]
            self.assertGreaterEqual(min(times) * (1 + 1e-9), reference)
        self.assertEqual(self.drive("measure", "--what", "heuristics,auto", "--budget", "50ms,100ms"), "")
        lines = self.out.read_text().splitlines(keepends=True)
        self.out.write_text("".join(lines[:-1]) + lines[-1][:20])
        self.drive("measure", "--what", "heuristics,auto", "--budget", "50ms,100ms")
        self.assertEqual(len(self.read(self.out)), 9)
        self.drive("page")
        page = (self.root / "page.md").read_text()
        for text in ("| **auto** 50ms | ", "of 3 |", "| best of all these | ", "## Over time", "| 030-dense | "):
            self.assertIn(text, page)

    def test_references_only_decrease(self):
        self.drive("references", "--budget", "50ms")
        made = self.read(self.rows)
        self.assertEqual({row["reference"]["budget"] for row in made}, {"50ms"})
        self.assertEqual(self.drive("references", "--budget", "50ms"), "", "they had this time")
        for row, factor in zip(made, (1e-3, 1e3, 1)):
            row["reference"]["step_time_s"] *= factor
        self.write(made)
        self.drive("measure", "--what", "heuristics")
        after = self.read(self.rows)
        self.assertEqual(after[0]["reference"], made[0]["reference"])
        self.assertLess(after[1]["reference"]["step_time_s"], made[1]["reference"]["step_time_s"] / 100)
        self.assertEqual(after[1]["reference"]["budget"], "50ms", "of the search that made it")
        self.assertLessEqual(after[2]["reference"]["step_time_s"], made[2]["reference"]["step_time_s"])

    def test_a_row_that_the_generator_no_longer_makes_is_refused(self):
        rows = self.read(self.rows)
        rows[0]["devices_sha256"] = "0" * 64
        self.write(rows)
        self.assertIn("the generator has changed", self.drive("measure", "--what", "heuristics", status=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
