#!/usr/bin/env python3
"""Comments, messages and pages are plain words: no retired word, no long line, no half sentence beside a field.

    usage: scripts/check_words.py [--count] [TREE]      (default: the repository that contains this script)

Reads comments and string literals of C++, Python and shell scripts, comments of configs, and the pages. Fixtures, corpora and third-party
files are not read. Fails, naming file and line, for
  retired   a word or phrase from the last table of docs/reference/glossary.md; the table also lists the phrases that are permitted
  name      an identifier with a retired word; `begin` and `live` are permitted there, for ranges and for live bytes. Of Python only
            the names that a file binds are read: those of libraries are bound elsewhere
  long      a line of a page that has more than 120 letters; generated pages are exempt
  fragment  trailing comments that start with a preposition, a conjunction or a lower-case word, if they exceed 1 % of all
            trailing comments; reports the share and the first twenty
Ignores code blocks, `code` in backticks, quoted words without a space (keys), calls such as `begin()`, words in capitals (SQL), raw
strings of Python and here documents of shell scripts.
--count reports the number of findings per kind and folder instead of the findings.
"""

import re
import sys

import prose
import source_tree

PROGRAM = ["base", "graph", "placement", "messages", "runtime", "policy", "executor", "record", "solver", "actors", "launcher", "lab"]
FOLDERS = [*PROGRAM, "tests", "python", "bench", "scripts", "configs", "findings"]
NOT_READ = {"fixtures", "corpus", "third_party", "build", "dist"}
ROOT_PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "solver/solve.md", "findings/README.md"]
GLOSSARY = "docs/reference/glossary.md"
GENERATED = {"docs/reference/config.md", "docs/reference/machines.md", "docs/results/papers.md"}
MAX_LINE = 120
MAX_SHARE = 0.01
MAX_SHOWN = 20

FRAGMENT = re.compile(r"(?:Of|By|Until|That|Then|Than|And|Or|Nor|But|With|Without|Where|Whose|Which|Who|Whom|Only if|So|Beside|Beneath"
                      r"|Behind|Before|Among|Between|Into|Onto)\b")
# A lower-case word of prose; not an identifier, a unit, a symbol, an equation or a call.
LOWER = re.compile(r"[a-z]{2,}(?:[,;.:]? [\w`\"]|[,;.]?$)")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PERMITTED_IN_NAMES = {"begin", "begins", "live"}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def last_table(text):
    """Index of the first line and the rows of the last table of a page, without its head."""
    lines, rows = text.splitlines(), []
    start = None
    for number, line in enumerate(lines):
        if line.startswith("|--"):
            start, rows = number + 1, []
        elif line.startswith("|") and start is not None:
            rows.append(cells(line))
    return start, rows


def phrase(words):
    """Words may be on two lines."""
    return r"(?:[ \t]+|[ \t]*\n[ \t]*)".join(re.escape(word) for word in words.split())


def vocabulary(tree):
    """Two patterns from the glossary: what is retired, and what is permitted although it contains a retired word."""
    page = tree / GLOSSARY
    start, rows = last_table(page.read_text()) if page.is_file() else (None, [])
    if not rows:
        raise SystemExit(f"error: {page}: has no table of retired words")
    split = lambda cell: [words.strip() for words in cell.split(",") if words.strip()]
    retired = sorted({words for row in rows for words in split(row[0])}, key=len, reverse=True)
    permitted = sorted({words for row in rows for words in split(row[2] if len(row) > 2 else "")}, key=len, reverse=True)
    either = lambda phrases: "|".join(map(phrase, phrases)) or r"(?!)"
    return (re.compile(rf"(?<![\w.:/>\[-])(?:{either(retired)})(?![\w(/-]|\.\w|:[:\w])", re.I),
            re.compile(rf"(?<!\w)(?:{either(permitted)})(?!\w)", re.I))


def retired_words(tree):
    """Retired single words."""
    _, rows = last_table((tree / GLOSSARY).read_text())
    return {word for row in rows for word in map(str.strip, row[0].split(",")) if word.isalpha()}


class Findings:
    def __init__(self, tree):
        self.tree = tree
        self.retired, self.permitted = vocabulary(tree)
        self.retired_parts = retired_words(tree) - PERMITTED_IN_NAMES
        self.found = []  # (kind, file, line, message)
        self.fragments, self.num_trailing = [], 0
        self.files = []

    def read(self, file):
        name = file.relative_to(self.tree).as_posix()
        text = file.read_text(errors="replace")
        self.files.append(file)
        if file.suffix == ".md":
            self.words(name, prose.of_page(text, last_table(text)[0] if name == GLOSSARY else None))
            self.lines(name, text)
        else:
            language = prose.LANGUAGES[file.suffix]
            self.words(name, language.prose(text))
            self.names(name, language.names(text))
            self.trailing(name, language.trailing(text))

    def words(self, name, text):
        text = self.permitted.sub(lambda match: prose.blank(match.group(0), prose.CODE), text)
        for match in self.retired.finditer(text):
            if not match.group(0).isupper():
                word = " ".join(match.group(0).split())
                self.found.append(("retired", name, text.count("\n", 0, match.start()) + 1, f"'{word}' is retired; see {GLOSSARY}"))

    def names(self, name, names):
        for line, identifier in names:
            retired = {part.lower() for part in PART.findall(identifier)} & self.retired_parts
            if retired:
                message = f"the name {identifier} contains '{min(retired)}', which is retired; see {GLOSSARY}"
                self.found.append(("name", name, line, message))

    def lines(self, name, text):
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MAX_LINE and name not in GENERATED:
                self.found.append(("long", name, number, f"{len(line)} letters; at most {MAX_LINE}"))

    def trailing(self, name, comments):
        for line, comment in comments:
            self.num_trailing += 1
            if FRAGMENT.match(comment) or LOWER.match(comment):
                self.fragments.append(("fragment", name, line, f"the trailing comment is no sentence of its own: {comment}"))

    def share(self):
        return len(self.fragments) / max(1, self.num_trailing)

    def problems(self):
        yield from (f"{name}:{line}: {message}" for _, name, line, message in self.found)
        if self.share() > MAX_SHARE:
            yield from (f"{name}:{line}: {message}" for _, name, line, message in self.fragments[:MAX_SHOWN])
            yield (f"{len(self.fragments)} of {self.num_trailing} trailing comments ({100 * self.share():.1f} %) start with a preposition, a "
                   f"conjunction or a lower-case word; at most {100 * MAX_SHARE:.0f} %")

    def counts(self):
        """A line per folder, a column per kind."""
        kinds, rows = ("retired", "name", "long", "fragment"), {}
        for kind, name, _, _ in [*self.found, *self.fragments]:
            rows.setdefault(name.split("/")[0], dict.fromkeys(kinds, 0))[kind] += 1
        rows = dict(sorted(rows.items()))
        rows["all"] = {kind: sum(row[kind] for row in rows.values()) for kind in kinds}
        yield f"{'folder':<18}" + "".join(f"{kind:>10}" for kind in kinds)
        for folder, row in rows.items():
            yield f"{folder:<18}" + "".join(f"{row[kind]:>10}" for kind in kinds)
        yield f"trailing comments {self.num_trailing}, fragments {100 * self.share():.1f} % (at most {100 * MAX_SHARE:.0f} %)"


def files_of(tree):
    for folder in FOLDERS:
        for file in sorted((tree / folder).rglob("*")):
            parts = file.relative_to(tree).parts
            if file.suffix in prose.LANGUAGES and file.is_file() and not any(part in NOT_READ or part.startswith(".") for part in parts):
                yield file
    yield from (tree / page for page in ROOT_PAGES if (tree / page).is_file())
    yield from sorted((tree / "docs").rglob("*.md"))


def main():
    count = "--count" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--count"]
    tree = source_tree.tree_asked_for()
    findings = Findings(tree)
    for file in files_of(tree):
        findings.read(file)
    problems = list(findings.problems())
    if not count:
        return source_tree.verdict(tree, findings.files, problems, "all in plain words")
    print("\n".join(findings.counts()))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
