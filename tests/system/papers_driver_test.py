"""Goal: bench/papers.py runs what is missing and nothing twice, drops results of other settings, does not run what
costs too much, and writes the page of the committed results.
Method: the driver as a process on a small plan; the committed page against its results.

usage: papers_driver_test.py SOURCE_DIR EMPLACE
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE, PROGRAM = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(SOURCE / "bench"))
import papers  # noqa: E402
import papers_page  # noqa: E402
PLAN = """
[graphs]
cnn = "cifar10-cnn --training"
[[row]]
name = "small/cnn/2gpu"
table = "hierarchical-1"
model = "CNN"
config = "small.toml"
tuned = 40
tuned_policy = { groups = 5 }
paper = { single-gpu = 2.0, expert = 1.0, method = 0.01, hours = "1" }
[[row]]
name = "simple-planner/cnn/2gpu"
table = "simple-planner"
model = "CNN"
config = "small.toml"
set = { "policy.method" = "simple-planner" }
seeds = [1, 2]
paper = { claim = "nothing valid" }
"""
CONFIG = """
[run]
budget = "0s"
episodes = 10
[input]
graph = "cnn.json.gz"
devices = "../devices/two.toml"
[policy]
method = "hierarchical"
groups = 8
[policy.hierarchical]
hidden = 8
"""
FAMILY = """
[graphs]
few = "cifar10 --count 4"
[[family]]
name = "few"
table = "placeto-families"
config = "few.toml"
methods = ["placeto", "rnn"]
seeds = [1]
rnn_episodes = 4
optimised_episodes = { placeto = 4, rnn = 4 }
"""
FEW = """
[run]
budget = "0s"
episodes = 8
[input]
graphs = ["train-*"]
devices = "../devices/k80.toml"
[executor]
kind = "placeto"
[pipeline]
controllers = 1
max_outstanding = 4
batch_episodes = 4
[policy]
method = "placeto"
preset = "paper"
groups = 8
initial = "fixed-random"
"""


class PapersDriver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        (self.at / "papers").mkdir()
        (self.at / "devices").mkdir()
        (self.at / "devices/two.toml").write_text((SOURCE / "configs/devices/placeto-2gpu.toml").read_text())
        (self.at / "papers/experiments.toml").write_text(PLAN)
        (self.at / "papers/headline.toml").write_text('seeds = [1, 2]\ntables = ["hierarchical-1"]\n')
        (self.at / "papers/small.toml").write_text(CONFIG)

    def tearDown(self):
        self.folder.cleanup()

    def drive(self, command, *more, status=0):
        done = subprocess.run(
            [sys.executable, str(SOURCE / "bench/papers.py"), command, "--program", PROGRAM, "--configs", str(self.at),
             "--results", str(self.at / "rows.jsonl"), "--page", str(self.at / "page.md"), "--graphs",
             str(self.at / "graphs"), "--no-pictures", *more], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def rows(self):
        with open(self.at / "rows.jsonl") as f:
            return [json.loads(line) for line in f]

    def names(self):
        return sorted("%s/%d" % (row["run"], row["seed"]) for row in self.rows())

    def test_runs_what_is_missing_once(self):
        self.drive("run", "--stage", "A")
        self.assertEqual(self.names(), ["baselines/cnn/two/1", "simple-planner/cnn/2gpu/paper/1",
                                        "simple-planner/cnn/2gpu/paper/2", "small/cnn/2gpu/paper/1"])
        for row in self.rows()[1:]:
            self.assertEqual((row["updates"], row["placements"]), (10, 40))
            self.assertEqual(row["best_s"], row["bests"][-1][2])
            self.assertGreater(row["core_s"], 0)
            self.assertEqual(len(row["entropy"]), 10)
            self.assertTrue(all(0 < entropy <= 1.0987 for entropy in row["entropy"]), "at most ln 3")
            self.assertEqual(row["zero_gradients"], 0)
        self.assertEqual(self.drive("run", "--stage", "A").stderr, "")
        self.drive("run")
        self.assertIn("small/cnn/2gpu/tuned/2", self.names())
        self.assertEqual(len(self.rows()), 4 + 3)

    def test_a_changed_config_is_run_again(self):
        only = ("--only", "^small/.*paper/1$")
        self.drive("run", *only)
        (self.at / "papers/small.toml").write_text(CONFIG + "\n# Not a setting\n")
        self.assertEqual(self.drive("run", *only).stderr, "")
        (self.at / "papers/small.toml").write_text(CONFIG.replace("episodes = 10", "episodes = 12"))
        self.assertIn("its setup is not today's", self.drive("page").stderr)
        self.drive("run", *only)
        self.assertEqual([row["updates"] for row in self.rows()], [10, 12])

    def test_results_without_entropy_are_run_again_on_request(self):
        only = ("--only", "^small/.*paper/1$")
        self.drive("run", *only)
        row = self.rows()[-1]
        del row["entropy"]
        (self.at / "rows.jsonl").write_text(json.dumps(row) + "\n")
        self.drive("run", *only)
        self.assertEqual(self.rows(), [row])
        self.drive("run", *only, "--entropy")
        self.assertEqual(["entropy" in row for row in self.rows()], [False, True])
        self.drive("run", *only, "--entropy")
        self.assertEqual(len(self.rows()), 2)

    def test_too_costly_runs_are_estimated_and_tried_again_later(self):
        self.drive("run", "--only", "simple-planner.*/1", "--most", "0.000001")
        self.assertGreater(self.rows()[-1]["estimated_core_s"], 0)
        self.drive("page")
        self.assertIn("not run: 0.0 h", (self.at / "page.md").read_text())
        self.assertEqual(self.drive("run", "--only", "simple-planner.*/1", "--most", "0.000001").stderr, "")
        self.drive("run", "--only", "simple-planner.*/1")
        self.assertEqual(self.rows()[-1]["updates"], 10)

    def test_the_page_gives_a_reason_from_its_numbers(self):
        self.drive("run")
        self.drive("page")
        page = " ".join((self.at / "page.md").read_text().split())
        self.assertIn("With the paper's settings: 0 of 1 rows met", page)
        self.assertIn("Hierarchical Planner, CNN on 2 GPUs. Paper's settings: no placement can: the bound of", page)
        self.assertIn("The aim, two thirds of each paper's rows, is missed for **Hierarchical", page)
        self.assertIn("| Hierarchical Planner (stable) is faster than the Simple Planner |", page)

    def test_the_other_seeds_of_a_row_have_their_own_limit(self):
        self.drive("run", "--only", "^small/.*paper/1$")
        self.drive("run", "--stage", "B", "--only", "^small/.*/paper/", "--most", "0.000001")
        first, other = self.rows()
        self.assertEqual((first["seed"], other["seed"]), (1, 2))
        self.assertAlmostEqual(other["estimated_core_s"], first["core_s"], delta=0.001, msg="one other seed")
        self.drive("page")
        self.assertIn("; 1 of 2 not run: 0.0 h", (self.at / "page.md").read_text())

    def test_a_family_has_the_last_and_the_best_placement_of_the_likeliest_pass(self):
        (self.at / "devices/k80.toml").write_text((SOURCE / "configs/devices/placeto-2gpu-k80.toml").read_text())
        (self.at / "papers/placeto").mkdir()
        (self.at / "papers/placeto/rnn.toml").write_text((SOURCE / "configs/papers/placeto/rnn.toml").read_text())
        (self.at / "papers/experiments.toml").write_text("row = []\n" + FAMILY)
        (self.at / "papers/few.toml").write_text(FEW)
        self.drive("run", "--stage", "A", "--only", "^few/(placeto|rnn|single-gpu)/1$")
        rows = {row["run"]: row for row in self.rows()}
        alone, placeto, rnn = (rows["few/" + name] for name in ("single-gpu", "placeto", "rnn"))
        tests = len(list((self.at / "graphs/few").glob("test-*")))
        self.assertGreater(tests, 0)
        for policy in ("zero_shot", "untrained"):
            last, best = placeto[policy + "_s"], placeto[policy + "_best_s"]
            self.assertEqual((len(last), len(best)), (tests, tests))
            for a, b, start in zip(last, best, placeto["start_s"]):
                self.assertLessEqual(b, min(a, start))
            self.assertEqual(rnn[policy + "_s"], rnn[policy + "_best_s"], "it has no pass")
        self.assertNotEqual(placeto["start_s"], placeto["untrained_s"])
        for a, b in zip(placeto["untrained_s"], alone["best_s"]):
            self.assertAlmostEqual(a / b, 1, delta=1e-9, msg="all choices equal: the first GPU, by the same simulator")

    def test_an_unknown_graph_is_reported_in_one_line(self):
        (self.at / "papers/small.toml").write_text(CONFIG.replace("cnn.json.gz", "other.json.gz"))
        self.assertEqual(self.drive("run", status=2).stderr,
                         "error: experiments.toml: small/cnn/2gpu needs the graph 'other'; add it to [graphs]\n")


class Progress(unittest.TestCase):
    def test_entropy_by_tenths_and_the_longest_row_of_zero_gradients(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.db")
            with sqlite3.connect(path) as db:
                db.execute('CREATE TABLE updates("update" INTEGER, entropy REAL, gradient_norm REAL)')
                db.execute("CREATE TABLE measurements(episode, number, valid, step_time_s)")
                db.execute("CREATE TABLE episodes(episode, seq, wall_ns)")
                norms = [1, 0, 0, 1, 0, 0, 0, 1, 1, 0] * 2 + [1] * 5
                db.executemany("INSERT INTO updates VALUES (?, ?, ?)",
                               [(24 - at, at, norms[at]) for at in range(24, -1, -1)][::-1])
            found = papers.progress(path)
            self.assertEqual(found["updates"], 25)
            # The rows are in the order of their numbers, last first: 24 and 23, then 22 to 20, and so on.
            self.assertEqual(found["entropy"][:2], [23.5, 21])
            self.assertEqual(found["entropy"][-1], 1)
            self.assertEqual(found["zero_gradients"], 3)
            with sqlite3.connect(path) as db:
                db.execute('DELETE FROM updates WHERE "update" > 3')
            self.assertEqual(papers.progress(path)["entropy"].count(None), 6)


class PapersPage(unittest.TestCase):
    def test_the_hierarchical_planner_has_three_settings_with_their_entropy(self):
        place = "cnn/2gpu/paper"
        run = lambda best, entropy: [{"best_s": best, "entropy": entropy}]
        seeds = {"hierarchical/" + place: run(1.5, [0.5] + [0] * 9), "simple-planner/" + place: [{"best_s": 4.0}],
                 "hierarchical-stable/" + place: run(1.0, [1.09] * 5 + [0.7] * 5) + run(1.25, [1.0] * 10)}
        results = unittest.mock.Mock(
            seeds=lambda name: seeds.get(name, []), not_run=lambda name: None, wanted={},
            plan=unittest.mock.Mock(rows=[{"name": "hierarchical/cnn/2gpu", "table": "hierarchical-1", "model": "CNN",
                                           "paper": {"method": 0.84}}]))
        line = papers_page.hierarchical_table(results).splitlines()[-1]
        self.assertEqual([cell.strip() for cell in line.strip("|").split("|")], [
            "CNN", "2", "0.84", "1.5 (1)", "0.50, then 0.00", "–", "–", "1.12 (1 to 1.25; 2)",
            "1.00 to 1.09, then 0.70 to 1.00", "–", "4 (1)"])

    BASELINES = {"methods": {"single-cpu": 9.0, "single-gpu": 2.0}}

    def endings(self, *results):
        headline = papers_page.Headline.__new__(papers_page.Headline)
        headline.baselines, headline.of = self.BASELINES, {"paper": list(results)}
        return headline.endings("paper")

    def test_reports_how_every_seed_ends_and_how_many_placements_fit(self):
        result = lambda last, valid=100: {"means": [1.0, last], "valid": valid, "placements": 100}
        self.assertEqual(self.endings(result(None, 3), result(9.0), result(1.5), result(1.7), result(None, 40)),
                         "2 of 5 seeds end with placements that do not fit, 1 with 1 CPU for all ops, 2 with "
                         "placements of 1.5 to 1.7 s on average; 3 to 100 of 100 placements fitted")
        self.assertEqual(self.endings(result(2.004)), "the run ends with 1 GPU for all ops")

    def test_placements_count_after_the_first_update(self):
        result = lambda best, at, updates=10: {"best_s": best, "bests": [[at, 0, best]], "placements": 100,
                                               "updates": updates}
        self.assertEqual(papers_page.placements_to(result(1.0, 15), 1.0), 5)
        self.assertEqual(papers_page.placements_to(result(1.0, 7), 1.0), 0, "drawn before any learning")
        self.assertEqual(papers_page.sooner(result(1.0, 25), result(1.0, 40, 5)), 1)
        self.assertEqual(papers_page.sooner(result(1.1, 15), result(1.0, 40)), -1, "never reached")

    def test_a_sign_test_is_one_sided(self):
        self.assertAlmostEqual(papers_page.sign_test(9, 1), 11 / 1024)
        self.assertEqual(papers_page.sign_test(0, 8), 1)


class CommittedPage(unittest.TestCase):
    def test_matches_its_results(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "papers.md")
            subprocess.run([sys.executable, str(SOURCE / "bench/papers.py"), "page", "--page", page, "--no-pictures"],
                           check=True, capture_output=True)
            with open(page) as f:
                self.assertEqual(f.read(), (SOURCE / "docs/results/papers.md").read_text(),
                                 "run bench/papers.py page")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
