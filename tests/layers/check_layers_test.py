#!/usr/bin/env python3
"""Goal: scripts/check_layers.py reports every kind of forbidden include, with file and line.
Method: small made-up trees in a temporary folder, each with one fault, checked by the real script and the real table."""

import unittest

from made_up_tree import ROOT, CheckerTest

TABLE = (ROOT / "scripts" / "layers.txt").read_text()
SOUND = {
    "scripts/layers.txt": TABLE,
    "base/result.h": "#pragma once\n#include <string>\n",
    "graph/op_graph.h": '#pragma once\n#include "base/result.h"\n',
    "executor/sim/simulator.h": '#pragma once\n#include "graph/op_graph.h"\n',
    "policy/placer.h": '#pragma once\n#include "graph/op_graph.h"\n',
    "messages/codec.h": '#pragma once\n#include "base/result.h"\n',
    "messages/placed.h": '#pragma once\n#include "graph/op_graph.h"\n',
    "runtime/actor.h": '#pragma once\n#include "messages/codec.h"\n',
    "executor/cpu/kernel.h": '#pragma once\n#include "executor/sim/simulator.h"\n',
    "launcher/main.cc": '#include "policy/placer.h"\n#include "executor/sim/simulator.h"\nint main() {}\n',
}


class CheckLayers(CheckerTest):
    SCRIPT = "check_layers.py"
    SOUND = SOUND

    def test_a_valid_tree_passes(self):
        self.assertEqual(self.check({}), (0, ""))

    def test_refuses_a_lower_layer_that_includes_an_upper_one(self):
        self.refuses({"graph/order.cc": '#include "base/result.h"\n#include "executor/sim/simulator.h"\n'},
                     "graph/order.cc:2:", 'graph may not include "executor/sim/simulator.h"')

    def test_refuses_a_layer_that_includes_its_neighbour(self):
        self.refuses({"executor/cheat.cc": '#include "policy/placer.h"\n'}, "executor/cheat.cc:1:", "executor may not include")

    def test_refuses_a_room_that_includes_one_above_it_in_its_layer(self):
        self.refuses({"executor/cheat.cc": '#include "executor/cpu/kernel.h"\n'}, "executor/cheat.cc:1:",
                     'executor may not include "executor/cpu/kernel.h"')

    def test_a_layer_stands_for_its_rooms_only_in_other_layers(self):
        table = "base:\nexecutor: base\nexecutor/cpu: executor\nexecutor/cuda: executor\nheuristics: executor base\nlauncher: *\n"
        gpu = {"scripts/layers.txt": table, "executor/sim/simulator.h": "#pragma once\n", "executor/cuda/lane.h": '#pragma once\n#include "executor/cpu/kernel.h"\n',
               "executor/cpu/kernel.h": '#pragma once\n#include "executor/sim/simulator.h"\n'}
        status, errors = self.run_on(gpu)
        self.assertEqual(status, 1)
        self.assertIn('executor/cuda may not include "executor/cpu/kernel.h"', errors)
        gpu["executor/cuda/lane.h"] = "#pragma once\n"
        gpu["heuristics/method.h"] = '#pragma once\n#include "executor/cpu/kernel.h"\n'
        self.assertEqual(self.run_on(gpu), (0, ""))

    def test_refuses_a_table_that_permits_a_room_declared_later(self):
        self.refuses({"scripts/layers.txt": TABLE.replace("graph:             base", "graph:             base heuristics")},
                     "graph permits heuristics, which is not declared above it")

    def test_refuses_other_headers_than_those_permitted(self):
        self.refuses({"runtime/loop.cc": '#include "messages/placed.h"\n'}, 'runtime may not include "messages/placed.h"')

    def test_refuses_include_cycles(self):
        self.refuses({"graph/a.h": '#include "graph/b.h"\n', "graph/b.h": '#include "graph/c.h"\n', "graph/c.h": '#include "graph/a.h"\n'},
                     "circle: graph/a.h -> graph/b.h -> graph/c.h -> graph/a.h")

    def test_refuses_headers_that_are_missing_or_not_named_from_the_root(self):
        self.refuses({"graph/order.cc": '#include "op_graph.h"\n'}, 'includes "op_graph.h", which is not there')

    def test_refuses_a_folder_that_the_table_lacks(self):
        self.refuses({"utils/all.h": '#include "base/result.h"\n'}, "folder utils has no line")

    def test_refuses_an_empty_tree(self):
        status, errors = self.run_on({"scripts/layers.txt": "base:\n"})
        self.assertEqual(status, 1)
        self.assertIn("no source file found", errors)


if __name__ == "__main__":
    unittest.main()
