"""Goal: placebench judges placements and not claims; no placer can stop it, and a stopped job continues where it was.
The second referee agrees with the program and with published values. The committed page matches its results, and every
committed best known value is what the referee gives for its placement.
Method: the driver as a process on two small tasks with placers that crash, lie, wait or write nonsense; random splits.

usage: placebench_test.py SOURCE_DIR EMPLACE
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE, PROGRAM = pathlib.Path(sys.argv[1]), sys.argv[2]
HERE = SOURCE / "bench" / "placebench"
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import partitioning  # noqa: E402
import tasks as task_table  # noqa: E402
import judges  # noqa: E402
import quality  # noqa: E402
from references import References  # noqa: E402

WORKLOADS = SOURCE / "tests/fixtures/third_party/dnn-partitioning"
TASKS = """
[machine.two]
cpus = ["haswell18"]
gpus = ["k40", "k40"]
link = "pcie3_x16"
[[task]]
name = "cnn/two"
group = "small"
graph.file = "tests/fixtures/graphs/cifar10_cnn-bs4.json.gz"
machine = "two"
memory = "MEMORY"
[[task]]
name = "bert/latency"
group = "splits"
graph.file = "tests/fixtures/third_party/dnn-partitioning/latency/bert24_inference.json"
objective = "latency"
[[task]]
name = "elsewhere"
group = "more"
graph.workload = "missing.json"
objective = "latency"
"""
# A placer's first lines: the task, and what a valid answer is.
READ = """
import json, os, signal, sys
task = json.load(open(sys.argv[1]))
names = [op["name"] for op in task["ops"]]
one = task["devices"][0]["name"]
def write(value):
    with open(task["placement"], "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
"""
ON_ONE = "write({'ops': dict.fromkeys(names, one)})"
BAD = {
    "crash": ("raise SystemExit('bad luck')", "exit status 1: bad luck"),
    "abort": ("os.abort()", "ended by signal 6"),
    "silent": ("pass", "wrote no placement"),
    "words": ("write('{')", "its placement is not JSON"),
    "list": ("write([1])", 'its placement has no object "ops"'),
    "short": ("write({'ops': dict.fromkeys(names[1:], one)})", "no device for 1 of "),
    "more": ("write({'ops': {**dict.fromkeys(names, one), 'x': one}})", "places 'x', which the graph does not have"),
    "moon": ("write({'ops': dict.fromkeys(names, 'moon:0')})", ' is on "moon:0"; devices: '),
    "number": ("write({'ops': dict.fromkeys(names, 0)})", " is on 0; devices: "),
    "big": ("write({'ops': dict.fromkeys(names, task['devices'][-1]['name'])})", "fit"),
    "slow": ("while True: signal.pause()", "stopped after 6 s"),
}


class Driver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        self.tasks("16MiB")

    def tearDown(self):
        self.folder.cleanup()

    def tasks(self, memory):
        (self.at / "tasks.toml").write_text(TASKS.replace("MEMORY", memory))

    def words(self, command, *more):
        return [sys.executable, str(HERE / "placebench.py"), command, "--program", PROGRAM, "--list",
                str(self.at / "tasks.toml"), "--results", str(self.at / "rows.jsonl"), "--references",
                str(self.at / "best.jsonl"), "--page", str(self.at / "page.md"), "--work", str(self.at / "work"), *more]

    def drive(self, command, *more, status=0):
        done = subprocess.run(self.words(command, *more), capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def adapter(self, name, body):
        path = self.at / (name + ".py")
        path.write_text(READ + body)
        return ["--adapter", "%s=%s %s" % (name, sys.executable, path)]

    def rows(self):
        return {(row["task"], row["method"]): row for row in
                map(json.loads, (self.at / "rows.jsonl").read_text().splitlines())}


class PlacebenchRun(Driver):
    def test_runs_what_is_missing_and_judges_it(self):
        methods = ("--methods", "heft,critical-path,auto@0.3s,placeto", "--budget", "1s", "--records", "--note", "Alone.")
        jobs = str(min(2, len(os.sched_getaffinity(0))))
        first = self.drive("run", *methods, "--jobs", jobs)
        self.assertIn("elsewhere: not run; needs --workloads", first.stderr)
        rows = self.rows()
        self.assertEqual({key[1] for key in rows}, {"heft", "critical-path@1s", "auto@0.3s", "placeto@1s"})
        self.assertEqual(len(rows), 8)
        for row in rows.values():
            self.assertGreater(row["value_s"], 0, row)
            self.assertGreater(row["core_s"], 0, row)
        self.assertEqual([line for line in self.drive("run", *methods).stderr.splitlines() if "[" in line], [])

        # The example is a valid placer; the best of all is kept with its placement, and is what the referee gives.
        best = {json.loads(line)["task"]: json.loads(line) for line in (self.at / "best.jsonl").read_text().splitlines()}
        for task in ("cnn/two", "bert/latency"):
            self.assertEqual(best[task]["value_s"], min(row["value_s"] for (of, _), row in rows.items() if of == task))
            self.drive("best", task, str(self.at / "p.json"))
            self.assertIn("1.0000 of the best known", self.drive("judge", task, str(self.at / "p.json")).stdout)
        self.drive("page")
        page = (self.at / "page.md").read_text()
        self.assertIn("| auto@0.3s | 1.000 | 1.000 | 1.000 |", page)
        self.assertIn("| heft | 2 | 0 | 0 | ", page)
        self.assertIn("Alone.", page)

    def test_continues_after_a_crash(self):
        self.drive("run", "--methods", "heft,scotch", "--records")
        path = self.at / "rows.jsonl"
        text = path.read_text()
        path.write_text(text[:-9])
        again = self.drive("run", "--methods", "heft,scotch")
        self.assertIn("incomplete", again.stderr)
        self.assertEqual(len(again.stderr.split("[4/4]")), 2)
        values = lambda lines: [json.loads(line)["value_s"] for line in lines.splitlines()]
        self.assertEqual(values(path.read_text()), values(text))
        # Another machine is another task: run again, and the old results are not on its page.
        self.tasks("20MiB")
        self.assertEqual(self.drive("run", "--methods", "heft,scotch", "--records").stderr.count("cnn/two, "), 2)
        self.drive("page")
        self.assertEqual(len(self.rows()), 4)

    def test_bad_placers_fail_and_the_others_run(self):
        adapters = [word for name, (body, _) in BAD.items() for word in self.adapter(name, body)]
        self.drive("run", "--methods", "heft", "--tasks", "cnn", "--budget", "0.4s", "--grace", "5.2", "--records", *adapters)
        rows = self.rows()
        for name, (_, reason) in BAD.items():
            row = rows["cnn/two", name + "@0.4s"]
            self.assertIn(reason, row.get("failed", ""), name)
            self.assertNotIn("value_s", row)
            self.assertNotIn("\n", row["failed"])
            self.assertNotIn(str(self.at), row["failed"])
        self.assertIn("value_s", rows["cnn/two", "heft"])
        self.drive("page")
        page = (self.at / "page.md").read_text()
        self.assertIn("| moon@0.4s | 10.0 | 10.0 |", page)
        self.assertIn("| slow@0.4s | stopped after 6 s | 1 |", page)

    def test_claims_of_a_placer_are_ignored(self):
        lies = "write({'ops': dict.fromkeys(names, one), 'measured': {'step_time_s': 1e-9}, 'order': ['nonsense']})"
        self.drive("run", "--methods", "", "--tasks", "cnn", *self.adapter("honest", ON_ONE), *self.adapter("liar", lies))
        rows = self.rows()
        self.assertEqual(rows["cnn/two", "liar@5s"]["value_s"], rows["cnn/two", "honest@5s"]["value_s"])

    def test_a_changed_placer_runs_again(self):
        words = ("--methods", "", "--tasks", "cnn", *self.adapter("own", ON_ONE))
        self.assertIn("[1/1]", self.drive("run", *words).stderr)
        self.assertNotIn("[1/1]", self.drive("run", *words).stderr)
        self.adapter("own", ON_ONE + "\n# Changed.")
        self.assertIn("[1/1]", self.drive("run", *words).stderr)

    def test_processes_that_a_placer_leaves_are_ended(self):
        """The pipe ends when no process has it open, the placer's children included."""
        pipe = self.at / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        child = "open(%r, 'w')\nif os.fork() == 0:\n    signal.pause()\n" % str(pipe)
        body = "pipe = " + child
        self.drive("run", "--methods", "", "--tasks", "cnn", *self.adapter("parent", body + ON_ONE))
        self.assertIn("value_s", self.rows()["cnn/two", "parent@5s"])
        self.assertEqual(os.read(reader, 1), b"")
        os.close(reader)

    def test_a_signal_ends_the_job_and_the_placer(self):
        pipe = self.at / "pipe"
        os.mkfifo(pipe)
        waits = "pipe = open(%r, 'w')\npipe.write('x')\npipe.flush()\nsignal.pause()" % str(pipe)
        words = self.words("run", "--methods", "", "--tasks", "cnn", "--budget", "600s", *self.adapter("waits", waits))
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
            with open(pipe) as reader:
                self.assertEqual(reader.read(1), "x")
                job.send_signal(signal.SIGTERM)
                self.assertEqual(reader.read(), "")
            self.assertIn("interrupted; repeat the command to continue", job.stderr.read())
        self.assertEqual(job.returncode, 130)
        self.assertFalse((self.at / "rows.jsonl").exists())

    def test_a_best_known_placement_is_only_replaced_by_a_better_one(self):
        self.drive("run", "--methods", "random", "--tasks", "bert", "--records")
        before = (self.at / "best.jsonl").read_text()
        self.drive("run", "--methods", "single-cpu", "--tasks", "bert", "--records")
        self.assertEqual((self.at / "best.jsonl").read_text(), before)
        self.drive("best", "bert/latency", str(self.at / "p.json"))
        self.assertIn("not kept", self.drive("judge", "bert/latency", str(self.at / "p.json"), "--by", "me").stdout)
        placed = json.loads((self.at / "p.json").read_text())
        placed["ops"].popitem()
        (self.at / "p.json").write_text(json.dumps(placed))
        self.assertIn("no device for 1 of 32 ops", self.drive("judge", "bert/latency", str(self.at / "p.json"), status=3).stderr)

    def test_wrong_arguments_are_reported_in_one_line(self):
        for words, message in (
                (["--methods", "hef"], "--methods 'hef': is unknown; methods: random, "),
                (["--methods", "heft@1s"], "--methods 'heft@1s': a heuristic has no budget"),
                (["--budget", "fast"], "--budget: 'fast' is no budget; write 5s"),
                (["--tasks", "nothing"], "--tasks 'nothing': matches no task of "),
                (["--tasks", "("], "--tasks '(': is no regular expression: "),
                (["--adapter", "x"], "--adapter 'x': needs NAME=COMMAND"),
                (["--adapter", "heft=x"], "--adapter 'heft=x': 'heft' is a method of the program"),
                (["--seeds", "a"], "--seeds 'a': needs whole numbers"),
                (["--jobs", "99999"], "--jobs 99999 --threads 1: this machine has "),
                (["--program", "no/such"], "--program no/such: is no program")):
            lines = self.drive("run", *words, status=2).stderr.splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertTrue(lines[0].startswith("error: " + message), lines[0])
        for old, new, message in (
                ('machine = "two"', 'machine = "three"', "machine 'three' is unknown; add [machine.three]"),
                ('memory = ', 'menory = ', "'menory' is no key"),
                ('"latency"', '"lateness"', "objective 'lateness' is unknown"),
                ("elsewhere", "cnn/two", "two tasks are called 'cnn/two'"),
                ("graph.workload", "graph.url", "graph needs one of"),
                ("[[task]]", "[[task", "tasks.toml: ")):
            self.tasks("16MiB")
            (self.at / "tasks.toml").write_text((self.at / "tasks.toml").read_text().replace(old, new))
            lines = self.drive("tasks", status=2).stderr.splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(message, lines[0])


class DopplerCost(Driver):
    """With made-up cost code that has the interface of DOPPLER's: the real one is not part of this repository."""

    COST = """
import torch, pexpect
from dotenv import load_dotenv
load_dotenv()
class Simulator:
    def __init__(self, graph, comm_cost, comp_cost):
        self.comm_cost, self.comp_cost = comm_cost, comp_cost
    def get_cost(self, dev_assign):
        assert all(isinstance(device, int) for device in dev_assign)
        return (0 + sum(self.comp_cost) + self.comm_cost[0]).clone().detach() / 1e10
"""

    def setUp(self):
        super().setUp()
        (self.at / "tasks.toml").write_text(
            '[machine.m]\ngpus = ["h100", "h100"]\nmemory = "1000000GiB"\nbandwidth = "10GB/s"\nlatency = "0us"\n'
            'copy_engines = "unlimited"\n[[task]]\nname = "d"\ngroup = "DOPPLER"\ngraph.doppler = "doppler.txt"\n'
            'machine = "m"\ndispatch = "fifo"\n')
        fixture = (SOURCE / "tests/fixtures/formats/doppler.txt").read_text()
        (self.at / "repository" / "env").mkdir(parents=True)
        (self.at / "repository" / "doppler.txt").write_text(fixture)
        (self.at / "repository" / "env" / "cost.py").write_text(self.COST)
        (self.at / "networkx.py").write_text("class MultiDiGraph:\n    def add_nodes_from(self, nodes): pass\n"
                                             "    def add_edges_from(self, edges): pass\n")

    def test_cost_code_gives_a_second_value(self):
        os.environ["PYTHONPATH"] = str(self.at)
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        self.drive("run", "--methods", "heft", "--doppler", str(self.at / "repository"), "--records")
        row = self.rows()["d", "heft"]
        # A hundred seconds and a second hundredth, and the transfer of the first node: 400 s.
        self.assertAlmostEqual(row["doppler_s"], 100 + 0.01 + 0.01 + 3.2e-6 + 400)
        self.assertAlmostEqual(row["value_s"], 100.0200032, places=4)
        self.drive("page")
        self.assertIn("| heft | 1.000 |\n| best of the table [s] | 500.02 |", (self.at / "page.md").read_text())

    def test_missing_cost_code_is_reported_in_one_line(self):
        (self.at / "repository" / "env" / "cost.py").unlink()
        done = self.drive("run", "--methods", "heft", "--doppler", str(self.at / "repository"), status=1)
        self.assertIn("DOPPLER's cost code: No module named ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class PublishedEvaluators(Driver):
    """Made-up programs that print as dnn-partitioning's do: the real ones are not part of this repository."""

    def evaluator(self, value):
        path = self.at / "greedy.exe"
        path.write_text("#!%s\nimport json, sys\nassert sys.argv[1] == '-computeLatency'\nsplit = json.load(open(sys.argv[2]))\n"
                        "nodes = {node['id'] for node in json.load(sys.stdin)['nodes']}\n"
                        "assert nodes == {id for side in split.values() for device in side for id in device['nodes']}\n"
                        "print('the latency of given split is: %s')\n" % (sys.executable, value))
        path.chmod(0o755)

    def test_published_value_has_to_agree(self):
        self.evaluator("924.060")
        words = ("--tasks", "bert", "--methods", "single-cpu", "--workloads", str(self.at), "--records")
        self.drive("run", *words)
        self.assertEqual(self.rows()["bert/latency", "single-cpu"]["published_s"], 0.92406)
        self.drive("page")
        self.assertIn("1 placements of this page were judged by the evaluators", (self.at / "page.md").read_text())
        (self.at / "rows.jsonl").unlink()
        for value, message in (("924.2", "the referees disagree: 0.92406 s and 0.9242 s"), ("nothing", "")):
            self.evaluator(value)
            self.assertIn(message, self.drive("run", *words, status=1).stderr)
            self.assertFalse((self.at / "rows.jsonl").exists())


class Partitioning(unittest.TestCase):
    def test_latencies_equal_the_published_ones(self):
        for line in (SOURCE / "tests/fixtures/latency_splits.txt").read_text().splitlines()[1:]:
            name, _, value, letters = line.split()
            workload = partitioning.read(WORKLOADS / name)
            where = {node["id"]: "cpu" if letters[node["id"]] == "." else letters[node["id"]] for node in workload["nodes"]}
            where = {node: "accel:" + device if device != "cpu" else device for node, device in where.items()}
            if value == "circle":
                self.assertRaisesRegex(partitioning.Illegal, "cycle", partitioning.Split(workload, where).latency)
            else:
                self.assertAlmostEqual(partitioning.Split(workload, where).latency(), float(value), places=6)

    def test_agrees_with_the_program_on_random_splits(self):
        rng = random.Random(7)
        for objective, name in (("max-load", "throughput/bert24_training.json"), ("latency", "latency/bert24_inference.json")):
            with tempfile.TemporaryDirectory() as folder:
                ready = ready_task(folder, WORKLOADS / name, objective)
                workload, legal = partitioning.read(WORKLOADS / name), 0
                colours = {node["id"]: node.get("colorClass", "own%d" % node["id"]) for node in workload["nodes"]}
                for _ in range(40):
                    few = rng.sample(ready.devices, rng.randrange(1, 5))
                    device_of = {colour: rng.choice(few) for colour in sorted(set(map(str, colours.values())))}
                    placed = {op: device_of[str(colours[int(op.partition("#")[2])])] for op in ready.ops}
                    try:
                        judges.Referee(PROGRAM).judge(ready, placed, folder)  # Raises Failed where they disagree.
                        legal += 1
                    except judges.Rejected as reason:
                        where = {int(op.partition("#")[2]): device for op, device in placed.items()}
                        with self.assertRaises(partitioning.Illegal, msg=str(reason)):
                            partitioning.value_ms(workload, where, objective)
                self.assertGreater(legal, 3, objective)

    def test_refuses_illegal_splits(self):
        node = lambda id, **more: {"id": id, "size": 60.0, "cpuLatency": 5.0, "fpgaLatency": 1.0, **more}
        workload = {"maxSizePerFPGA": 100.0, "maxFPGAs": 1, "edges": [{"sourceId": 0, "destId": 1, "cost": 2.0}],
                    "nodes": [node(0), node(1), node(2, colorClass=1), node(3, colorClass=1, supportedOnFpga=False)]}
        cpus = dict.fromkeys(range(4), "cpu:0")
        for changes, reason in (({0: "accel:0", 1: "accel:0"}, "needs 120 bytes"), ({2: "cpu:1"}, "colour class 1"),
                                ({2: "accel:0", 3: "accel:0"}, "node 3 is not allowed"),
                                ({0: "accel:0", 1: "accel:1"}, "2 accelerators of 1")):
            self.assertRaisesRegex(partitioning.Illegal, reason, partitioning.value_ms, workload, {**cpus, **changes}, "latency")
        self.assertRaisesRegex(partitioning.Illegal, "not every", partitioning.value_ms, workload, {0: "cpu:0"}, "latency")
        self.assertEqual(partitioning.value_ms(workload, cpus, "latency"), 10.0)
        self.assertEqual(partitioning.value_ms(workload, {**cpus, 0: "accel:0"}, "latency"), 8.0)  # 1 + 2, then 5.
        self.assertEqual(partitioning.value_ms(workload, {**cpus, 0: "accel:0"}, "max-load"), 15.0)


def ready_task(folder, graph, objective):
    (pathlib.Path(folder) / "tasks.toml").write_text(
        '[[task]]\nname = "t"\ngroup = "g"\ngraph.workload = "%s"\nobjective = "%s"\n' % (graph.name, objective))
    task, = task_table.read_tasks(pathlib.Path(folder) / "tasks.toml")
    return task_table.Workshop(PROGRAM, folder, "any", workloads=graph.parent).make(task)


class CommittedResults(unittest.TestCase):
    def test_the_page_matches_its_results(self):
        done = subprocess.run([sys.executable, str(HERE / "placebench.py"), "page", "--page", "-"], check=True,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, (SOURCE / "docs/results/placebench.md").read_text(), "run placebench.py page")
        self.assertEqual(done.stderr, "")

    def test_the_referee_confirms_every_best_known_value(self):
        references, names = References(HERE / "references.jsonl"), set()
        with tempfile.TemporaryDirectory() as folder:
            workshop = task_table.Workshop(PROGRAM, folder, "any")
            for task in task_table.read_tasks(HERE / "tasks.toml"):
                names.add(task.name)
                self.assertTrue(task.name in references.of, task.name)
                if workshop.missing(task):
                    continue
                ready = workshop.make(task)
                known = references.known(ready)
                self.assertTrue(known, "%s is another task than that of its best known value" % task.name)
                judged = judges.Referee(PROGRAM).judge(ready, references.placement(ready), folder)
                self.assertEqual(judged["value_s"], known["value_s"], task.name)
                self.assertGreaterEqual(known["value_s"], ready.bound_s * (1 - 1e-9), task.name)
        self.assertEqual(names, set(references.of), "a best known value of no task")

    def test_the_best_known_splits_are_as_good_as_the_published_values(self):
        references, compared = References(HERE / "references.jsonl"), set()
        for task in task_table.read_tasks(HERE / "tasks.toml"):
            if not task.is_split():
                continue
            name = pathlib.Path(task.graph).name.partition(".")[0]
            layers = "layer-" in task.name
            for file, objective, best, _ in quality.WORKLOADS:
                if objective == task.objective and pathlib.Path(file).name == name and ("Layer" in file) == layers:
                    self.assertLessEqual(references.of[task.name]["value_s"] * 1e3, best * (1 + 1e-5), task.name)
                    compared.add(file)
        self.assertEqual(compared, {file for file, *_ in quality.WORKLOADS})

    def test_there_are_20_tasks_without_a_download(self):
        own = [task for task in task_table.read_tasks(HERE / "tasks.toml") if task.source in ("file", "generate")]
        self.assertGreaterEqual(len(own), 20)

    def test_the_example_is_short(self):
        self.assertLessEqual(len((HERE / "adapters/critical_path.py").read_text().splitlines()), 65)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
