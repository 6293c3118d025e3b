#!/usr/bin/env bash
# Library: Mt-KaHyPar 1.7 (PyPI: mtkahypar 1.7.post1).
# Guess: with one thread and the seed set before every call, equal calls give equal partitions.
# Behaviour: only the first call of a process is repeatable. Later calls of the same process differ, though the seed is
#   set each time; the preset DETERMINISTIC does not.
# Output seen: a grid of 30 x 30 in four parts, four calls: cuts such as 70, 68, 60, 68 (DEFAULT), 64, 60, 60, 62
#   (QUALITY), and one and the same partition four times (DETERMINISTIC).
# Source: found by running; the preset DETERMINISTIC is described in https://github.com/kahypar/mt-kahypar.
# Consequence: a placer that calls it more than once in a process is reproducible with DETERMINISTIC only, or with a
#   process for each call. emplace gives Scotch a context and a seed of its own for every call.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" mtkahypar==1.7.post1
python - <<'PYTHON'
import random

import mtkahypar
from finding import seen

SIDE = 30
vertices = SIDE * SIDE
edges = [(i, i + 1) for i in range(vertices) if (i + 1) % SIDE] + [(i, i + SIDE) for i in range(vertices - SIDE)]
numbers = random.Random(0)
weights = [numbers.randint(1, 5) for _ in range(vertices)]
library = mtkahypar.initialize(1)


def partition(preset):
    mtkahypar.set_seed(42)
    context = library.context_from_preset(preset)
    context.set_partitioning_parameters(4, 0.03, mtkahypar.Objective.CUT)
    context.logging = False
    graph = library.create_graph(context, vertices, len(edges), edges, weights, [1] * len(edges))
    found = graph.partition(context)
    return found.cut(), tuple(found.block_id(vertex) for vertex in range(vertices))


for preset, equal in ((mtkahypar.PresetType.DEFAULT, False), (mtkahypar.PresetType.QUALITY, False), (mtkahypar.PresetType.DETERMINISTIC, True)):
    found = [partition(preset) for _ in range(4)]
    print(f"{preset.name}: cuts {[cut for cut, _ in found]}")
    seen("all four partitions are equal", len({parts for _, parts in found}) == 1, equal)
PYTHON
