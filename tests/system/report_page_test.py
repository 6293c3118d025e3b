"""Goal: a report opens in a browser as it should: every chart drawn, nothing on the console, within 2 s, in light and in dark, with
84,000 ops as well. Method: the built program makes the runs, headless Chromium opens the pages and prints what became of them; its
own clock tells how long a page took. Skipped where there is no Chromium.

usage: report_page_test.py EMPLACE SOURCE_DIR      EMPLACE_REPORT_SHOTS=DIR keeps pictures of the pages
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv[1:3]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MOST_BYTES = 5_000_000
MOST_MS = 2_000


def emplace(*arguments):
    done = subprocess.run([PROGRAM, *arguments, "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def browse(page, scheme, *more):
    """What Chromium prints: the document, and its own words."""
    with tempfile.TemporaryDirectory() as profile:
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                   "--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1280,4200", "--hide-scrollbars",
                   f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", *more]
        if scheme == "dark":
            command.append("--force-dark-mode")
        done = subprocess.run([*command, "file://" + page], capture_output=True, text=True, timeout=100)
        return done.stdout, done.stderr


def unrolled_graph(path, ops):
    """A network of twelve layers, unrolled over time: as many ops as the largest step that was traced."""
    layers = 12
    made = [{"id": i, "name": f"decoder/layer_{i}/kernel", "type": "Parameter", "inputs": [], "outputs": [{"dtype": "f32", "shape": [1024, 4096]}],
             "attrs": {}, "flops": 0, "param_bytes": 4 * 1024 * 4096, "group": f"decoder/layer_{i}"} for i in range(layers)]
    for i in range(layers, ops):
        layer, step, part = i // 10 % layers, i // 10 // layers, ("attention", "dense", "norm")[i % 3]
        scope = f"decoder/t{step:03d}/layer_{layer}/{part}"
        inputs = [[i - 1 - i % min(3, i), 0], [i - 1 - i * 7 % min(40, i), 0]] + ([[layer, 0]] if i % 5 == 0 else [])
        made.append({"id": i, "name": f"model/{scope}/op_{i}", "type": "aten::addmm" if i % 5 == 0 else "aten::mul", "inputs": inputs,
                     "outputs": [{"dtype": "f32", "shape": [64, 1024]}], "attrs": {}, "flops": 2 * 64 * 1024 * (1024 if i % 5 == 0 else 1),
                     "param_bytes": 0, "group": scope, "phase": "forward" if i < ops // 3 else "backward"})
    with gzip.open(path, "wt", compresslevel=1) as file:
        json.dump({"format": "emplace-graph v1", "name": f"unrolled-{ops}", "source": "report_page_test.py", "meta": {}, "ops": made}, file)


class ReportPage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def run_on(self, graph, *more):
        directory = os.path.join(self.folder.name, "run")
        emplace("run", os.path.join(SOURCE, "configs", "quickstart.toml"), "--run-dir", directory, "--set", "input.graph=" + graph, *more)
        return os.path.join(directory, "report.html")

    def look(self, page, charts):
        self.assertLess(os.path.getsize(page), MOST_BYTES)
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme):
                document, words = browse(page, scheme, "--dump-dom")
                self.assertEqual([line for line in words.splitlines() if "CONSOLE" in line], [], "nothing on the console")
                root = re.search(r"<html[^>]*>", document).group(0)
                self.assertNotIn("data-error", root)
                self.assertIn('data-ready="true"', root)
                self.assertIn(f'data-scheme="{scheme}"', root)
                drawn = re.findall(r'<div class="chart" data-chart="(\w+)"[^>]*data-drawn="true"', document)
                self.assertEqual(drawn, charts)
                self.assertGreaterEqual(document.count("<canvas"), len(charts))
                self.assertGreaterEqual(document.count("<caption"), 8, "a table for every chart")
                took = int(re.search(r'data-load-ms="(\d+)"', root).group(1))
                print(f"{os.path.getsize(page) / 1e6:.2f} MB, {scheme}: drawn after {took} ms", file=sys.stderr)
                self.assertLess(took, MOST_MS)
                if os.environ.get("EMPLACE_REPORT_SHOTS"):
                    shot = os.path.join(os.environ["EMPLACE_REPORT_SHOTS"], f"{self.id().split('.')[-1]}-{scheme}.png")
                    browse(page, scheme, f"--screenshot={shot}")

    def test_a_small_run(self):
        graph = os.path.join(SOURCE, "tests", "fixtures", "graphs", "cifar10_cnn-bs128.json")
        page = self.run_on(graph, "--episodes", "30", "--set", "policy.groups=8", "--set", "policy.hidden=8")
        self.look(page, ["curve", "gantt", "memory", "graph"])

    def test_84000_ops(self):
        graph = os.path.join(self.folder.name, "graph.json.gz")
        unrolled_graph(graph, 84_000)
        page = self.run_on(graph, "--episodes", "2", "--set", 'run.starts=["scratch"]', "--set", 'compare.baselines=["single-gpu", "round-robin"]',
                           "--set", "input.devices=" + os.path.join(SOURCE, "configs", "devices", "h200-2gpu.toml"))
        self.look(page, ["curve", "gantt", "memory", "graph"])


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no chromium here (scripts/packages.txt has it)", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
