"""The methods of placebench: the program's heuristics, searches and learned placers, and other placers as programs."""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

from papers import to_toml
from tasks import Failed

HERE = pathlib.Path(__file__).resolve().parent
HEURISTICS = ["random", "round-robin", "single-cpu", "single-gpu", "expert", "contiguous", "scotch", "mincut", "metis",
              "m-topo", "m-etf", "m-sct", "heft"]
SEARCHES = ["local-search", "anneal", "auto"]
PAPERS = ["colocrl", "hierarchical", "spotlight", "placeto"]
EXAMPLE = {"critical-path": [sys.executable, str(HERE / "adapters" / "critical_path.py")]}
BUDGET = re.compile(r"(\d+(?:\.\d+)?)s$")
HEURISTIC_LIMIT_S = 60
PATIENCE = 2  # A method is stopped after this many budgets, and the grace of the command line.


class Stopped(Exception):
    """A method that gave no placement; the message contains the reason."""


class Processes:
    """Runs commands on a number of cores with a limit of time, and ends what they leave. Thread: any."""

    def __init__(self):
        self.running, self.over, self.lock = set(), False, threading.Lock()

    def run(self, command, limit_s, cores, folder):
        """(exit status, last line of its errors, wall time [s], processor time [s]). Raises Stopped at the limit."""
        errors = pathlib.Path(folder) / "errors.txt"
        start = time.monotonic()
        with open(errors, "wb") as stream:
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
                                           cwd=folder, start_new_session=True)
            except OSError as error:
                raise Stopped("cannot start %s: %s" % (command[0], error.strerror)) from None
        if cores:
            try:
                os.sched_setaffinity(process.pid, cores)
            except ProcessLookupError:
                pass
        with self.lock:
            self.running.add(process.pid)
            if self.over:
                end_group(process.pid)
        late = threading.Event()
        timer = threading.Timer(limit_s, lambda: (late.set(), end_group(process.pid)))
        timer.start()
        # The process stays a zombie until wait4, so that its group's number is not given to another.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall_s = time.monotonic() - start
        timer.cancel()
        timer.join()
        with self.lock:
            self.running.discard(process.pid)
            end_group(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if late.is_set():
            raise Stopped("stopped after %g s" % limit_s)
        lines = last_bytes(errors).strip().splitlines() or [""]
        return process.returncode, lines[-1].removeprefix("error: ")[:200], wall_s, usage.ru_utime + usage.ru_stime

    def end_all(self):
        """Ends what runs, and what is started later."""
        with self.lock:
            self.over = True
            for pid in self.running:
                end_group(pid)


def last_bytes(path):
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        return file.read().decode(errors="replace")


def end_group(pid):
    """Ends a process that was started as the head of a group, and what it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Method:
    """A way to a placement. `name` is the method with its budget: auto@5s."""

    def __init__(self, kind, budget_s):
        self.kind, self.budget_s = kind, budget_s
        self.name = kind if budget_s is None else "%s@%gs" % (kind, budget_s)

    def limit_s(self, grace_s):
        return HEURISTIC_LIMIT_S if self.budget_s is None else PATIENCE * self.budget_s + grace_s

    def place(self, ready, folder, seed, threads, start):
        """The path of a placement file in `folder`, with wall and processor time. `start` runs a command in `folder`:
        Processes.run with its limit and cores. Raises Stopped."""
        command, placement = self.command(ready, pathlib.Path(folder), seed, threads)
        status, error, wall_s, core_s = start(command, folder)
        if status == 3:
            raise Stopped("found no placement that fits")
        if status:
            raise Stopped("ended by signal %d" % -status if status < 0 else "exit status %d: %s" % (status, error or "no message"))
        return placement, {"wall_s": round(wall_s, 3), "core_s": round(core_s, 3)}


class Placed(Method):
    """`emplace place` with a heuristic or a search."""

    def __init__(self, program, kind, budget_s):
        super().__init__(kind, budget_s)
        self.program = program

    def command(self, ready, folder, seed, threads):
        placement = folder / "placement.json"
        budget = [] if self.budget_s is None else ["--budget", "%gs" % self.budget_s, "--threads", str(threads)]
        return [self.program, "place", *ready.words(), "--method", self.kind, *budget, "--seed", str(seed), "--quiet",
                "--output", str(placement)], placement


class Learned(Method):
    """`emplace run` with a paper's method, from random parameters, with the tuned preset."""

    def __init__(self, program, kind, budget_s):
        super().__init__(kind, budget_s)
        self.program = program

    def command(self, ready, folder, seed, threads):
        values = {"run": {"budget": "%gs" % self.budget_s, "starts": ["scratch"]}, "input": {"graph": str(ready.graph)},
                  "objective": {"kind": ready.task.objective}, "executor": {"dispatch": ready.task.dispatch},
                  "policy": {"method": self.kind, "preset": "tuned", "threads": threads}, "compare": {"methods": []}}
        if ready.machine is not None:
            values["input"]["devices"] = ready.machine
        if ready.costs:
            values["input"]["costs"] = int(ready.costs[-1])
        config = folder / "config.toml"
        config.write_text(to_toml(values))
        return [self.program, "run", str(config), "--run-dir", str(folder / "run"), "--seed", str(seed), "--quiet"], \
            folder / "run" / "best.placement.json"


class Adapter(Method):
    """Another placer: a program that gets the path of task.json and writes the placement that task.json names."""

    def __init__(self, kind, words, budget_s):
        super().__init__(kind, budget_s)
        self.words = words

    def command(self, ready, folder, seed, threads):
        placement, task = folder / "placement.json", json.loads((ready.folder / "task.json").read_text())
        task.update(budget_s=self.budget_s, threads=threads, seed=seed, placement=str(placement))
        path = folder / "task.json"
        path.write_text(json.dumps(task))
        return [*self.words, str(path)], placement


def parse_adapter(text):
    """(name, words) of NAME=COMMAND. Paths in it are from here. Raises Failed."""
    name, equals, command = text.partition("=")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Failed("--adapter '%s': %s" % (text, error)) from None
    if not equals or not re.fullmatch(r"[\w.+-]+", name) or not words:
        raise Failed("--adapter '%s': needs NAME=COMMAND, and a name of letters, digits, '.' and '-'" % text)
    if name in HEURISTICS + SEARCHES + PAPERS:
        raise Failed("--adapter '%s': '%s' is a method of the program; choose another name" % (text, name))
    return name, [os.path.abspath(word) if os.path.exists(word) else word for word in words]


def parse_methods(text, budget, program, adapters):
    """The methods of a list such as "heft,auto@1s,auto@5s". Raises Failed."""
    default, methods = seconds(budget, "--budget"), []
    for word in filter(None, text.split(",")):
        kind, at, own = word.partition("@")
        budget_s = seconds(own, "--methods '%s'" % word) if at else default
        if kind in HEURISTICS:
            if at:
                raise Failed("--methods '%s': a heuristic has no budget" % word)
            methods.append(Placed(program, kind, None))
        elif kind in SEARCHES:
            methods.append(Placed(program, kind, budget_s))
        elif kind in PAPERS:
            methods.append(Learned(program, kind, budget_s))
        elif kind in adapters:
            methods.append(Adapter(kind, adapters[kind], budget_s))
        else:
            raise Failed("--methods '%s': is unknown; methods: %s" % (
                word, ", ".join(HEURISTICS + SEARCHES + PAPERS + list(adapters))))
    return methods


def seconds(text, where):
    match = BUDGET.fullmatch(text)
    if not match or not 0 < float(match.group(1)) <= 86400:
        raise Failed("%s: '%s' is no budget; write 5s" % (where, text))
    return float(match.group(1))
