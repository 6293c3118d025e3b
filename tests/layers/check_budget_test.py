#!/usr/bin/env python3
"""Goal: no floor grows unnoticed, and a commit that raises a budget names what the growth replaces. Method: small made-up trees in a
temporary folder, and made-up histories of one."""

import pathlib
import subprocess
import tempfile
import unittest

from made_up_tree import ROOT, CheckerTest

SOUND = {
    "scripts/budget.txt": "# floor lines\nbase 100\npython 200\n",
    "base/clock.h": 100 * "\n",
    "python/emplace/graph.py": 200 * "\n",
    "tests/base/clock_test.cc": 999 * "\n",
}


class CheckBudget(CheckerTest):
    SCRIPT = "check_budget.py"
    SOUND = SOUND

    def test_three_percent_are_free_both_ways(self):
        for lines in (97, 100, 103):
            self.assertEqual(self.check({"base/clock.h": lines * "\n"}), (0, ""))

    def test_more_is_refused(self):
        self.refuses({"base/clock.cc": 4 * "\n"}, "base: 104 lines, 4.0% above its budget of 100", "what the growth replaces")
        self.refuses({"python/emplace/tables.py": 7 * "\n"}, "python: 207 lines")

    def test_a_budget_follows_a_floor_that_shrinks(self):
        self.refuses({"base/clock.h": 96 * "\n"}, "base: 96 lines, 4.0% below its budget of 100; lower its line")

    def test_every_floor_has_a_line_and_every_line_a_floor(self):
        self.refuses({"graph/op.cc": "\n"}, "graph has no line; add 'graph 1'")
        self.refuses({"scripts/budget.txt": SOUND["scripts/budget.txt"] + "graph 5\n"}, "there is no floor graph")

    def test_third_parties_do_not_count(self):
        self.assertEqual(self.check({"base/third_party/big.h": 999 * "\n"}), (0, ""))


class Raises(unittest.TestCase):
    """One commit with 100 lines of base, then one with 200 and a message."""

    def check(self, message, lines=200):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            git = ["git", "-C", name, "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
            for text, count in (("first", 100), (message, lines)):
                for file, content in (("scripts/budget.txt", f"base {count}\n"), ("base/clock.h", count * "\n")):
                    (folder / file).parent.mkdir(exist_ok=True)
                    (folder / file).write_text(content)
                if text == "first":
                    subprocess.run([*git, "init", "-q"], check=True)
                subprocess.run([*git, "add", "-A"], check=True)
                subprocess.run([*git, "commit", "-q", "-m", text], check=True)
            done = subprocess.run([ROOT / "scripts" / "check_budget.py", name], capture_output=True, text=True)
            return done.returncode, done.stderr

    def test_a_raise_names_what_it_replaces(self):
        self.assertEqual(self.check("Add a wall clock\n\nIt replaces the sundial of launcher."), (0, ""))
        status, errors = self.check("Add a wall clock\n\nWe like clocks.")
        self.assertEqual(status, 1)
        self.assertIn("raises the budget of base without the word 'replaces'", errors)

    def test_a_lower_budget_needs_no_reason(self):
        self.assertEqual(self.check("Remove the sundial", 50), (0, ""))


if __name__ == "__main__":
    unittest.main()
