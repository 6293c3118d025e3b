#!/usr/bin/env python3
"""Checks that no floor grows unnoticed: the lines of each against its line in scripts/budget.txt.

    usage: scripts/check_budget.py [--write] [TREE]      (default: the repository that contains this script)

A floor is a folder of the program (.h .cc .cu .cuh, without third_party), or the Python package. Fails, naming floor and numbers,
where a floor has more lines than its budget and 3 % of it, or fewer than its budget less 3 %: then the budget is lowered in the
same commit. Also fails for a commit that raises a budget and whose message does not name, with the word "replaces", what the growth
replaces (or that it replaces nothing, and why it is worth it); without git's history, this is not checked.
--write writes today's numbers.
"""

import pathlib
import re
import subprocess
import sys

import source_tree

BUDGET = "scripts/budget.txt"
MARGIN = 0.03
NOT_OF_THE_PROGRAM = ("tests", "bench", "docs", "configs")
HEAD = """# Lines of each floor, with its comments: scripts/check_budget.py. A commit that raises a number names what the growth replaces.
"""


def files_of(tree):
    folders = [path for path in source_tree.folders_of(tree) if path.name not in NOT_OF_THE_PROGRAM]
    files = [*source_tree.sources_in(folders), *sorted((tree / "python" / "emplace").rglob("*.py"))]
    return [file for file in files if "third_party" not in file.parts]


def floors_of(tree, files):
    """floor -> number of lines, sorted by name."""
    lines = {}
    for file in files:
        floor = file.relative_to(tree).parts[0]
        lines[floor] = lines.get(floor, 0) + file.read_text(errors="replace").count("\n")
    return dict(sorted(lines.items()))


def read_budget(text):
    return {row.split()[0]: int(row.split()[1]) for row in text.splitlines() if row.strip() and not row.startswith("#")}


def written(floors):
    return HEAD + "".join(f"{floor:10} {lines:6}\n" for floor, lines in floors.items())


def check_lines(floors, budget):
    for floor in sorted(floors.keys() | budget.keys()):
        lines, most = floors.get(floor), budget.get(floor)
        if lines is None:
            yield f"{BUDGET}: there is no floor {floor}; remove its line"
        elif most is None:
            yield f"{BUDGET}: {floor} has no line; add '{floor} {lines}'"
        elif lines > most * (1 + MARGIN):
            yield (f"{floor}: {lines} lines, {lines / most - 1:.1%} above its budget of {most}; make it smaller, or raise its line in {BUDGET} "
                   "in a commit whose message names what the growth replaces")
        elif lines < most * (1 - MARGIN):
            yield f"{floor}: {lines} lines, {1 - lines / most:.1%} below its budget of {most}; lower its line in {BUDGET}"


def git(tree, *words):
    done = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def check_raises(tree):
    """Checks the message of each commit that raised a line. The commit that created the file is exempt."""
    for commit in git(tree, "log", "--format=%H", "--", BUDGET).split():
        old, new = (read_budget(git(tree, "show", f"{one}:{BUDGET}")) for one in (f"{commit}^", commit))
        raised = [floor for floor in new if new[floor] > old.get(floor, 0)]
        if old and raised and not re.search(r"\breplaces\b", git(tree, "show", "-s", "--format=%B", commit), re.I):
            yield f"commit {commit[:8]}: raises the budget of {', '.join(raised)} without the word 'replaces'; name what the growth replaces"


def main():
    write = sys.argv[1:2] == ["--write"]
    if write:
        del sys.argv[1]
    tree = source_tree.tree_asked_for()
    files = files_of(tree)
    floors = floors_of(tree, files)
    path = pathlib.Path(tree) / BUDGET
    if write:
        path.write_text(written(floors))
        return 0
    problems = [*check_lines(floors, read_budget(path.read_text())), *check_raises(tree)]
    return source_tree.verdict(tree, files, problems, f"{sum(floors.values())} lines, within the budget of every floor")


if __name__ == "__main__":
    sys.exit(main())
