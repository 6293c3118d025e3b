"""Goal: executors of kind torch measure what PyTorch does: the same step as plain PyTorch's, the bytes that the simulator moves, the
same results on two devices as on one; whatever cannot be measured is reported in one line; and a run whose executor processes are killed loses
nothing and counts nothing twice.
Method: the built program and the real emplace-exec-torch of the Python package in this interpreter, on a small perceptron's training
step and logical devices on CPU cores. It is skipped, with the reason, where PyTorch or the package is missing.

usage: torch_executor_test.py SOURCE_DIR EMPLACE [UNITTEST_OPTIONS]
"""
import importlib.util
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
SOURCE, PROGRAM = sys.argv[1:3]
PACKAGE = os.path.join(SOURCE, "python")
if os.path.isdir(os.path.join(PACKAGE, "emplace")):
    sys.path.insert(0, PACKAGE)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGE, os.environ.get("PYTHONPATH")]))
os.environ.update(EMPLACE_PYTHON=sys.executable, EMPLACE_PROGRAM=PROGRAM, OMP_NUM_THREADS="1")

STEP = '''
import torch
from torch import nn


def make(width=256):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    batch = (torch.randn(64, 128), torch.randint(0, 10, (64,)))

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])
    return model, batch, loss, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def make_wider():
    return make(512)


def make_nothing():
    raise RuntimeError("no data set here\\nand more")
'''

DEVICE = '[[device]]\nname = "{}"\nprofile = "{}"\nmemory = "{}"\n'
LINK = '[[link]]\nbetween = ["*", "*"]\nbandwidth = "10GB/s"\nlatency = "1us"\n'


def devices_text(first="cpu:0", second="cpu:1", memory="2GiB"):
    profiles = [("k40" if name.startswith("gpu") else "haswell18") for name in (first, second)]
    return ('copies = "target"\n' + DEVICE.format(first, profiles[0], memory) + DEVICE.format(second, profiles[1], memory) + LINK)


def why_skipped():
    for module in ("torch", "msgpack", "emplace"):
        if importlib.util.find_spec(module) is None:
            return f"{sys.executable} has no module {module}"
    if importlib.util.find_spec("emplace.torch_executor") is None:
        return "the package emplace has no executor of PyTorch"
    return ""


def emplace(*arguments, status=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == status, f"{arguments}: exit status {done.returncode}\n{done.stderr}"
    return done


def emplace_json(*arguments):
    return json.loads(emplace(*arguments, "--json").stdout)


class TorchExecutor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        cls.step, cls.graph = cls.at("step.py"), cls.at("step.json")
        cls.model = cls.step + ":make"
        cls.write("step.py", STEP)
        cls.devices = cls.write("two.toml", devices_text())
        import emplace as em
        spec = importlib.util.spec_from_file_location("step", cls.step)
        cls.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.module)
        model, batch, loss, optimizer = cls.module.make()
        em.trace(model, batch, loss=loss, optimizer=optimizer).save(cls.graph)
        cls.one, cls.two = cls.place("single-cpu", cls.devices), cls.place("round-robin", cls.devices)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.at(name), "w", encoding="utf-8") as file:
            file.write(text)
        return cls.at(name)

    @classmethod
    def place(cls, method, devices):
        path = cls.at(f"{method}-{os.path.basename(devices)}.json")
        emplace("place", cls.graph, "-d", devices, "--method", method, "-o", path)
        return path

    def evaluate(self, placement, *more, devices=None, model=None):
        return ["evaluate", self.graph, placement, "-d", devices or self.devices, "--executor", "torch", "--model", model or self.model,
                "--deadline", "120s", *more]

    def one_line(self, arguments, status, *texts):
        error = emplace(*arguments, status=status).stderr
        self.assertTrue(error.startswith("error: "), error)
        self.assertEqual(error.count("\n"), 1, error)
        for text in texts:
            self.assertIn(text, error)

    def test_one_device_takes_the_time_of_plain_pytorch(self):
        measured = emplace_json(*self.evaluate(self.one, "--samples", "30"))
        self.assertEqual((measured["executor"], measured["label"]), ("torch", "measured in PyTorch"))
        self.assertTrue(measured["valid"])
        self.assertEqual(measured["bytes_moved"], 0)
        self.assertEqual(measured["stand_ins"], [])
        self.assertGreaterEqual(len(measured["samples_s"]), 30)
        self.assertGreater(measured["peak_memory_bytes"][0], 0)
        self.assertEqual(measured["peak_memory_bytes"][1], 0)
        import torch
        torch.set_num_threads(1)
        model, batch, loss, optimizer = self.module.make()
        plain = []
        for _ in range(60):
            start = time.perf_counter()
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()
            plain.append(time.perf_counter() - start)
        ratio = measured["step_time_s"] / statistics.median(plain[20:])
        print(f"\none device: {measured['step_time_s'] * 1e6:.0f} us, {ratio:.2f} of plain PyTorch "
              f"(least: {min(measured['samples_s']) / min(plain[20:]):.2f})")
        self.assertTrue(0.1 < ratio < 10, ratio)  # Other work on this machine changes the time, but not by a factor of ten.

    def test_two_devices_move_the_bytes_of_the_simulator_and_compute_the_same(self):
        trace = self.at("trace.json")
        measured = emplace_json(*self.evaluate(self.two, "--verify", "--trace", trace))
        simulated = emplace_json("evaluate", self.graph, self.two, "-d", self.devices)
        self.assertEqual(measured["bytes_moved"], simulated["bytes_moved"])
        self.assertGreater(measured["bytes_moved"], 0)
        self.assertEqual(measured["verified"], True)
        self.assertGreater(measured["compared"], 10)
        self.assertTrue(all(busy > 0 for busy in measured["busy_s"]), measured["busy_s"])
        with open(trace, encoding="utf-8") as file:
            self.assertGreater(len(json.load(file)["traceEvents"]), 30)

    def test_cores_that_stand_in_for_a_gpu_are_named(self):
        import torch
        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        devices = self.write("gpu.toml", devices_text("cpu:0", "gpu:0"))
        placement = self.place("round-robin", devices)
        self.assertEqual(emplace_json(*self.evaluate(placement, devices=devices))["stand_ins"], ["gpu:0 on a CPU core"])

    def test_failures_are_reported_in_one_line(self):
        self.one_line(self.evaluate(self.one, model=self.step + ":make_wider"), 2, "executor 'torch': ")
        self.one_line(self.evaluate(self.one, model=self.step + ":make_nothing"), 2, "executor 'torch': ", "no data set here")
        self.one_line(self.evaluate(self.one, model=self.step + ":not_there"), 2, "executor 'torch': ", "not_there")
        self.one_line(self.evaluate(self.one, model="no_such_module:make"), 2, "executor 'torch': ", "no_such_module")
        tight = self.write("tight.toml", devices_text(memory="1MiB"))
        self.one_line(self.evaluate(self.one, devices=tight), 3, "oom: ")

    def test_calibrate_measures_ops_in_pytorch(self):
        here = self.at("here.toml")
        json_of = emplace_json("calibrate", self.graph, "--executor", "torch", "--model", self.model, "--count", "2", "-o", here,
                               "--placements", "8", "--rounds", "2", "--samples", "2")
        graph = json_of["graphs"][0]
        self.assertEqual((json_of["executor"], graph["placements"], graph["held_out"]), ("torch", 8, 4))
        with open(self.at("here.costs.json"), encoding="utf-8") as file:
            costs = json.load(file)
        self.assertEqual(costs["executor"], "torch")
        self.assertEqual(len(costs["costs"]), 2 * json_of["signatures"])
        costs = emplace_json("evaluate", self.graph, self.two, "-d", here)["costs"]
        self.assertEqual(costs["sources"]["calibrated"], 1.0)
        print(f"\ncalibrated: Spearman {graph['spearman']:.3f} of {graph['repeatability']:.3f}, error {graph['mape']:.2f}")

    def test_a_run_survives_the_death_of_its_executors(self):
        """In a namespace of processes of its own where that is possible, so that nothing else can be hit."""
        apart = ["unshare", "-rpf", "--mount-proc"]
        if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
            apart = []
        done = subprocess.run([*apart, sys.executable, os.path.abspath(__file__), SOURCE, PROGRAM, "--killed-run", self.folder,
                               self.graph, self.devices, self.model], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(f"\n{done.stdout.strip()}")


def executor_processes(mark):
    """The executor processes whose command line has these words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if f"--model={mark}" in words and any(word.startswith("--parent=") for word in words):
            found.append(int(pid))
    return found


def killed_run(folder, graph, devices, model):
    """A learned run with two executors, each of which is killed once while it measures."""
    run_dir = os.path.join(folder, "run")
    settings = {"input.graph": graph, "input.devices": devices, "executor.kind": "torch", "executor.model": model,
                "executor.count": "2", "executor.deadline": "120s", "executor.warmups": "1", "executor.samples": "3",
                "run.starts": '["scratch"]', "run.episodes": "30", "run.budget": "0s", "policy.groups": "8",
                "policy.hierarchical.hidden": "8", "compare.methods": '["single-cpu"]'}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with open(os.path.join(folder, "run.err"), "w+", encoding="utf-8") as errors:
        run = subprocess.Popen([PROGRAM, "run", os.path.join(SOURCE, "configs", "quickstart.toml"), "--run-dir", run_dir, "--json",
                                *options], stdout=subprocess.PIPE, stderr=errors, text=True)
        database = os.path.join(run_dir, "run.db")
        killed = []
        while run.poll() is None and len(killed) < 2:
            processes = executor_processes(model)
            fresh = [pid for pid in processes if pid not in killed]
            if len(processes) == 2 and fresh and episodes_in(database) > 2 * len(killed):
                os.kill(fresh[0] if not killed else fresh[-1], signal.SIGKILL)
                killed.append(fresh[0] if not killed else fresh[-1])
            time.sleep(0.05)
        out, _ = run.communicate(timeout=600)
        errors.seek(0)
        assert run.returncode == 0, errors.read()
    summary = json.loads(out)
    assert len(killed) == 2, killed
    assert (summary["lost"], summary["duplicated"], summary["episodes"]) == (0, 0, 30), summary
    assert executor_processes(model) == [], "a process is left"
    logs = [os.path.join(run_dir, "log", name) for name in os.listdir(os.path.join(run_dir, "log"))]
    deaths = sum(read(log).count("crashed: signal 9") for log in logs)
    assert deaths == 2, f"{deaths} processes were replaced"
    print(f"run: {summary['episodes']} episodes, {summary['measurements']} measurements, {len(killed)} executors killed, "
          f"lost {summary['lost']}, duplicated {summary['duplicated']}, {summary['wall_s']:.1f} s")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def episodes_in(database):
    import sqlite3
    if not os.path.exists(database):
        return 0
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM episodes").fetchone()[0]
    except sqlite3.Error:
        return 0


if __name__ == "__main__":
    if sys.argv[3:4] == ["--killed-run"]:
        killed_run(*sys.argv[4:])
        sys.exit(0)
    if reason := why_skipped():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
