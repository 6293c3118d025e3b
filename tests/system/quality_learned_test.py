"""Goal: bench/quality_learned.py makes every row once, trains on no relative of a network, and continues where it stopped.
Method: the driver as a process on tiny workloads of the right names, twice, with its file damaged in between.

usage: quality_learned_test.py SOURCE_DIR EMPLACE
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]
FILES = ["LayerGraphs/bert24", "LayerGraphs/inceptionv3", "OperatorGraphs/bert_l-3", "OperatorGraphs/resnet50"]


def chain(length):
    """A workload of dnn-partitioning: a chain that needs three of four accelerators."""
    nodes = [{"id": i, "name": f"node{i}", "supportedOnFpga": 1, "cpuLatency": 30.0, "fpgaLatency": 2.0 + i % 3,
              "isBackwardNode": False, "colorClass": i, "size": 100.0} for i in range(length)]
    edges = [{"sourceId": i, "destId": i + 1, "cost": 1.0 + i % 4, "size": 8.0} for i in range(length - 1)]
    return {"maxSizePerFPGA": 100.0 * length / 2.5, "maxFPGAs": 4, "maxCPUs": 1, "nodes": nodes, "edges": edges}


def profile(length):
    """What emplace reads of PipeDream, with a backward pass that no workload has."""
    ops = [{"id": i, "name": f"op{i}", "type": "layer::Conv", "inputs": [[i - 1, 0]] if i else [],
            "outputs": [{"dtype": "u8", "shape": [1 << 20]}], "param_bytes": 100, "measured_us": {"gpu": 900.0},
            "phase": "forward" if i < length else "backward"} for i in range(length + 2)]
    return {"name": "profile", "ops": ops}


class QualityLearned(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        for number, name in enumerate(FILES):
            path = root / f"{name}_inference.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(chain(9 + number)))
        for number, name in enumerate(["densenet121", "alexnet"]):
            (root / f"pipedream-{name}.json").write_text(json.dumps(profile(7 + number)))
        self.root, self.out = root, root / "out"

    def tearDown(self):
        self.folder.cleanup()

    def drive(self, *more):
        done = subprocess.run(
            [sys.executable, f"{SOURCE}/bench/quality_learned.py", "--workloads", self.root, "--graphs", self.root, "--out",
             self.out, "--program", PROGRAM, "--budget", "0.4s", "--family-budget", "0.8s", "--fine-budget", "0.4s", *more],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def rows(self):
        return [json.loads(line) for line in (self.out / "rows.jsonl").read_text().splitlines()]

    def test_makes_every_row_once(self):
        first = self.drive()
        rows = self.rows()
        self.assertEqual(len(rows), 3 * len(FILES))
        for row in rows:
            self.assertGreater(row["latency_ms"], 18.0, row)
            self.assertEqual(row["evaluations"] == 1, row["kind"] == "zero-shot", row)
            best = min(other["latency_ms"] for other in rows if other["network"] == row["network"])
            self.assertLessEqual(best, row["latency_ms"])
        self.assertIn("| zero-shot | 1 |", first.stdout)
        self.assertEqual(self.drive().stdout.strip(), (self.out / "rows.md").read_text().strip(), "nothing is made twice")
        text = (self.out / "rows.jsonl").read_text()
        (self.out / "rows.jsonl").write_text(text[:-9])
        repaired = self.drive()
        self.assertIn("incomplete", repaired.stderr)
        self.assertEqual(len(self.rows()), len(rows))

    def test_trains_on_no_relative_of_a_network(self):
        self.drive("--kinds", "zero-shot", "--networks", "bert24,resnet50")
        for family, strangers in (("bert", ["bert"]), ("resnet", ["resnet"])):
            config = (self.out / f"without-{family}-1" / "config.toml").read_text()
            graphs = next(line for line in config.splitlines() if line.startswith("graphs = "))
            self.assertIn("inceptionv3-0.json", graphs)
            self.assertIn("densenet121-5.json", graphs)
            for stranger in strangers:
                self.assertNotIn(f"/graphs/{stranger}", graphs)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
