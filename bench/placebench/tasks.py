"""The tasks of placebench: what tasks.toml lists, made ready as files that any placer can read."""
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]

import certificate_graph  # noqa: E402
from tables import Failed, run_program  # noqa: E402

SOURCES = ("file", "generate", "workload", "doppler")
OBJECTIVES = ("step-time", "throughput", "latency", "max-load")
KEYS = {"name", "group", "graph", "machine", "memory", "objective", "dispatch", "by_bytes"}
UNITS = {"ns": 1e-9, "ps": 1e-12}  # Units of a certificate's times.


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def read_tasks(path, only=""):
    """The tasks of a file whose names match the regular expression `only`. Raises Failed."""
    try:
        table = tomllib.loads(pathlib.Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Failed("%s: %s" % (path, getattr(error, "strerror", None) or error)) from error
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise Failed("--tasks '%s': is no regular expression: %s" % (only, error)) from error
    tasks = [Task(path, task, table.get("machine", {})) for task in table.get("task", [])]
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise Failed("%s: two tasks are called '%s'; rename one" % (path, name))
    chosen = [task for task in tasks if pattern.search(task.name)]
    if not chosen:
        raise Failed("--tasks '%s': matches no task of %s" % (only, path))
    return chosen


class Task:
    """A line of the table, before its graph exists."""

    def __init__(self, path, values, machines):
        self.name = values.get("name", "")
        where = "%s: task '%s'" % (path, self.name)
        unknown = sorted(values.keys() - KEYS)
        if unknown:
            raise Failed("%s: '%s' is no key; keys: %s" % (where, unknown[0], ", ".join(sorted(KEYS))))
        if not re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*", self.name) or not values.get("group"):
            raise Failed("%s: needs a name of letters, digits, '.', '-' and '/', and a group" % where)
        self.group, self.objective = values["group"], values.get("objective", "step-time")
        self.dispatch, self.memory = values.get("dispatch", "program"), values.get("memory")
        self.by_bytes = values.get("by_bytes", False)
        graph = values.get("graph")
        if not isinstance(graph, dict) or len(graph) != 1 or next(iter(graph)) not in SOURCES:
            raise Failed("%s: graph needs one of: %s" % (where, ", ".join("graph." + source for source in SOURCES)))
        (self.source, self.graph), = graph.items()
        if self.objective not in OBJECTIVES:
            raise Failed("%s: objective '%s' is unknown; one of: %s" % (where, self.objective, ", ".join(OBJECTIVES)))
        name = values.get("machine")
        if name is not None and name not in machines:
            raise Failed("%s: machine '%s' is unknown; add [machine.%s]" % (where, name, name))
        self.machine = machines[name] if name else None

    def devices(self):
        """What --devices gets: the text of a device file, or of a machine of the catalogue; None: the graph's machine."""
        if self.machine is None:
            return None
        return self.machine.get("text") or device_file(self.machine, self.memory)

    def is_split(self):
        """True for dnn-partitioning's workloads, which a second referee judges too."""
        return self.machine is None


def device_file(machine, memory):
    """The text of a device file: every device alike linked, GPUs with `memory`."""
    lines = ['copy_engines = "%s"' % machine["copy_engines"]] if "copy_engines" in machine else []
    for kind in ("cpu", "gpu"):
        for number, profile in enumerate(machine.get(kind + "s", [])):
            lines += ["[[device]]", 'name = "%s:%d"' % (kind, number), 'profile = "%s"' % profile]
            if kind == "gpu" and (memory or machine.get("memory")):
                lines.append('memory = "%s"' % (memory or machine["memory"]))
    lines += ["[[link]]", 'between = ["*", "*"]']
    lines += ['%s = "%s"' % (to, machine[key]) for key, to in (("link", "profile"), ("bandwidth", "bandwidth"),
                                                               ("latency", "latency")) if key in machine]
    return "\n".join(lines) + "\n"


class Ready:
    """A task with its files in a folder: graph.json (emplace-graph v1), machine.toml, task.json.

      graph      path of graph.json
      machine    path of machine.toml, text of the catalogue, or None
      costs      words that choose the costs of a text: version 1, as a device file's, which stored results have
      source     path of the file the graph was made from
      sha        graph_sha256
      setup      digest of graph, machine and objective: results of another setup are about another task
      ops        names, in the order of the graph
      devices    names
      bound_s    proven lower bound, and `bound`, its name
    """

    def __init__(self, task, folder, source, values):
        self.task, self.folder, self.source = task, folder, source
        self.graph = folder / "graph.json"
        self.machine = str(folder / "machine.toml") if (folder / "machine.toml").exists() else \
            task.devices()
        self.__dict__.update(values)

    def words(self):
        """The graph, the machine and the objective as words of a command."""
        machine = [] if self.machine is None else ["--devices", self.machine, *self.costs]
        rules = ["--rules", str(self.folder / "rules.toml")] if self.task.by_bytes else []
        return [str(self.graph), *machine, *rules, "--objective", self.task.objective, "--dispatch", self.task.dispatch]


class Workshop:
    """Makes tasks ready, each once. Thread: any."""

    def __init__(self, program, folder, version, workloads=None, doppler=None):
        self.program, self.folder, self.version = program, pathlib.Path(folder), version
        self.folders = {"file": ROOT, "workload": workloads, "doppler": doppler}
        self.options = {"workload": "--workloads", "doppler": "--doppler"}
        self.ready, self.lock = {}, threading.Lock()

    @functools.cached_property
    def first_costs(self):
        """The words that choose cost version 1; none for a program that has no other."""
        done = subprocess.run([self.program, "bound", "--help"], capture_output=True, text=True)
        return ["--cost-version", "1"] if "--cost-version" in done.stdout else []

    def missing(self, task):
        """The option without which a task cannot run; None if it can."""
        return self.options.get(task.source) if not self.folders.get(task.source, True) else None

    def make(self, task):
        """The Ready of a task. Raises Failed."""
        with self.lock:
            if task.name not in self.ready:
                self.ready[task.name] = self.made(task)
            return self.ready[task.name]

    def made(self, task):
        folder = self.folder / task.name
        folder.mkdir(parents=True, exist_ok=True)
        if task.source == "generate":
            source = self.folder / "graphs" / (digest([task.graph, self.version]) + ".json.gz")
            if not source.exists():
                source.parent.mkdir(exist_ok=True)
                # It has a temporary name until it is complete.
                part = source.with_name("part-" + source.name)
                run_program(self.program, ["generate", *shlex.split(task.graph), "-o", str(part)])
                part.replace(source)
        else:
            source = pathlib.Path(self.folders[task.source]) / task.graph
            if not source.is_file():
                raise Failed("%s: %s: is no file" % (task.name, source))
        key = digest([self.version, task.devices(), task.objective, task.dispatch,
                      hashlib.sha256(source.read_bytes()).hexdigest()])
        ready = folder / "ready.json"
        values = json.loads(ready.read_text()) if ready.exists() else {}
        if values.get("key") != key:
            ready.unlink(missing_ok=True)
            values = {"key": key, **self.written(task, folder, source)}
            ready.write_text(json.dumps(values))
        return Ready(task, folder, source, values)

    def written(self, task, folder, source):
        """Writes a task's files; returns what Ready keeps."""
        graph, certificate = folder / "graph.json", folder / "certificate.json"
        run_program(self.program, ["import", str(source), "-o", str(graph)])
        words = [str(graph), "--objective", task.objective, "--dispatch", task.dispatch]
        machine, costs = task.devices(), []
        if machine:
            if "\n" in machine:
                (folder / "machine.toml").write_text(machine)
                machine = str(folder / "machine.toml")
            else:
                costs = self.first_costs
            words += ["--devices", machine, *costs]
        if task.by_bytes:
            (folder / "rules.toml").write_text("[[rule]]\nmatch = { name = '.' }\nallow = [\"*\"]\n")
            words += ["--rules", str(folder / "rules.toml")]
        bound = run_program(self.program, ["bound", *words, "--certificate", str(certificate)])
        sha = run_program(self.program, ["inspect", str(graph)])["graph_sha256"]
        document, proof = json.loads(graph.read_text()), json.loads(certificate.read_text())
        described = describe(document, proof)
        (folder / "task.json").write_text(json.dumps({
            "format": "placebench-task", "version": 1, "task": task.name, "objective": task.objective,
            "dispatch": task.dispatch, "graph": str(graph), "machine": machine, **described}))
        certificate.unlink()
        return {"sha": sha, "costs": costs, "setup": digest([sha, task.devices(), task.objective, task.dispatch]),
                "ops": [op["name"] for op in described["ops"]], "devices": [d["name"] for d in described["devices"]],
                "bound_s": bound["lower_bound_s"], "bound": bound["bound"]}


def describe(graph, proof):
    """Devices, links and ops in seconds and bytes, from a graph and the costs in the certificate of its bound."""
    ops, machine, of = graph["ops"], proof["machine"], proof["ops"]
    kernel, owned, reads = certificate_graph.lower(ops)
    state, unit = certificate_graph.state_bytes(ops, kernel, owned), UNITS[proof["unit"]]
    rows = [device["row"] for device in machine["devices"]]
    return {
        "devices": [{key: device[key] for key in ("name", "kind", "memory_bytes")} for device in machine["devices"]],
        "latency_s": machine["latency_s"], "bytes_per_s": machine["bytes_per_s"],
        "ops": [{
            "name": op["name"], "type": op["type"], "phase": op.get("phase", "forward"), "class": of["class"][i],
            "devices": proof["choices"][proof["classes"][of["class"][i]]],
            "time_s": [of["times"][row][i] * unit for row in rows], "state_bytes": state[i],
            "output_bytes": sum(size for _, size, whole in owned[i] if whole and op["type"] not in certificate_graph.STATE),
            # The tensors that it reads: their maker, and their bytes. A view is the tensor that it is a view of.
            "reads": [[maker, size if size < certificate_graph.NEVER else
                       certificate_graph.tensor_bytes(ops[maker]["outputs"][k])] for maker, k, size, *_ in reads[i]],
            # Where the graph states how long its result takes over the host.
            **({"transfer_s": op["attrs"]["transfer_us"] * 1e-6} if "transfer_us" in op.get("attrs", {}) else {}),
        } for i, op in enumerate(ops)]}


def work_folder(words):
    return pathlib.Path(words or ROOT / "build" / "placebench")
