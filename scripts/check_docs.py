#!/usr/bin/env python3
"""Checks that names in the documents exist, and that no advice names a package of PyPI that is not ours.

    usage: scripts/check_docs.py [TREE]      (default: the repository that contains this script)

Fails, naming file and line, where the last column of a table of docs/proofs/guarantees.md names, in backticks, a test (`Suite.Name`,
`Name`, `Name…`, `Suite.*`), a checker, a fault of the simulated world or a file that is not there; and where the columns in
docs/reference/run_database.md are not those of the schema, in its order.

Also fails where a text of the tree (pages, messages, comments, notebooks, configs, requirements) installs the Python package by a
name, with any installer and in any form, or asks for the version of a distribution of the import name. The name of the wheel's
distribution is not on PyPI, and the import name is a stranger's there: advice names a file, PATH/emplace_placement-….whl.
"""

import os
import pathlib
import re
import sys

import source_tree

TEST = re.compile(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.M)
TYPE = re.compile(r"^(?:class|struct) (\w+)", re.M)
FAULT = re.compile(r'FaultFact\{Fault::\w+, "([a-z-]+)"')
TABLE = re.compile(r"CREATE TABLE (\w+)\((.*?)\);", re.S)
ADDED = re.compile(r'^ *\{"(\w+)", "([^"]+)"\}', re.M)
IDENTIFIER = re.compile(r"[A-Z]\w*(?:\.\w+)?(?:…|\.?\*)?")

NOT_READ = {"fixtures", "corpus", "third_party", "build", "dist", "__pycache__", ".git", ".cache"}
# What continues a command on the next line: a backslash, a literal after a literal, a span of code that a page or a comment wraps.
CONTINUED = re.compile(r"\\[ \t]*\n[ \t]*(?:#|//+)?|[\"'][ \t]*\n[ \t]*f?[\"']|(?<=\w)[ \t]*\n[ \t]*(?:#|//+|\*)?(?=[^`\n]*`)")
# A word of a command line or of a list: separated by spaces, or by quotes and commas.
GAP = r"(?:\s|\\?[\"'],?)+"
INSTALLS = re.compile(rf"\b(?:(?:pip[\d.]*|pipx|uv|poetry|pdm|rye|pixi|hatch|conda|mamba|micromamba){GAP}(?:[\w=-]+{GAP}){{0,3}}?(?:install|add|download|inject"
                      rf"|wheel|--with|tool{GAP}run)\b|\buvx\b|\bpipx{GAP}run\b|--with\b)(?P<words>(?:(?![,.:]\s+\w|\s#|\\n)[^`;|&)\n])*)")
# Lists of requirements in configs, and in texts that hold JSON.
LISTS = re.compile(r"(?:\bpip|\buv|dependencies|requires)\\?[\"']?\s*[:=]\s*(?:\{[^\[\]{}]*)?(?P<words>\[[^\]]*\])")
OURS = r"emplace(?:[-_.]placement)?(?![\w*/…-]|\.\w|\s*@|:\s*\w)"
ARGUMENT = re.compile(rf"(?<![\w./@:=…*-]){OURS}", re.I)
ITEM = re.compile(rf"(?<=[\"']){OURS}", re.I)
REQUIREMENT = re.compile(rf"^[ \t]*(?:-[ \t]+)?{OURS}", re.I | re.M)
REQUIREMENTS_FILE = re.compile(r"(?:requirements|constraints).*\.(?:txt|in)|environment.*\.ya?ml")
ASKS = re.compile(r"\b(?:version|distribution|metadata|requires|files)\(\s*\\?[\"']emplace\\?[\"']\s*\)")


def rows(text):
    """Line number and cells of every row of every table, without the heads."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|") and not line.startswith("|--"):
            yield number, [cell.strip() for cell in line.strip().strip("|").split("|")]


class Named:
    """The names that a document may use."""

    def __init__(self, tree, files):
        self.tree = tree
        self.tests, self.types, self.faults = set(), set(), set()
        for file in files:
            text = file.read_text(errors="replace")
            if file.relative_to(tree).parts[0] == "tests":
                for suite, name in TEST.findall(text):
                    self.tests.update({name, f"{suite}.{name}"})
                self.faults.update(FAULT.findall(text))
            self.types.update(TYPE.findall(text))

    def has(self, word):
        if "/" in word:
            return (self.tree / word).exists()
        if not IDENTIFIER.fullmatch(word):
            return word in self.faults
        start = word.rstrip("…*")
        if start != word:
            return any(test.startswith(start) for test in self.tests)
        return word in self.tests or word in self.types


def check_guarantees(tree, files):
    named = Named(tree, files)
    for number, cells in rows((tree / "docs" / "proofs" / "guarantees.md").read_text()):
        for word in re.findall(r"`([^`]+)`", cells[-1]):
            if not named.has(word):
                yield f"docs/proofs/guarantees.md:{number}: `{word}` is no test, checker, fault or file that is there"


def check_columns(tree):
    """The schema in the source against the tables of the document."""
    source, schema = (tree / "record" / "store" / "schema.cc").read_text(), {}
    for table, columns in TABLE.findall(source) + ADDED.findall(source):
        schema.setdefault(table, []).extend(column.strip().split()[0].strip('"') for column in columns.split(","))
    described, table = {}, None
    for number, cells in rows((tree / "docs" / "reference" / "run_database.md").read_text()):
        # A row with an empty first cell continues the row above it.
        table = cells[0].strip("`") if re.fullmatch(r"`\w+`", cells[0]) else table if not cells[0] else None
        if table:
            # Text in brackets explains a column.
            columns = [column.strip() for column in re.sub(r"\([^()]*\)", "", cells[-1]).split(",")]
            described.setdefault(table, (number, []))[1].extend(column for column in columns if column)
    for table in sorted(schema.keys() | described.keys()):
        number, columns = described.get(table, (1, []))
        if columns != schema.get(table, []):
            yield (f"docs/reference/run_database.md:{number}: {table} has the columns {', '.join(schema.get(table, [])) or 'of no table'}, "
                   f"not {', '.join(columns) or 'none'}")


def texts_of(tree):
    """Path and text of every file that people read."""
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(set(folders) - NOT_READ)
        for path in (pathlib.Path(folder, name) for name in sorted(names)):
            content = path.read_bytes() if path.is_file() else b""
            if b"\0" not in content[:4096]:
                yield path, content.decode(errors="replace")


def check_advice(tree):
    """Commands, lists of requirements and questions that name the package as PyPI would have it."""
    for path, text in texts_of(tree):
        if "emplace" not in text.lower():
            continue
        one_line = CONTINUED.sub(lambda match: " " * len(match.group(0)), text)
        found = [*((match, ARGUMENT) for match in INSTALLS.finditer(one_line)), *((match, ITEM) for match in LISTS.finditer(text))]
        starts = [match.start() for match, wanted in found if wanted.search(match.group("words"))]
        if REQUIREMENTS_FILE.fullmatch(path.name):
            starts += [match.end() for match in REQUIREMENT.finditer(text)]
        where = f"{path.relative_to(tree).as_posix()}:"
        for start in sorted(starts):
            yield (f"{where}{text.count(chr(10), 0, start) + 1}: installs the package by a name: on PyPI it is not ours; name the file of a wheel, "
                   "PATH/emplace_placement-….whl")
        for match in ASKS.finditer(text):
            yield f"{where}{text.count(chr(10), 0, match.start()) + 1}: asks for the distribution 'emplace', which is not ours; ours is 'emplace-placement'"


def main():
    tree = source_tree.tree_asked_for()
    files = source_tree.sources_in(source_tree.folders_of(tree))
    problems = [*check_guarantees(tree, files), *check_columns(tree), *check_advice(tree)] if files else []
    return source_tree.verdict(tree, files, problems, "and every name in the documents exists")


if __name__ == "__main__":
    sys.exit(main())
