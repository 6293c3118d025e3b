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
    "python/emplace/__init__.py": "from emplace.placement import Placement\n\ndef trace():\n    from emplace.tracing import trace as traced\n",
    "python/emplace/errors.py": "import os\n",
    "python/emplace/graph.py": "from emplace.errors import EmplaceError\n",
    "python/emplace/placement.py": "import emplace.graph\nfrom emplace.tracing import tracer\n",
    "python/emplace/tracing/__init__.py": "from emplace.tracing.tracer import trace\n",
    "python/emplace/tracing/step.py": "from torch.fx import Node\n\nfrom emplace.errors import EmplaceError\n",
    "python/emplace/tracing/tracer.py": "from ..graph import Graph\nfrom . import step\n",
    "python/tests/test_placement.py": "import emplace as em\nimport models\nfrom emplace.tracing import trace\n",
}
# Where an import may be: line 3 of a file.
FORMS = {
    "at the top": "import os\n\n{}\n",
    "in a function": "\ndef now():\n    {}\n",
    "for types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {}\n",
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
                     "graph/c.h:1: closes a circle: graph/a.h -> graph/b.h -> graph/c.h -> graph/a.h")

    def test_refuses_headers_that_are_missing_or_not_named_from_the_root(self):
        self.refuses({"graph/order.cc": '#include "op_graph.h"\n'}, 'includes "op_graph.h", which is not there')

    def test_refuses_a_folder_that_the_table_lacks(self):
        self.refuses({"utils/all.h": '#include "base/result.h"\n'}, "folder utils has no line")

    def test_refuses_a_table_that_permits_a_file_of_a_room_declared_later(self):
        self.refuses({"scripts/layers.txt": "lowest: policy/placer.h\n" + TABLE}, "lowest permits policy/placer.h, which is not declared above it")

    def test_an_indented_line_of_the_table_continues_the_one_above(self):
        tree = {"scripts/layers.txt": "base:\ngraph:  # lowest\n    base\n", "base/result.h": "\n", "graph/op_graph.h": '#include "base/result.h"\n'}
        self.assertEqual(self.run_on(tree), (0, ""))

    def test_refuses_a_python_package_that_imports_one_above_it(self):
        for where, form in FORMS.items():
            for line in ["from emplace.placement import Placement", "from emplace import placement", "import os, emplace.placement",
                         "from .. import placement", "from ..placement import Placement"]:
                with self.subTest(f"{line}, {where}"):
                    self.refuses({"python/emplace/tracing/update.py": form.format(line)}, "python/emplace/tracing/update.py:3:",
                                 "python/emplace/tracing may not import emplace.placement; scripts/layers.txt permits:")

    def test_refuses_a_python_package_that_imports_the_root_above_it(self):
        self.refuses({"python/emplace/tracing/update.py": "import emplace\n"}, "python/emplace/tracing/update.py:1:", "may not import emplace;")

    def test_a_file_with_a_line_of_its_own_is_below_the_rest_of_its_folder(self):
        self.refuses({"python/emplace/errors.py": "import emplace.graph\n"}, "python/emplace/errors.py:1:",
                     "python/emplace/errors.py may not import emplace.graph; scripts/layers.txt permits: nothing")

    def test_refuses_circles_of_python_modules(self):
        for where, form in FORMS.items():
            for line in ["from emplace.tracing.update import Update", "from .update import Update", "from emplace.tracing import update"]:
                with self.subTest(f"{line}, {where}"):
                    self.refuses({"python/emplace/tracing/update.py": "import emplace.tracing.writer\n", "python/emplace/tracing/writer.py": form.format(line)},
                                 "python/emplace/tracing/writer.py:3: closes a circle: "
                                 "python/emplace/tracing/update.py -> python/emplace/tracing/writer.py -> python/emplace/tracing/update.py")

    def test_a_name_that_a_package_passes_on_counts_as_its_init(self):
        self.refuses({"python/emplace/tracing/tracer.py": "\nfrom emplace.tracing import trace\n"}, "python/emplace/tracing/__init__.py:1: closes a circle: "
                     "python/emplace/tracing/tracer.py -> python/emplace/tracing/__init__.py -> python/emplace/tracing/tracer.py")

    def test_refuses_a_python_module_that_is_missing(self):
        self.refuses({"python/emplace/placement.py": "\nfrom emplace.graphs import Graph\n"},
                     "python/emplace/placement.py:2: imports emplace.graphs, which is not there")

    def test_refuses_a_python_folder_that_the_table_lacks(self):
        table = TABLE.replace("\npython:  ", "\n# python:")
        self.refuses({"scripts/layers.txt": table}, "python/tests/test_placement.py:1: folder python has no line")

    def test_refuses_an_empty_tree(self):
        status, errors = self.run_on({"scripts/layers.txt": "base:\n"})
        self.assertEqual(status, 1)
        self.assertIn("no source file found", errors)


if __name__ == "__main__":
    unittest.main()
