#!/usr/bin/env python3
"""Checks that lower layers never include upper ones: every #include "…" against the table in scripts/layers.txt.

    usage: scripts/check_layers.py [TREE]      (default: the repository of this script)

A module is a folder that has a line in the table: a layer (`executor`) or a folder of a layer (`executor/cpu`). A file
belongs to the deepest module that contains it.

Reports, with file and line: an include that the table does not permit; a module that permits one declared after it; a
header of this project that does not exist or is not named from the root; circular includes.
"""

import re
import sys

import source_tree

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_table(path):
    """Returns module -> modules that it may include, in the order of the file."""
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        module, colon, allowed = line.partition(":")
        if not colon:
            raise SystemExit(f"error: {path}:{number}: no colon; write MODULE: MODULES…")
        table[module.strip()] = allowed.split()
    return table


def check_order(table):
    """Checks that modules are declared lowest first, so that the table has no cycle."""
    declared = set()
    for module, allowed in table.items():
        for name in allowed:
            if name in table and name not in declared:
                yield f"scripts/layers.txt: {module} permits {name}, which is not declared above it"
        declared.add(module)


def module_of(table, file):
    """Returns the deepest module that contains the file; None if the table has none."""
    folders = file.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        module = "/".join(folders[:depth])
        if module in table:
            return module
    return None


def permitted(table, module, header):
    """A layer's name permits all of its modules to other layers, but only the files at its root within the layer."""
    allowed = table[module]
    target = module_of(table, header)
    if target == module or "*" in allowed or header in allowed or target in allowed:
        return True
    layer = header.split("/")[0]
    return layer != module.split("/")[0] and layer in allowed


def check_includes(tree, table, files):
    graph = {}
    for file in files:
        name = file.relative_to(tree).as_posix()
        module = module_of(table, name)
        graph[name] = []
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(1)
            if not (tree / header).is_file():
                yield f'{name}:{number}: includes "{header}", which is not there; name it from the root, and external headers with <>'
            elif module is None:
                yield f"{name}:{number}: folder {name.split('/')[0]} has no line in scripts/layers.txt"
            elif not permitted(table, module, header):
                yield f'{name}:{number}: {module} may not include "{header}"; scripts/layers.txt permits: {" ".join(table[module]) or "nothing"}'
            else:
                graph[name].append(header)
    yield from circles(graph)


def circles(graph):
    """Finds circular includes by depth-first search."""
    done = set()
    for start in sorted(graph):
        path, branches = [], [iter([start])]
        while branches:
            step = next(branches[-1], None)
            if step is None:
                branches.pop()
                if path:
                    done.add(path.pop())
            elif step in path:
                yield f"{step}: is included in a circle: {' -> '.join(path[path.index(step):] + [step])}"
            elif step not in done:
                path.append(step)
                branches.append(iter(graph.get(step, [])))


def main():
    tree = source_tree.tree_asked_for()
    table = read_table(tree / "scripts" / "layers.txt")
    # Only folders with code.
    files = source_tree.sources_in(path for path in source_tree.folders_of(tree) if path.name in table or any(path.glob("*.h")))
    problems = [*check_order(table), *check_includes(tree, table, files)]
    return source_tree.verdict(tree, files, problems, "every include is permitted")


if __name__ == "__main__":
    sys.exit(main())
