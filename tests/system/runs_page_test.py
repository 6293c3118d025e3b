"""Goal: the page that compares runs shows each of them, sorts and filters, and draws the curves that are ticked,
by keyboard, in light and dark; a run may have any name. Method: the built program makes the runs and the page,
headless Chromium uses it. Skipped where there is no Chromium.

usage: runs_page_test.py EMPLACE SOURCE_DIR
"""

import os
import shutil
import sys
import tempfile
import unittest

from browser import PROGRAM as BROWSER
from browser import Browser
from report_page_test import SOURCE, emplace

HOSTILE = "<img src=x onerror=alert(1)>\"'\u202etxt"
HEADS = "[...document.querySelectorAll('thead button')]"


class RunsPage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        runs = os.path.join(self.folder.name, "runs")
        graphs = os.path.join(SOURCE, "tests", "fixtures", "graphs")
        for name, groups in (("first", 4), ("second", 8)):
            emplace(
                *("run", os.path.join(SOURCE, "configs", "quickstart.toml"), "--episodes", "25"),
                *("--run-dir", os.path.join(runs, name), "--set", "policy.hierarchical.hidden=8"),
                *("--set", f"input.graph={graphs}/cifar10_cnn-bs128.json"),
                *("--set", f"policy.groups={groups}"),
                *("--set", 'run.starts=["scratch"]', "--set", 'compare.methods=["heft", "scotch"]'),
            )
        shutil.copytree(os.path.join(runs, "second"), os.path.join(runs, HOSTILE))
        self.page = os.path.join(self.folder.name, "runs.html")
        emplace("runs", runs, "-o", self.page)

    def test_shows_compares_and_draws_runs(self):
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme), Browser(scheme) as page:
                page.open("file://" + self.page)
                page.wait("document.documentElement.dataset.ready === 'true'")
                self.assertEqual(page.evaluate("document.documentElement.dataset.scheme"), scheme)
                self.assertEqual(page.evaluate("document.querySelectorAll('tbody .swatch').length"), 3)
                self.assertEqual(page.evaluate("document.querySelectorAll('main canvas').length > 0"), True)
                text = page.text()
                self.assertRegex(text, r"Entropy\n.*\t1\.10( [01]\.\d\d){9}\n")
                self.assertIn("<img src=x onerror=alert(1)>\"'", text)
                self.assertEqual(page.evaluate("document.querySelectorAll('img').length"), 0)
                # A click on a head sorts, a second one reverses the order; the focus stays.
                page.evaluate(HEADS + "[0].focus()")
                page.key("Enter")
                page.wait("document.querySelector('th[aria-sort=ascending]')?.textContent === 'Run'")
                names = "[...document.querySelectorAll('.runs tbody th')].map(cell => cell.textContent)"
                up = page.evaluate(names)
                page.key("Enter")
                page.wait("document.querySelector('th[aria-sort=descending]')?.textContent === 'Run'")
                self.assertEqual(page.evaluate(names), up[::-1])
                # Each ticked run has a curve.
                page.evaluate("document.querySelector('tbody input').focus()")
                page.key(" ")
                page.wait("document.querySelectorAll('tbody .swatch').length === 2")
                self.assertTrue(page.evaluate("document.activeElement.matches('tbody input')"))
                for mode in ("heuristic", "bound", "time"):
                    page.evaluate(
                        f"(() => {{ const one = document.querySelector('select'); one.value = '{mode}';"
                        "one.dispatchEvent(new Event('change')); })()"
                    )
                    self.assertEqual(page.evaluate("document.querySelectorAll('main .legend li').length"), 2)
                page.evaluate("document.querySelector('input[type=search]').focus()")
                for letter in "first":
                    page.key(letter)
                page.wait("document.querySelectorAll('.runs tbody tr').length === 1")
                self.assertEqual(page.messages, [])
                self.assertIsNone(page.evaluate("document.documentElement.dataset.error ?? null"))
                self.assertEqual([url for url in page.traffic if url != "file://" + self.page], [])


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no chromium here (scripts/packages.txt has it)", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
