"""The best known value of each task, with the placement that proves it.

references.jsonl has a line per task: value and bound [s], the method or person that found it, the program that judged
it, and the placement: a byte per op in the order of the graph, its number among the devices, compressed and in base 64.
"""
import base64
import json
import pathlib
import zlib

from tasks import Failed

BETTER = 1e-9  # Relative; less is rounding.


class References:
    def __init__(self, path):
        self.path, self.of = pathlib.Path(path), {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                known = json.loads(line)
                self.of[known["task"]] = known

    def known(self, ready):
        """The line of a task; None if there is none for its graph, machine and objective."""
        known = self.of.get(ready.task.name)
        return known if known and known["setup"] == ready.setup else None

    def offer(self, ready, placed, value_s, by, program):
        """Keeps a judged placement if none as good is known. Returns True if it is kept."""
        known = self.known(ready)
        if known and value_s >= known["value_s"] * (1 - BETTER):
            return False
        letters = bytes(ready.devices.index(placed[name]) for name in ready.ops)
        self.of[ready.task.name] = {
            "task": ready.task.name, "setup": ready.setup, "value_s": value_s, "by": by, "bound_s": ready.bound_s,
            "bound": ready.bound, "ops": len(ready.ops), "devices": len(ready.devices), "program": program,
            "placement": base64.b64encode(zlib.compress(letters, 9)).decode()}
        self.write()
        return True

    def placement(self, ready):
        """The device of every op in the best known placement. Raises Failed."""
        known = self.known(ready)
        if not known:
            raise Failed("%s: has no best known placement" % ready.task.name)
        letters = zlib.decompress(base64.b64decode(known["placement"]))
        return {name: ready.devices[letter] for name, letter in zip(ready.ops, letters, strict=True)}

    def write(self):
        part = self.path.with_name(self.path.name + ".part")
        part.write_text("".join(json.dumps(self.of[name]) + "\n" for name in sorted(self.of)))
        part.replace(self.path)
