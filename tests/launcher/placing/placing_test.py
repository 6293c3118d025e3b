#!/usr/bin/env python3
"""Goal: the commands that place, and a user's program, need nothing above the seam: no policy, runtime, messages, record or actors.
Method: reads what CMake links, runs the eight commands of a program without extensions on a small graph beside the program emplace,
and the example of the solver."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv.pop(1))
ABOVE = ("policy/", "runtime/", "messages/", "record/", "actors/")
GRAPH = str(ROOT / "tests/fixtures/graphs/cifar10_cnn-bs4.json.gz")
MACHINE = ["--devices", "h100 x 2, epyc9654"]


def run(program, *arguments):
    return subprocess.run([str(BUILD / program), *arguments], capture_output=True, text=True, timeout=120)


class PlacingProgram(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.placement = str(pathlib.Path(cls.folder.name) / "placement.json")
        cls.placed = run("placing", "place", GRAPH, *MACHINE, "--method", "anneal", "-o", cls.placement, "--json")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_links_nothing_above_the_seam(self):
        for target in ("solver", "placing"):
            sources = (BUILD / f"{target}_sources.txt").read_text().split()
            self.assertIn("solver/solve.cc", sources)
            self.assertEqual([source for source in sources if source.startswith(ABOVE)], [])

    def test_finds_the_placement_that_emplace_finds(self):
        self.assertEqual(self.placed.returncode, 0, self.placed.stderr)
        same = run("emplace", "place", GRAPH, *MACHINE, "--method", "anneal", "--json")
        ours, theirs = json.loads(self.placed.stdout), json.loads(same.stdout)
        for answer in (ours, theirs):
            del answer["wall_s"], answer["placement"]
        self.assertEqual(ours, theirs)

    def test_prints_what_emplace_prints(self):
        for command in (["evaluate", GRAPH, self.placement, *MACHINE], ["explain", self.placement, "--graph", GRAPH, *MACHINE],
                        ["bound", GRAPH, *MACHINE], ["inspect", GRAPH, *MACHINE], ["import", GRAPH, "-o", self.placement + ".epg"],
                        ["export", self.placement, "--graph", GRAPH, "--to", "csv", "-o", self.placement + ".csv"]):
            with self.subTest(command[0]):
                ours, theirs = run("placing", *command), run("emplace", *command)
                self.assertEqual((ours.returncode, ours.stdout), (0, theirs.stdout), ours.stderr)

    def test_compares_methods(self):
        done = run("placing", "compare", GRAPH, *MACHINE, "--methods", "single-gpu,scotch,heft", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["method"] for row in json.loads(done.stdout)["methods"]], ["single-gpu", "scotch", "heft"])

    def test_refuses_what_it_lacks_by_name(self):
        for arguments, what in [(["place", GRAPH, *MACHINE, "--method", "pretrained"], "method pretrained"),
                                (["place", GRAPH, *MACHINE, "--policy", "runs/one"], "--policy"),
                                (["evaluate", GRAPH, self.placement, *MACHINE, "--executor", "cpu"], "--executor cpu"),
                                (["export", self.folder.name, "--to", "csv", "-o", self.placement + ".csv"], "export of the run")]:
            with self.subTest(what):
                done = run("placing", *arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(f"error: {what}", done.stderr)
                self.assertIn("is not in this program", done.stderr)
        unknown = run("placing", "place", GRAPH, *MACHINE, "--method", "placeto")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("method 'placeto': is unknown", unknown.stderr)

    def test_the_example_of_the_solver_places(self):
        done = run("solver_example", GRAPH, MACHINE[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\d+ ops on 3 devices: \S+ .?s by \S+\n$")
        self.assertEqual(run("solver_example", "absent.json").returncode, 2)
        self.assertLessEqual(len((ROOT / "solver/example.cc").read_text().splitlines()), 40)


if __name__ == "__main__":
    unittest.main()
