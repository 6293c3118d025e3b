#!/usr/bin/env python3
"""Lower floors never include upper ones: every #include "…" of ours against the table of scripts/layers.txt.

    usage: scripts/check_layers.py [TREE]      (default: the repository that this script lies in)

Fails, naming file and line, on: an edge that the table does not permit; a header of ours that is not there, or not named
from the root; headers that include one another in a circle.
"""

import re
import sys

import source_tree

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_table(path):
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, colon, allowed = line.partition(":")
        if not colon:
            raise SystemExit(f"error: {path}:{number}: no colon; write FOLDER: FOLDERS…")
        table[folder.strip()] = allowed.split()
    return table


def permitted(table, folder, header):
    allowed = table[folder]
    return header.split("/")[0] == folder or "*" in allowed or header.split("/")[0] in allowed or header in allowed


def check_includes(tree, table, files):
    graph = {}
    for file in files:
        name = file.relative_to(tree).as_posix()
        folder = name.split("/")[0]
        graph[name] = []
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(1)
            if not (tree / header).is_file():
                yield f'{name}:{number}: includes "{header}", which is not there; name it from the root, and outside headers with <>'
            elif folder not in table:
                yield f"{name}:{number}: folder {folder} has no line in scripts/layers.txt"
            elif not permitted(table, folder, header):
                yield f'{name}:{number}: {folder} may not include "{header}"; scripts/layers.txt permits: {" ".join(table[folder]) or "nothing"}'
            else:
                graph[name].append(header)
    yield from circles(graph)


def circles(graph):
    """Depth first; a header met again on the way down closes a circle."""
    done = set()
    for start in sorted(graph):
        way, branches = [], [iter([start])]
        while branches:
            step = next(branches[-1], None)
            if step is None:
                branches.pop()
                if way:
                    done.add(way.pop())
            elif step in way:
                yield f"{step}: is included in a circle: {' -> '.join(way[way.index(step):] + [step])}"
            elif step not in done:
                way.append(step)
                branches.append(iter(graph.get(step, [])))


def main():
    tree = source_tree.tree_asked_for()
    table = read_table(tree / "scripts" / "layers.txt")
    # Only folders of code: not papers or whatever else lies beside them.
    files = source_tree.sources_in(path for path in source_tree.folders_of(tree) if path.name in table or any(path.glob("*.h")))
    return source_tree.verdict(tree, files, check_includes(tree, table, files), "every include permitted")


if __name__ == "__main__":
    sys.exit(main())
