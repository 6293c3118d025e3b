"""The referee: the value of a placement, whatever its placer claims.

It takes the device of every op from a placement file and nothing else: no measured time, no order. Step times are
those of `emplace evaluate`. A workload of dnn-partitioning is judged by partitioning.py too, which shares no code with
the program, and the two values have to agree. DOPPLER's graphs get a second value by DOPPLER's own cost code.
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


class Referee:
    """Thread: any."""

    def __init__(self, program, doppler=None, doppler_python=sys.executable):
        self.program, self.doppler, self.doppler_python = program, doppler, doppler_python

    def judge(self, ready, placed, folder):
        """{"value_s": …}, and "doppler_s" for DOPPLER's graphs. `folder` is for scratch files. Raises Rejected."""
        path = pathlib.Path(folder) / "judged.json"
        write_placement(path, ready, placed)
        try:
            measured = run_program(self.program, ["evaluate", str(ready.graph), str(path), *ready.words()[1:]], allowed=(0, 3))
        except Failed as failure:
            raise Rejected(str(failure).removeprefix("%s: " % path)) from None
        if not measured or not measured["valid"]:
            raise Rejected("does not fit: %s" % ((measured or {}).get("reason") or "no reason"))
        value = measured["step_time_s"]
        if ready.task.is_split():
            self.compare_splits(ready, placed, value)
        judged = {"value_s": value}
        if ready.task.source == "doppler":
            judged["doppler_s"] = self.by_doppler(ready, path)
        return judged

    @staticmethod
    def compare_splits(ready, placed, value_s):
        # Ops of a workload are called NAME#ID.
        where = {int(re.search(r"#(\d+)$", name).group(1)): device for name, device in placed.items()}
        try:
            other_s = partitioning.value_ms(partitioning.read(ready.source), where, ready.task.objective) * 1e-3
        except partitioning.Illegal as reason:
            raise Rejected("the second referee refuses it: %s" % reason) from None
        if not math.isclose(value_s, other_s, rel_tol=AGREEMENT):
            raise Failed("%s: the referees disagree: %.12g s and %.12g s" % (ready.task.name, value_s, other_s))

    def by_doppler(self, ready, placement):
        """Seconds by DOPPLER's cost code, in a Python that has its packages. Raises Failed."""
        done = subprocess.run([self.doppler_python, str(pathlib.Path(__file__).with_name("doppler_cost.py")),
                               str(self.doppler), str(ready.source), str(placement)], capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Failed(lines[-1].removeprefix("error: "))
        return float(done.stdout)
