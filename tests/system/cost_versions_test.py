"""Goal: bench/cost_versions.py measures every method with both versions of costs once; its page has ratios.
Method: the driver as a process on a generated graph and one machine, with few evaluations.

usage: cost_versions_test.py SOURCE_DIR EMPLACE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]
ONLY = ["--what", "fixed,auto:0.1,scheduler:20", "--evaluations", "50", "--only", "graph-attention/H100/"]


class CostVersions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.out, self.page = self.root / "out.jsonl", self.root / "page.md"

    def tearDown(self):
        self.folder.cleanup()

    def drive(self, *words, status=0):
        files = ["--out", self.out, "--page", self.page, "--program", PROGRAM]
        command = [sys.executable, f"{SOURCE}/bench/cost_versions.py", *words, *files]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def measure(self, *words, **more):
        return self.drive("measure", "--graphs", self.root, "--worlds", self.root / "worlds", *words, **more)

    def rows(self):
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def test_each_version_is_measured_once_and_compared_with_the_other(self):
        self.measure(*ONLY)
        self.assertEqual(len(self.rows()), 6)
        self.assertEqual(self.measure(*ONLY), "", "nothing is measured twice")
        times = {(row["what"], row["version"]): row["step_time_s"] for row in self.rows()}
        old, new = ({**times["fixed", v], **times["auto:0.1", v], **times["scheduler:20", v]} for v in (1, 2))
        self.assertNotEqual(old["single-gpu"], new["single-gpu"], "the versions have costs of their own")
        self.drive("page")
        page = self.page.read_text()
        for method in ("pretrained", "auto:0.1", "scheduler:20"):
            first, second = old[method] / min(old.values()), new[method] / min(new.values())
            self.assertIn(f"| {method} | 1 | {first:.3f} | {second:.3f} |", page)
            self.assertIn(f"| {second / first:.3f} ± ", page)

    def test_a_method_that_is_further_above_the_best_is_named(self):
        for version, seconds in ((1, 1.02), (2, 1.06)):
            times = {"single-gpu": 2, "auto:1": 1, "pretrained": seconds}
            row = {"graph": "g", "machine": "m", "version": version, "what": "fixed", "label": ""}
            with self.out.open("a") as file:
                file.write(json.dumps({**row, "step_time_s": times}) + "\n")
        self.drive("page")
        line = next(line for line in self.page.read_text().splitlines() if line.startswith("| pretrained |"))
        self.assertIn("| 1.039 ± nan | yes |", line)

    def test_one_version_alone_is_no_comparison(self):
        self.measure("--what", "fixed", "--evaluations", "50", "--only", "graph-attention/H100/1/")
        self.assertIn("has no case with both versions", self.drive("page", status=2))

    def test_unknown_words(self):
        refused = self.measure("--what", "luck", "--only", "graph-attention/H100/1/", status=1)
        self.assertIn("--what: 'luck' is not known; use fixed", refused)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
