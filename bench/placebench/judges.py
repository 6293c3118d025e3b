"""The referee: the value of a placement, whatever its placer claims.

It takes the device of every op from a placement file and nothing else: no measured time, no order. Step times are
those of `emplace evaluate`. A workload of dnn-partitioning is judged by partitioning.py too, which shares no code with
the program, and the two values have to agree; where the published evaluators have been built, theirs has to agree as
well. DOPPLER's graphs get a second value by DOPPLER's own cost code.
"""
import json
import math
import pathlib
import re
import subprocess
import sys

import partitioning
from tasks import Failed, run_program

AGREEMENT = 1e-9  # Largest relative difference of the two values of a workload.
PUBLISHED_AGREEMENT = 2e-5  # The published evaluators print three decimals, or six digits.
# By objective, dnn-partitioning's program, its option, and the line with the value in ms.
PUBLISHED = {"latency": ("greedy.exe", "-computeLatency", r"the latency of given split is: (\S+)"),
             "max-load": ("dp.exe", "-expert", r"max-load of the split: (\S+)")}
LARGEST = 64 << 20  # Bytes of a placement file.


class Rejected(Exception):
    """A placement that does not count; the message contains the reason."""


def read_placement(path, ready):
    """The device of every op of the task, by name. Raises Rejected."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise Rejected("wrote no placement")
    if path.stat().st_size > LARGEST:
        raise Rejected("its placement has more than %d bytes" % LARGEST)
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise Rejected("its placement is not JSON") from None
    placed = document.get("ops") if isinstance(document, dict) else None
    if not isinstance(placed, dict):
        raise Rejected('its placement has no object "ops"')
    missing = [name for name in ready.ops if name not in placed]
    if missing:
        raise Rejected("no device for %d of %d ops, '%s' first" % (len(missing), len(ready.ops), missing[0]))
    if len(placed) > len(ready.ops):
        known = set(ready.ops)
        raise Rejected("places '%s', which the graph does not have" % next(n for n in placed if n not in known))
    for name in ready.ops:
        if not isinstance(placed[name], str) or placed[name] not in ready.devices:
            raise Rejected("'%s' is on %s; devices: %s" % (name, json.dumps(placed[name])[:60], ", ".join(ready.devices)))
    return placed


def write_placement(path, ready, placed):
    """A placement file of the program; ops in the order of the graph."""
    pathlib.Path(path).write_text(json.dumps({
        "format": "emplace-placement", "version": 1, "graph": ready.task.name, "graph_sha256": ready.sha,
        "devices": ready.devices, "ops": {name: placed[name] for name in ready.ops}}))


def agree(ready, value_s, other_s, difference):
    if not math.isclose(value_s, other_s, rel_tol=difference):
        raise Failed("%s: the referees disagree: %.12g s and %.12g s" % (ready.task.name, value_s, other_s))


class Referee:
    """Thread: any."""

    def __init__(self, program, workloads=None, doppler=None, doppler_python=sys.executable):
        self.program, self.doppler, self.doppler_python = program, doppler, doppler_python
        self.workloads = pathlib.Path(workloads).absolute() if workloads else None

    def judge(self, ready, placed, folder):
        """{"value_s": …}, "published_s" of a workload where its evaluator has been built, and "doppler_s" for DOPPLER's
        graphs. `folder` is for scratch files. Raises Rejected, or Failed where the referees disagree."""
        path = pathlib.Path(folder) / "judged.json"
        write_placement(path, ready, placed)
        try:
            measured = run_program(self.program, ["evaluate", str(ready.graph), str(path), *ready.words()[1:]], allowed=(0, 3))
        except Failed as failure:
            raise Rejected(str(failure).removeprefix("%s: " % path)) from None
        if not measured or not measured["valid"]:
            raise Rejected("does not fit: %s" % ((measured or {}).get("reason") or "no reason"))
        judged = {"value_s": measured["step_time_s"]}
        if ready.task.is_split():
            judged.update(self.judge_split(ready, placed, folder, measured["step_time_s"]))
        if ready.task.source == "doppler":
            judged["doppler_s"] = self.by_doppler(ready, path)
        return judged

    def judge_split(self, ready, placed, folder, value_s):
        """Compares the value of a workload's split with that of partitioning.py, and of the published evaluator."""
        # Ops of a workload are called NAME#ID.
        where = {int(re.search(r"#(\d+)$", name).group(1)): device for name, device in placed.items()}
        workload = partitioning.read(ready.source)
        try:
            other_s = partitioning.value_ms(workload, where, ready.task.objective) * 1e-3
        except partitioning.Illegal as reason:
            raise Rejected("the second referee refuses it: %s" % reason) from None
        agree(ready, value_s, other_s, AGREEMENT)
        tool, option, line = PUBLISHED[ready.task.objective]
        if not self.workloads or not (self.workloads / tool).exists():
            return {}
        split = pathlib.Path(folder) / "split.json"
        devices = {kind: [{"load": 0.0, "nodes": [id for id, device in where.items() if device == name]}
                          for name in ready.devices if name.startswith(kind)] for kind in ("cpu", "accel")}
        split.write_text(json.dumps({"cpus": devices["cpu"], "fpgas": devices["accel"]}))
        done = subprocess.run([self.workloads / tool, option, split], input=json.dumps(workload), capture_output=True, text=True)
        found = re.search(line, done.stdout + done.stderr)
        if not found:
            raise Failed("%s: %s gave no value, exit status %d" % (ready.task.name, self.workloads / tool, done.returncode))
        published_s = float(found.group(1)) * 1e-3
        agree(ready, value_s, published_s, PUBLISHED_AGREEMENT)
        return {"published_s": published_s}

    def by_doppler(self, ready, placement):
        """Seconds by DOPPLER's cost code, in a Python that has its packages. Raises Failed."""
        done = subprocess.run([self.doppler_python, str(pathlib.Path(__file__).with_name("doppler_cost.py")),
                               str(self.doppler), str(ready.source), str(placement)], capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Failed(lines[-1].removeprefix("error: "))
        return float(done.stdout)
