#!/usr/bin/env python3
"""Lower floors never include upper ones: every #include "…" of ours against the table of scripts/layers.txt.

    usage: scripts/check_layers.py [TREE]      (default: the repository that this script lies in)

A room is a folder that has a line in the table: a floor (`executor`) or a folder on a floor (`executor/cpu`). A file
belongs to the deepest room that contains it.

Fails, naming file and line, on: an edge that the table does not permit; a room that permits one declared after it; a
header of ours that is not there, or not named from the root; headers that include one another in a circle.
"""

import re
import sys

import source_tree

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_table(path):
    """Room -> what it may include, in the order of the file."""
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        room, colon, allowed = line.partition(":")
        if not colon:
            raise SystemExit(f"error: {path}:{number}: no colon; write ROOM: ROOMS…")
        table[room.strip()] = allowed.split()
    return table


def check_order(table):
    """Rooms are declared lowest first, so that the table itself cannot hold a circle."""
    declared = set()
    for room, allowed in table.items():
        for name in allowed:
            if name in table and name not in declared:
                yield f"scripts/layers.txt: {room} permits {name}, which is not declared above it"
        declared.add(room)


def room_of(table, file):
    """The deepest room that contains the file; None if the table has none."""
    folders = file.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        room = "/".join(folders[:depth])
        if room in table:
            return room
    return None


def permitted(table, room, header):
    """From another floor, a floor stands for all of its rooms; on the same floor, for the files at its root alone."""
    allowed = table[room]
    target = room_of(table, header)
    if target == room or "*" in allowed or header in allowed or target in allowed:
        return True
    floor = header.split("/")[0]
    return floor != room.split("/")[0] and floor in allowed


def check_includes(tree, table, files):
    graph = {}
    for file in files:
        name = file.relative_to(tree).as_posix()
        room = room_of(table, name)
        graph[name] = []
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(1)
            if not (tree / header).is_file():
                yield f'{name}:{number}: includes "{header}", which is not there; name it from the root, and outside headers with <>'
            elif room is None:
                yield f"{name}:{number}: folder {name.split('/')[0]} has no line in scripts/layers.txt"
            elif not permitted(table, room, header):
                yield f'{name}:{number}: {room} may not include "{header}"; scripts/layers.txt permits: {" ".join(table[room]) or "nothing"}'
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
    problems = [*check_order(table), *check_includes(tree, table, files)]
    return source_tree.verdict(tree, files, problems, "every include permitted")


if __name__ == "__main__":
    sys.exit(main())
