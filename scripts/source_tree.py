"""Functions that the checkers of the source tree share."""

import pathlib
import sys

SOURCES = {".h", ".cc", ".cu", ".cuh"}


def tree_asked_for():
    """Returns the folder on the command line; by default the repository of the scripts."""
    return pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()


def folders_of(tree):
    """Returns the folders of a tree, without build trees and hidden ones."""
    return [path for path in sorted(tree.iterdir()) if path.is_dir() and path.name != "build" and not path.name.startswith(".")]


def sources_in(folders):
    return [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in SOURCES and file.is_file()]


def verdict(tree, files, problems, success):
    """Prints the problems, or the success message. Returns the exit status; a tree without files is a problem."""
    problems = list(problems)
    if not files:
        problems.append(f"{tree}: no source file found")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"{len(files)} files, {success}")
    return 0
