#!/usr/bin/env python3
"""Counts how large the house is: what the placing commands reach, folders, files, functions, types of an answer.

    usage: scripts/check_size.py [--count] [TREE]      (default: the repository that contains this script)

The program is every source (.h .cc .cu .cuh) outside of tests, bench and third_party.
--count prints one line per quantity:
  reached      lines that launcher/**/{place,compare,evaluate,explain,bound,inspect,import,export}.cc reach by #include; a header
               brings the source of the same name along
  linked       lines of the sources of emplace_solver and of what it links, as CMake wrote them into build/*/solver_sources.txt
  place.cc     lines of launcher/**/place.cc
  folder       most sources directly in one folder
  file         most lines of one file
  functions    functions that have more than 70 lines
  types        types of options and answers of a placement
  words        retired words and retired names, in all that scripts/check_words.py reads
Without --count it fails, naming file and line, for a folder, a file or a function above its limit.
Functions are measured by Universal Ctags; without it, it prints "skipped:".
"""

import collections
import pathlib
import re
import shutil
import subprocess
import sys

import source_tree

COMMANDS = {"place", "compare", "evaluate", "explain", "bound", "inspect", "import", "export"}
MAX_FOLDER = 32
MAX_FILE = 600
MAX_FUNCTION = 70
# Names of types that ask for a placement, limit the search for one, or answer.
ANSWERS = re.compile(r"^(?:struct|class) (\w*(?:Found|Answer|Placed|Learned|Request|Context)|FoundOrder|SearchLimits|(?:Portfolio|Ordered|OrderSearch|Robust"
                     r"|Distinct)Options)\b[^;]*\{", re.M)
NOT_OF_A_PLACEMENT = {"ProcessRequest", "RecordRequest"}  # Of an executor process, of the record of a run.
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


class House:
    """The sources of the program and their texts."""

    def __init__(self, tree):
        self.tree = tree
        folders = [path for path in source_tree.folders_of(tree) if path.name not in ("tests", "bench", "docs", "configs")]
        self.files = [file for file in source_tree.sources_in(folders) if "third_party" not in file.parts]
        self.text = {file.relative_to(tree).as_posix(): file.read_text(errors="replace") for file in self.files}

    def lines(self, names):
        return sum(self.text[name].count("\n") for name in names)

    def placing_commands(self):
        return [name for name in self.text if name.startswith("launcher/") and name.endswith(".cc") and pathlib.Path(name).stem in COMMANDS]

    def reached(self, roots):
        """Follows includes from the roots; a header brings the source of the same name along."""
        found, todo = set(), list(roots)
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found.add(name)
            for header in INCLUDE.findall(self.text[name]):
                todo += [other for other in (header, header.removesuffix(".h") + ".cc") if other in self.text]
        return found

    def folders(self):
        return collections.Counter(name.rpartition("/")[0] for name in self.text).most_common()

    def functions(self):
        """(lines, file, line, name) of every function, longest first. Lambdas count as parts of their functions."""
        command = ["ctags", "--languages=C++", "--langmap=C++:+.cu.cuh", "--kinds-C++=f", "--fields=+ne", "-f", "-", "-L", "-"]
        done = subprocess.run(command, input="\n".join(self.text), capture_output=True, text=True, check=True, cwd=self.tree)
        rows = []
        for tag in done.stdout.splitlines():
            name, file, fields = tag.split("\t", 2)
            begin, end = re.search(r"\tline:(\d+)", fields), re.search(r"\tend:(\d+)", fields)
            if begin and end and not name.startswith("__anon"):
                rows.append((int(end[1]) - int(begin[1]) + 1, file, int(begin[1]), name))
        return sorted(rows, reverse=True)

    def long_functions(self):
        return [row for row in self.functions() if row[0] > MAX_FUNCTION]

    def types_of_answers(self):
        """Types by name in the solver and in the placing commands, with what they include of their own room."""
        rooms = ("solver/", "launcher/placing/", "launcher/session/learned")
        names = [match for name, text in self.text.items() if name.startswith(rooms) for match in ANSWERS.findall(text)]
        return sorted(set(names) - NOT_OF_A_PLACEMENT)


def linked(house):
    """Lines of the sources of emplace_solver and of its libraries; None before CMake has configured a build."""
    lists = sorted(house.tree.glob("build/*/solver_sources.txt"))
    if not lists:
        return None
    sources = {line for line in lists[0].read_text().split() if line in house.text}
    headers = {name for name in house.reached(sources) if name.endswith(".h")}
    return house.lines(sources | headers)


def words(tree):
    done = subprocess.run([sys.executable, str(pathlib.Path(__file__).parent / "check_words.py"), "--count", str(tree)], capture_output=True, text=True)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    return int(rows["all"][0]) + int(rows["all"][1])


def count(house):
    place = [name for name in house.text if name.startswith("launcher/") and name.endswith("/place.cc")]
    folder, sources = house.folders()[0]
    file = max(house.text, key=lambda name: house.lines([name]))
    long = house.long_functions()
    types = house.types_of_answers()
    solver = linked(house)
    print(f"reached    {house.lines(house.reached(house.placing_commands()))}")
    print(f"linked     {'no build with emplace_solver' if solver is None else solver}")
    print(f"place.cc   {house.lines(place)}")
    print(f"folder     {sources} ({folder})")
    print(f"file       {house.lines([file])} ({file})")
    print(f"functions  {len(long)}" + (f" (longest: {long[0][1]}:{long[0][2]} {long[0][3]}, {long[0][0]} lines)" if long else ""))
    print(f"types      {len(types)} ({' '.join(types)})")
    print(f"words      {words(house.tree)}")


def problems(house):
    for folder, sources in house.folders():
        if sources > MAX_FOLDER:
            yield f"{folder}: {sources} sources, at most {MAX_FOLDER}; divide it into rooms"
    for name, text in house.text.items():
        if text.count("\n") > MAX_FILE:
            yield f"{name}: {text.count(chr(10))} lines, at most {MAX_FILE}"
    for lines, file, line, name in house.long_functions():
        yield f"{file}:{line}: {name} has {lines} lines, at most {MAX_FUNCTION}; divide it"


def main():
    if not shutil.which("ctags"):
        print("skipped: no Universal Ctags; install universal-ctags")
        return 0
    counts = "--count" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--count"]
    house = House(source_tree.tree_asked_for())
    if counts:
        count(house)
        return 0
    return source_tree.verdict(house.tree, house.files, problems(house), "no folder, file or function is too long")


if __name__ == "__main__":
    sys.exit(main())
