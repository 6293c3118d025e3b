#!/usr/bin/env python3
"""Goal: scripts/check_layers.py finds every kind of broken floor, and says where.
Method: small made-up trees in a temporary folder, each with one fault, checked by the real script and the real table."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOUND = {
    "base/result.h": "#pragma once\n#include <string>\n",
    "graph/op_graph.h": '#pragma once\n#include "base/result.h"\n',
    "executor/simulator.h": '#pragma once\n#include "graph/op_graph.h"\n',
    "policy/placer.h": '#pragma once\n#include "graph/op_graph.h"\n',
    "messages/codec.h": '#pragma once\n#include "base/result.h"\n',
    "messages/placed.h": '#pragma once\n#include "graph/op_graph.h"\n',
    "runtime/actor.h": '#pragma once\n#include "messages/codec.h"\n',
    "launcher/main.cc": '#include "policy/placer.h"\n#include "executor/simulator.h"\nint main() {}\n',
}


class CheckLayers(unittest.TestCase):
    def check(self, changes):
        """Exit status and errors for the sound tree with some files changed."""
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            for name, text in {**SOUND, **changes}.items():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text(text)
            (tree / "scripts").mkdir()
            shutil.copy(ROOT / "scripts" / "layers.txt", tree / "scripts" / "layers.txt")
            script = [sys.executable, str(ROOT / "scripts" / "check_layers.py"), str(tree)]
            done = subprocess.run(script, capture_output=True, text=True)
            return done.returncode, done.stderr

    def refuses(self, changes, *words):
        status, errors = self.check(changes)
        self.assertEqual(status, 1, errors)
        for word in words:
            self.assertIn(word, errors)

    def test_a_sound_tree_passes(self):
        self.assertEqual(self.check({}), (0, ""))

    def test_a_lower_floor_that_includes_an_upper_one(self):
        self.refuses({"graph/order.cc": '#include "base/result.h"\n#include "executor/simulator.h"\n'},
                     "graph/order.cc:2:", 'graph may not include "executor/simulator.h"')

    def test_a_wing_that_includes_another(self):
        self.refuses({"executor/cheat.cc": '#include "policy/placer.h"\n'}, "executor/cheat.cc:1:", "executor may not include")

    def test_a_header_of_a_folder_of_which_only_others_are_permitted(self):
        self.refuses({"runtime/loop.cc": '#include "messages/placed.h"\n'}, 'runtime may not include "messages/placed.h"')

    def test_headers_in_a_circle(self):
        self.refuses({"graph/a.h": '#include "graph/b.h"\n', "graph/b.h": '#include "graph/c.h"\n', "graph/c.h": '#include "graph/a.h"\n'},
                     "circle: graph/a.h -> graph/b.h -> graph/c.h -> graph/a.h")

    def test_a_header_that_is_not_there_or_not_named_from_the_root(self):
        self.refuses({"graph/order.cc": '#include "op_graph.h"\n'}, 'includes "op_graph.h", which is not there')

    def test_a_folder_that_the_table_does_not_know(self):
        self.refuses({"utils/all.h": '#include "base/result.h"\n'}, "folder utils has no line")

    def test_an_empty_tree_is_not_taken_for_a_sound_one(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / "scripts").mkdir()
            (tree / "scripts" / "layers.txt").write_text("base:\n")
            done = subprocess.run([sys.executable, str(ROOT / "scripts" / "check_layers.py"), str(tree)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("no source file found", done.stderr)


if __name__ == "__main__":
    unittest.main()
