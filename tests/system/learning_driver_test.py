"""Goal: bench/learning.py continues where it stopped, loses no finished row, and keeps failures apart from results.
Method: the driver as a process on a small graph, twice, with its file damaged in between.

usage: learning_driver_test.py SOURCE_DIR EMPLACE
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]


class LearningDriver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.folder.name, "rows.jsonl")

    def tearDown(self):
        self.folder.cleanup()

    def drive(self, *more, status=0):
        command = [sys.executable, os.path.join(SOURCE, "bench", "learning.py"), "--program", PROGRAM, "--out", self.out,
                   "--graphs", os.path.join(SOURCE, "tests", "fixtures", "graphs"), "--names", "cifar10_cnn-bs128",
                   "--seeds", "1,2", "--budget", "1s", *more]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def rows(self):
        with open(self.out) as f:
            return [json.loads(line) for line in f]

    def test_continues_where_it_stopped(self):
        order = ("--methods", "single-gpu,random", "--learned", "hierarchical:tuned", "--only", "2gpu-(full|0.6x)")
        first = self.drive(*order)
        rows = self.rows()
        self.assertEqual(len(rows), 2 * (1 + 2 + 2))
        for row in rows:
            self.assertGreater(row["bound_s"], 0)
            if row["step_time_s"] is None:
                self.assertIn("needs", row["note"])
                self.assertEqual((row["method"], row["machine"]), ("single-gpu", "2gpu-0.6x"))
            else:
                self.assertGreaterEqual(row["step_time_s"], row["bound_s"] * 0.999)
        again = self.drive(*order)
        self.assertEqual(again.stderr, "", "nothing is run twice")
        self.assertEqual(self.rows(), rows)
        self.assertEqual(again.stdout, first.stdout)
        self.assertIn("| cifar10_cnn-bs128 | 2gpu-0.6x |", first.stdout)
        # A crash in the middle of a line costs that row and no other.
        with open(self.out, "rb+") as f:
            f.truncate(os.path.getsize(self.out) - 20)
        repaired = self.drive(*order)
        self.assertEqual(len(self.rows()), len(rows))
        self.assertIn("incomplete", repaired.stderr)
        self.assertEqual(self.drive("--table").stdout, repaired.stdout)

    def test_a_row_may_have_a_budget_of_evaluations(self):
        self.drive("--methods", "anneal", "--learned", "hierarchical:tuned,spotlight:tuned", "--only",
                   "2gpu-full/.*/1", "--budget", "0s", "--evaluations", "602")
        rows = self.rows()
        self.assertEqual([row["method"] for row in rows], ["anneal", "hierarchical:tuned", "spotlight:tuned"])
        self.assertEqual([row["budget"] for row in rows], ["602 evaluations"] * 3)
        self.assertEqual([row["evaluations"] for row in rows[1:]], [604, 605], "whole episodes of 4 and 5 placements")
        self.assertLess(abs(rows[0]["evaluations"] - 602), 60)

    def test_a_learned_row_may_start_where_annealing_does(self):
        self.drive("--methods", "heft,metis", "--learned", "colocrl:tuned:best-heuristic,colocrl:tuned", "--only",
                   "2gpu-full/.*/1", "--budget", "0s", "--evaluations", "40")
        rows = {row["method"]: row for row in self.rows()}
        simple = min(rows["heft"]["step_time_s"], rows["metis"]["step_time_s"])
        self.assertLessEqual(rows["colocrl:tuned:best-heuristic"]["step_time_s"], simple)
        self.assertEqual([rows[method]["start"] for method in ("colocrl:tuned:best-heuristic", "colocrl:tuned")],
                         ["best-heuristic", "scratch"])

    def test_failures_are_not_recorded_as_rows(self):
        done = self.drive("--methods", "single-gpu,nonsense", "--learned", "", "--only", "2gpu-full", status=1)
        self.assertIn("method 'nonsense': is unknown", done.stderr)
        self.assertEqual([row["method"] for row in self.rows()], ["single-gpu"])
        missing = self.drive("--names", "no-such-graph", "--learned", "", "--only", "2gpu-full", status=1)
        self.assertIn("has no graph 'no-such-graph'", missing.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
