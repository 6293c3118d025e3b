"""Goal: bench/measured_strategies.py predicts measured steps by the rules that it states.
Method: its arithmetic against sums by hand; the driver as a process on a made-up folder of both sources.

usage: measured_strategies_test.py SOURCE_DIR EMPLACE
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = sys.argv[1:3]
sys.path.insert(0, f"{SOURCE}/bench")

from measured import rows, sailor, step_graph, vtrain  # noqa: E402

HEADER = "GPUs,batch,micro,hidden,heads,layers,sequence,tensor,data,pipeline,ms\n"
LINKS = {"A": {"1": {"us-central1-a": {"B": {"1": [[0, 0, 0], 1e9], "2": [[0, 0, 0], 2e9]}}}}}
SHAPE = {"params_bytes": 4000, "act_output_bytes": 400, "act_mem_bytes": 2000}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8") as out:
            out.write(text)
    else:
        path.write_text(text, encoding="utf-8")


def steps(path):
    """Steps whose host needs 50 us for an op, four all-reduces of 1 ms and 3 ms beside layers."""
    lines = [HEADER]
    for tensor in (1, 2, 4):
        for layers in (2, 4):
            for micro_batches in (2, 4):
                layer = vtrain.issued_ops() * 0.05 + (4 if tensor > 1 else 0)
                ms = micro_batches * (3 + layers * layer) + 7
                lines.append(f"{tensor},{micro_batches},1,64,2,{layers},32,{tensor},1,1,{ms}\n")
    write(path, "".join(lines))


def sailor_folder(folder):
    layer = [0.25, 0.5, 0.125]
    slow = {str(l): [2 * t for t in layer] for l in range(26)}
    fast = {str(l): layer for l in range(26)}
    for kind in ("A", "B"):
        profile = {"1": {"2": slow}, "2": {"2": fast}, "4": {"1": slow}}
        write(
            folder / f"profiles/OPT-350-{kind}.json",
            json.dumps(profile | {"8": {"1": slow}} if kind == "B" else profile),
        )
    write(folder / "llm_info.json.gz", json.dumps({"OPT-350": {"2": {str(l): SHAPE for l in range(26)}}}))
    write(folder / "multizone_bandwidths_het.json.gz", json.dumps({"us-central1-a": LINKS}))
    group = [[["A", 2, "zone"]], 2], [[["B", 2, "zone"]], 2]
    pipeline = {
        "layers_per_stage": [list(range(13)), list(range(13, 26))],
        "tmp_per_stage": [[[group[0][0], 2]], [[group[1][0], 2]]],
        "dp": [1, 1],
    }
    plan = {"pipeline_list": [pipeline], "mbs": 1, "gbs": 4, "real": 50.0, "max_mem": 200e3}
    write(folder / "plans/one.json", json.dumps(plan))


class Arithmetic(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_errors_and_interpolation(self):
        two = [rows.Row("a", 2, 1), rows.Row("b", 1, 1.25)]
        self.assertEqual(rows.summary(two), {"mean": 0.375, "median": 0.375, "worst": 0.5, "bias": -0.125})
        points = [(10, 2), (20, 4)]
        self.assertEqual([rows.interpolated(points, at) for at in (1, 10, 15, 20, 40)], [2, 2, 3, 4, 8])

    def test_layers_are_divided_evenly_or_refused(self):
        self.assertEqual(step_graph.even_stages(6, 3), [0, 0, 1, 1, 2, 2])
        with self.assertRaises(ValueError):
            step_graph.even_stages(7, 2)

    def test_the_host_is_known_from_split_layers_alone(self):
        steps(self.root / "single.csv")
        for gpus in (2, 4):
            text = "size,count,type,ns,bw,ns,bw\n1024,1,float,1000000,1,1000000,1\n8192,1,float,1000000,1,1000000,1\n"
            write(self.root / f"allreduce-a100-{gpus}.txt.gz", text)
        measured = vtrain.read_rows(self.root / "single.csv")
        reduce = vtrain.AllReduce(self.root)
        self.assertAlmostEqual(vtrain.host_us(measured, reduce), 50)
        self.assertEqual(len(vtrain.judged(measured)), 4)
        self.assertEqual(reduce.ms(1, 1e9), 0)
        self.assertAlmostEqual(reduce.ms(64, 1e9), 2 * 63 / 64 * 10, msg="by the network")
        with self.assertRaises(ValueError):
            vtrain.host_us([row for row in measured if row.tensor != 1 and row.layers == 2], reduce)

    def test_every_parameter_counts_once(self):
        model = vtrain.Gpt(64, 2, 4, 32, 1, 100, tied=False)
        graph = vtrain.step(model)
        weights = [op["param_bytes"] // 2 for op in graph.ops if op["type"] == "Parameter"]
        self.assertEqual(sum(weights), sum(model.parameters(2)))
        adam = [op for op in graph.ops if op["type"] == "aten::addcdiv"]
        self.assertEqual(sum(op["outputs"][3]["shape"][0] for op in adam), sum(weights))

    def test_no_micro_batch_takes_longer_than_a_larger_one(self):
        sailor_folder(self.root)
        source = sailor.Source(self.root)
        plan = source.plans()[0]
        self.assertEqual(source.times(plan, ("A", 2))["3"], [0.25, 0.5, 0.125])
        with self.assertRaises(KeyError):
            source.times(plan, ("A", 1))
        self.assertEqual(source.bytes_per_s("B", "A"), 2e9)
        with self.assertRaises(KeyError):
            source.bytes_per_s("A", "A")
        self.assertFalse(plan.is_alike)
        self.assertEqual(sailor.reduction_s(source, plan), 0)


class Driver(unittest.TestCase):
    def drive(self, *words):
        command = [
            sys.executable,
            f"{SOURCE}/bench/measured_strategies.py",
            *map(str, words),
            "--program",
            PROGRAM,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_both_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            sailor_folder(root / "sailor")
            done = self.drive(root, "--source", "sailor", "--rows", root / "rows.jsonl")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("| Sailor, time, unlike | 1 |", done.stdout)
            seconds, memory = map(json.loads, (root / "rows.jsonl").read_text().splitlines())
            # Two stages of 13 layers: five turns of 13 x 0.75 s, the update, and sends of nearly no time.
            self.assertAlmostEqual(seconds["predicted"], 5 * 13 * 0.75 + 13 * 0.125, places=2)
            self.assertGreater(
                memory["predicted"] * 1e9, 13 * (4 * 4000 + 2 * 2000), "two micro-batches in flight"
            )
            write(root / "vtrain/ground_truth_multi.csv", "p," + HEADER + "1,16,32,1,64,2,2,32,1,8,2,1000\n")
            write(root / "vtrain/ground_truth_single.csv", HEADER + "2,4,1,64,2,2,32,1,1,2,1000\n")
            done = self.drive(root, "--source", "vtrain", "--dispatch", "50")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("| vTrain, one host | 1 |", done.stdout)

    def test_what_cannot_be_used_is_one_line(self):
        done = self.drive("/nonexistent")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
