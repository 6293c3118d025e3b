"""Goal: bench/papers.py runs what is missing and nothing twice, drops results of other settings, does not run what
costs too much, and writes the page of the committed results.
Method: the driver as a process on a small plan; the committed page against its results.

usage: papers_driver_test.py SOURCE_DIR EMPLACE
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE, PROGRAM = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(SOURCE / "bench"))
import papers_claims  # noqa: E402
import papers_page  # noqa: E402
PLAN = """
[graphs]
cnn = "cifar10-cnn --training"
[stable.hierarchical-1]
words = "fewer groups"
set = { "policy.groups" = 4 }
seeds = [1]
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
stable = "hierarchical-1"
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
config = "few.toml"
methods = ["placeto", "rnn"]
lengths = [{ episodes = 8, seeds = [1, 2] }]
optimised = { placeto = 4 }
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
                                        "simple-planner/cnn/2gpu/paper/2", "small/cnn/2gpu/paper/1",
                                        "small/cnn/2gpu/stable/1"])
        self.assertNotEqual(self.rows()[1]["setup"], self.rows()[-1]["setup"], "four groups are another setting")
        for row in self.rows()[1:]:
            self.assertEqual((row["updates"], row["placements"]), (10, 40))
            self.assertEqual(row["best_s"], row["bests"][-1][2])
            self.assertGreater(row["core_s"], 0)
            self.assertEqual(len(row["entropy"]), 10)
            self.assertTrue(all(0 < entropy <= 1.1 for entropy in row["entropy"]), "at most ln 3")
            self.assertFalse(row["saturated"])
        self.assertEqual(self.drive("run", "--stage", "A").stderr, "")
        self.drive("run")
        self.assertIn("small/cnn/2gpu/tuned/2", self.names())
        self.assertEqual(len(self.rows()), 5 + 3)

    def test_a_changed_config_is_run_again(self):
        only = ("--only", "^small/.*(paper|stable)/1$")
        self.drive("run", *only)
        (self.at / "papers/small.toml").write_text(CONFIG + "\n# Not a setting\n")
        self.assertEqual(self.drive("run", *only).stderr, "")
        (self.at / "papers/small.toml").write_text(CONFIG.replace("episodes = 10", "episodes = 12"))
        self.assertIn("its setup is not today's", self.drive("page").stderr)
        self.drive("run", *only)
        self.assertEqual([row["updates"] for row in self.rows()], [10, 10, 12, 12])
        (self.at / "papers/experiments.toml").write_text(PLAN.replace('"policy.groups" = 4', '"policy.groups" = 5'))
        self.drive("run", *only)
        self.assertEqual([row["run"] for row in self.rows()[4:]], ["small/cnn/2gpu/stable"], "its departures changed")

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
        self.assertIn("With the paper's settings (Placeto's with its departures): 0 of 1 rows met", page)
        self.assertIn("With the paper's settings, or the departures where they were run: 0 of 1 rows met", page)
        self.assertIn("- Hierarchical Planner: fewer groups.", page)
        self.assertIn("Hierarchical Planner, CNN on 2 GPUs. Paper's settings: no placement can: the bound of", page)
        self.assertIn("The aim, two thirds of each paper's rows, is missed for **Hierarchical", page)
        self.assertIn("| the Hierarchical Planner is faster than the Simple Planner |", page)

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
        self.drive("run", "--stage", "A")
        rows = {(row["run"], row["seed"]): row for row in self.rows()}
        self.assertEqual(sorted(rows), [("few/8/placeto", 1), ("few/8/placeto", 2), ("few/8/rnn", 1), ("few/8/rnn", 2),
                                        ("few/gain", 1), ("few/optimised/placeto", 1)])
        gain, placeto, rnn = rows["few/gain", 1]["methods"], rows["few/8/placeto", 1], rows["few/8/rnn", 1]
        tests = len(list((self.at / "graphs/few").glob("test-*")))
        self.assertGreater(tests, 0)
        self.assertEqual({name: len(times) for name, times in gain.items() if len(times) != tests}, {})
        for last, best, start in zip(placeto["zero_shot_s"], placeto["best_on_pass_s"], placeto["start_s"], strict=True):
            self.assertLessEqual(best, min(last, start))
        self.assertEqual(rnn["zero_shot_s"], rnn["best_on_pass_s"], "it has no pass")
        self.assertNotEqual(placeto["start_s"], rows["few/8/placeto", 2]["start_s"], "a start is drawn from the seed")
        for a, b in zip(placeto["untrained_s"], gain["single-gpu"], strict=True):
            self.assertAlmostEqual(a / b, 1, delta=1e-9, msg="all choices equal: the first GPU, by the same simulator")
        self.assertEqual((placeto["updates"], len(placeto["entropy"]), placeto["saturated"]), (2, 2, False))
        self.drive("page")
        page = (self.at / "page.md").read_text()
        self.assertIn("| few | Placeto | 8 | 2 |", page)
        self.assertIn("| Placeto zero-shot is faster than the RNN zero-shot |", page)

    def test_departures_of_an_unknown_table_are_reported_in_one_line(self):
        (self.at / "papers/experiments.toml").write_text(PLAN.replace("[stable.hierarchical-1]", "[stable.other]"))
        self.assertEqual(self.drive("run", status=2).stderr,
                         "error: experiments.toml: [stable.other] is no table of a row\n")

    def test_an_unknown_graph_is_reported_in_one_line(self):
        (self.at / "papers/small.toml").write_text(CONFIG.replace("cnn.json.gz", "other.json.gz"))
        self.assertEqual(self.drive("run", status=2).stderr,
                         "error: experiments.toml: small/cnn/2gpu needs the graph 'other'; add it to [graphs]\n")


class PapersPage(unittest.TestCase):
    def test_the_hierarchical_planner_has_three_settings_with_their_entropy(self):
        place = "cnn/2gpu/paper"
        run = lambda best, entropy: [{"best_s": best, "entropy": entropy}]
        seeds = {"hierarchical/" + place: run(1.5, [0.5] + [0] * 9), "simple-planner/" + place: [{"best_s": 4.0}],
                 "hierarchical/cnn/2gpu/stable": run(1.0, [1.09] * 5 + [0.7] * 5) + run(1.25, [1.0] * 10)}
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
        self.assertEqual(papers_page.placements_to(result(1.1, 15), 1.0), math.inf, "never reached")


class Claims(unittest.TestCase):
    """The unit of a test is a graph with its mean over the seeds."""

    def pairs(self, *graphs):
        found = papers_claims.Pairs()
        for graph, seeds in enumerate(graphs):
            for seed, (mine, other) in enumerate(seeds, 1):
                found.add(graph, seed, mine, other)
        return found

    def test_a_sign_test_is_one_sided(self):
        self.assertAlmostEqual(papers_claims.sign_test(9, 1), 11 / 1024)
        self.assertEqual(papers_claims.sign_test(0, 8), 1)

    def test_seeds_of_a_graph_are_one_pair(self):
        five = self.pairs(*[[(1.0, 1.2), (1.0, 1.2)]] * 5)
        self.assertEqual((five.outcomes(), five.seeds()), ((5, 0, 0), {1: (5, 0), 2: (5, 0)}))
        self.assertEqual(five.claim("", "").verdict, "holds")
        four = self.pairs(*[[(1.0, 1.2)] * 9] * 4)
        self.assertEqual(four.claim("", "").verdict, "open", "36 pairs of 4 graphs: p = 1/16")
        self.assertEqual(self.pairs(*[[(1.3, 1.2)]] * 5).claim("", "").verdict, "**refuted here**")

    def test_a_graph_is_its_mean_over_the_seeds(self):
        pairs = self.pairs([(1.0, 2.0), (1.0, 2.0), (8.0, 2.0)], [(1.0, 4.0), (1.0, 1.0)], [(1.0, 1.0005)], [(None, 1.0)])
        self.assertEqual(pairs.outcomes(), (1, 1, 2), "the first is equal on average: 2 and 2; the last does not fit")
        self.assertAlmostEqual(pairs.ratio(), (1 * 2 * 1.0005) ** (1 / 3))

    def test_nothing_that_was_not_run_is_judged(self):
        self.assertEqual((self.pairs().claim("", "").verdict, self.pairs().claim("", "").n), ("open", "0"))


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
