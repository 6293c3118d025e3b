#!/usr/bin/env python3
"""Checks that lower layers never include upper ones: every #include "…", and every import between files of python/, against the
table in scripts/layers.txt.

    usage: scripts/check_layers.py [TREE]      (default: the repository of this script)

A module has a line in the table: a layer (`executor`), a folder of a layer (`executor/cpu`), or a single file
(`python/emplace/errors.py`). A file belongs to its own line, or to the deepest folder that contains it.

Reports, with file and line: an include or import that the table does not permit; a header of this project that does not
exist or is not named from the root; a Python module that does not exist; circular includes and imports. Imports in functions
and under TYPE_CHECKING count like all others (scripts/python_imports.py). Also reports a module that permits one declared
after it.
"""

import re
import sys

import source_tree
from python_imports import imports_of

LABORATORY = "lab"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_table(path):
    """Returns module -> modules that it may include, in the order of the file."""
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        if line[0].isspace() and table:
            table[module] += line.split()
            continue
        module, colon, allowed = line.partition(":")
        if not colon:
            raise SystemExit(f"error: {path}:{number}: no colon; write MODULE: MODULES…")
        table[module] = allowed.split()
    return table


def check_order(table):
    """Checks that modules are declared lowest first, so that the table has no cycle."""
    declared = set()
    for module, allowed in table.items():
        for name in allowed:
            if name != "*" and module_of(table, name) not in declared:
                yield f"scripts/layers.txt: {module} permits {name}, which is not declared above it"
        declared.add(module)


def module_of(table, file):
    """Returns the deepest module that is or contains the file; None if the table has none."""
    parts = file.split("/")
    for depth in range(len(parts), 0, -1):
        module = "/".join(parts[:depth])
        if module in table:
            return module
    return None


def permitted(table, module, header):
    """A layer's name permits all of its modules to other layers, but only the files at its root within the layer.
    `*` permits every layer but the laboratory."""
    allowed = table[module]
    target = module_of(table, header)
    layer = header.split("/")[0]
    if target == module or ("*" in allowed and layer != LABORATORY) or header in allowed or target in allowed:
        return True
    return layer != module.split("/")[0] and layer in allowed


def includes_of(tree, file):
    """Yields (line, header, header or None if it does not exist)."""
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            header = match.group(1)
            yield number, header, header if (tree / header).is_file() else None


def check_uses(tree, table, files):
    """Checks includes and imports. `graph` is file -> file that it uses -> line."""
    graph = {}
    for file in files:
        name = file.relative_to(tree).as_posix()
        module = module_of(table, name)
        uses = graph[name] = {}
        python = file.suffix == ".py"
        for number, used, target in (imports_of if python else includes_of)(tree, file):
            if target is None and python:
                yield f"{name}:{number}: imports {used}, which is not there"
            elif target is None:
                yield f'{name}:{number}: includes "{used}", which is not there; name it from the root, and external headers with <>'
            elif module is None:
                yield f"{name}:{number}: folder {name.split('/')[0]} has no line in scripts/layers.txt"
            elif not permitted(table, module, target):
                verb = f"import {used}" if python else f'include "{used}"'
                yield f'{name}:{number}: {module} may not {verb}; scripts/layers.txt permits: {" ".join(table[module]) or "nothing"}'
            else:
                uses.setdefault(target, number)
    yield from circles(graph)


def circles(graph):
    """Finds circular includes and imports by depth-first search."""
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
                last = path[-1]
                yield f"{last}:{graph[last][step]}: closes a circle: {' -> '.join(path[path.index(step):] + [step])}"
            elif step not in done:
                path.append(step)
                branches.append(iter(graph.get(step, {})))


def main():
    tree = source_tree.tree_asked_for()
    table = read_table(tree / "scripts" / "layers.txt")
    # Only folders with code.
    files = source_tree.sources_in(path for path in source_tree.folders_of(tree) if path.name in table or any(path.glob("*.h")))
    files += sorted((tree / "python").rglob("*.py"))
    problems = [*check_order(table), *check_uses(tree, table, files)]
    return source_tree.verdict(tree, files, problems, "every include and import is permitted")


if __name__ == "__main__":
    sys.exit(main())
