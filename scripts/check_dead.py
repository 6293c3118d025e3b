#!/usr/bin/env python3
"""Checks that the program uses what its headers declare.

    usage: scripts/check_dead.py [TREE]      (default: the repository of this script)

Reports, with file and line, every function, method, constant, type and macro that a header of a floor declares and whose name
occurs nowhere else in the floors. Comments, strings, other declarations of the name and definitions under it do not count:
neither does a call of a function by itself, nor the name of a class in its own members. Names are compared without their scope,
so of two things with one name both count as used if either is.

What only tests or benchmarks use belongs to tests/ or bench/. Where it cannot go there, its comment gives the reason:
`For tests: …` or `For benchmarks: …`. Such a line at the head of a header is for all that it declares. Not reported are
overrides (their base is), operators, enums whose enumerators are used, and names by which the language finds a function. Needs
Universal Ctags; skipped without it.
"""

import collections
import re
import shutil
import subprocess
import sys

import source_tree

FLOORS = ["base", "graph", "placement", "messages", "runtime", "policy", "executor", "record", "solver", "actors", "launcher", "lab"]
USERS = ["tests", "bench"]  # Their uses count only with a reason.
KINDS = {"c": "type", "s": "type", "u": "type", "g": "type", "t": "type", "f": "function", "p": "function", "v": "constant", "d": "macro"}
MACROS = ["EMPLACE_GUARDED_BY", "EMPLACE_REQUIRES", "EMPLACE_ACQUIRE", "EMPLACE_RELEASE", "__launch_bounds__"]  # Of declarations.
FOUND_BY_THE_LANGUAGE = re.compile(r"(?:operator\b.*|~.*|begin|end|__anon\w*)")
WORD = re.compile(r"[A-Za-z_]\w*")
REASON = re.compile(r"//.*\bFor (?:tests|benchmarks): \S")

Tag = collections.namedtuple("Tag", "name file line end kind scope")


def without_comments(text):
    """Returns the text with comments and strings blanked, so that words in them are not found."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def tags_of(tree, files):
    """Yields every declaration and definition, as ctags finds them."""
    command = ["ctags", "--languages=C++", "--langmap=C++:+.cu.cuh.h", "--kinds-C++=+p", "--fields=neks", "--excmd=number", "-L", "-", "-f", "-",
               *(f"-D{macro}(x)=" for macro in MACROS)]
    names = "\n".join(file.relative_to(tree).as_posix() for file in files)
    listed = subprocess.run(command, input=names, capture_output=True, text=True, cwd=tree, check=True).stdout
    for row in listed.splitlines():
        if row.startswith("!_"):
            continue
        name, file, _, kind, *fields = row.split("\t")
        facts = dict(field.split(":", 1) for field in fields)
        scope = next((facts[key] for key in ("class", "struct", "union", "enum", "namespace") if key in facts), "")
        line = int(facts["line"])
        yield Tag(name, file, line, int(facts.get("end", line)), kind, scope)


def words_of(tree, files):
    """Yields (name, file, line) of every word outside of comments and strings."""
    for file in files:
        where = file.relative_to(tree).as_posix()
        for number, line in enumerate(without_comments(file.read_text(errors="replace")).splitlines(), 1):
            for name in WORD.findall(line):
                yield name, where, number


def names_used(tree, files, tags):
    """Returns the names that occur outside of what they name."""
    names, own = {tag.name for tag in tags}, collections.defaultdict(list)  # (name, file) -> lines that do not count.
    for tag in tags:
        own[tag.name, tag.file].append((tag.line, tag.end))
        for outer in tag.scope.split("::"):  # A member that is defined outside of its class.
            own[outer, tag.file].append((tag.line, tag.end))
    used = {name for name, file, line in words_of(tree, files)
            if name in names and not any(first <= line <= last for first, last in own.get((name, file), ()))}
    return used | {tag.scope.split("::")[-1] for tag in tags if tag.kind == "e" and tag.name in used}


def declaration_of(lines, tag):
    """Returns the declaration up to its body or semicolon, and the comments above and beside it."""
    first = last = tag.line - 1
    while first > 0 and lines[first - 1].lstrip().startswith("//"):
        first -= 1
    while last + 1 < len(lines) and not re.search(r"[;{]", lines[last]):
        last += 1
    return "\n".join(lines[tag.line - 1:last + 1]), "\n".join(lines[first:last + 1])


def head_of(lines):
    """Returns the comment at the head of a header."""
    head = 0
    while head < len(lines) and (not lines[head] or lines[head].startswith(("//", "#pragma"))):
        head += 1
    return "\n".join(lines[:head])


def check(tree, files, users):
    tags = list(tags_of(tree, files))
    used = names_used(tree, files, tags)
    used_by_tests = {name for name, _, _ in words_of(tree, users)}
    texts = {}
    for tag in sorted(set(tags), key=lambda tag: (tag.file, tag.line)):
        kind = KINDS.get(tag.kind) or ("constant" if tag.kind == "m" and re.match(r"k[A-Z]", tag.name) else None)
        if kind is None or not tag.file.endswith((".h", ".cuh")) or tag.name in used or FOUND_BY_THE_LANGUAGE.fullmatch(tag.name):
            continue
        if tag.scope.split("::")[-1] == tag.name or kind == "macro" and not tag.name.startswith("EMPLACE_"):
            continue  # Constructors, and settings of libraries.
        lines = texts.setdefault(tag.file, (tree / tag.file).read_text(errors="replace").splitlines())
        declaration, commented = declaration_of(lines, tag)
        if re.search(r"\b(?:override|final)\b", declaration.split("{")[0]):
            continue
        if tag.name not in used_by_tests:
            yield f"{tag.file}:{tag.line}: nothing uses the {kind} {tag.name}; remove it"
        elif not REASON.search(commented) and not REASON.search(head_of(lines)):
            yield f"{tag.file}:{tag.line}: only tests or benchmarks use the {kind} {tag.name}; move it there, or give the reason (`For tests: …`) in its comment"


def main():
    if shutil.which("ctags") is None:
        print("skipped: universal-ctags is missing")
        return 0
    tree = source_tree.tree_asked_for()
    files, users = (source_tree.sources_in(path for path in (tree / name for name in names) if path.is_dir()) for names in (FLOORS, USERS))
    return source_tree.verdict(tree, files, check(tree, files, users) if files else [], "everything that their headers declare is used")


if __name__ == "__main__":
    sys.exit(main())
