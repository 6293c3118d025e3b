#!/usr/bin/env python3
"""Goal: scripts/check_size.py reports folders, files and functions that are too large, with file and line, and counts what the placing
commands reach. Method: small made-up trees in a temporary folder; skipped without Universal Ctags."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from made_up_tree import ROOT, CheckerTest

GLOSSARY = "| retired | write | permitted |\n|---|---|---|\n| zzword | again | |\n"
SOUND = {
    "base/clock.h": "#pragma once\nint now();\n",
    "base/clock.cc": '#include "base/clock.h"\nint now() {\n  return 1;\n}\n',
    "launcher/placing/place.cc": '#include "base/clock.h"\nint place() { return now(); }\n',
    "policy/placer.h": "#pragma once\n",
}


def function(lines):
    """A function with this number of lines."""
    return "int long_one() {\n" + (lines - 2) * "  ;\n" + "}\n"


@unittest.skipUnless(shutil.which("ctags"), "no Universal Ctags here")
class CheckSize(CheckerTest):
    SCRIPT = "check_size.py"
    SOUND = SOUND

    def count(self, changes):
        """The quantities that --count prints."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**SOUND, "docs/reference/glossary.md": GLOSSARY, **changes}.items():
                (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / name).write_text(text)
            done = subprocess.run([sys.executable, str(ROOT / "scripts" / self.SCRIPT), "--count", folder], capture_output=True, text=True)
        return {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}

    def test_a_small_tree_passes(self):
        self.assertEqual(self.check({}), (0, ""))

    def test_functions_have_at_most_seventy_lines(self):
        self.assertEqual(self.check({"base/long.cc": function(70)}), (0, ""))
        self.refuses({"base/long.cc": "\n" + function(71)}, "base/long.cc:2: long_one has 71 lines, at most 70")
        self.refuses({"base/long.cu": function(71)}, "base/long.cu:1: long_one has 71 lines")

    def test_tests_and_third_parties_may_be_long(self):
        self.assertEqual(self.check({"tests/long.cc": function(99), "graph/third_party/long.cc": function(99)}), (0, ""))

    def test_files_have_at_most_six_hundred_lines(self):
        self.assertEqual(self.check({"base/long.h": 600 * "\n"}), (0, ""))
        self.refuses({"base/long.h": 601 * "\n"}, "base/long.h: 601 lines, at most 600")

    def test_folders_have_at_most_thirty_two_sources(self):
        sources = {f"graph/a{number}.h": "\n" for number in range(32)}
        self.assertEqual(self.check(sources), (0, ""))
        self.refuses({**sources, "graph/b.h": "\n"}, "graph: 33 sources, at most 32")
        self.assertEqual(self.check({**sources, "graph/tape/b.h": "\n"}), (0, ""))

    def test_counts_the_lines_that_placing_reaches(self):
        self.assertEqual(self.count({})["reached"], "8")
        self.assertEqual(self.count({"base/clock.h": '#include "policy/placer.h"\nint now();\n'})["reached"], "9")
        self.assertEqual(self.count({})["place.cc"], "2")

    def test_counts_types_of_answers(self):
        counted = self.count({"solver/answer.h": "struct Answer {};\nstruct Context;\n", "solver/search/robust.h": "struct RobustFound {};\n"})
        self.assertEqual(counted["types"], "2 (Answer RobustFound)")

    def test_counts_functions_and_words(self):
        counted = self.count({"base/long.cc": function(80) + "// Made zzword.\n"})
        self.assertEqual(counted["functions"], "1 (longest: base/long.cc:1 long_one, 80 lines)")
        self.assertEqual(counted["words"], "1")


if __name__ == "__main__":
    unittest.main()
