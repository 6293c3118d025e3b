#!/usr/bin/env python3
"""Citations of papers in sources, configs and pages are those of docs/reference/equations.md.

    usage: scripts/check_citations.py [TREE]      (default: the repository that contains this script)

docs/reference/equations.md has an entry per rule, `**TAG** (Paper YEAR, 3.1, Eq. 2)`, with its code and test;
its last table has the sections and numbers of each paper. Fails, naming file and line, for
  tag     [TAG] without an entry; an entry that no source cites
  place   a citation of a paper of the table ("Spotlight 2018, section 3.1, Eq. 1", "Spotlight 2018, 3.1",
          "ColocRL, table 2") with a place (section, equation, table, figure, algorithm) that the paper lacks, or
          with another year; "Paper: NAME" without a place. In configs/papers/NAME a place without a paper is one
          of NAME's.
  entry   a tag right after a citation of another paper, or of another section or equation, than its entry's
  file    an entry without code or test, or with a file or test that does not exist
An appendix of these papers is always refused, because the texts end before it: cite the authors' code.
Not read: tests/layers, whose made-up trees have wrong citations on purpose.
"""

import dataclasses
import re
import sys

import check_docs
import source_tree

PAGE = "docs/reference/equations.md"
PROSE = {".toml", ".py", ".md", ".sh"}
ROOT_PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
KINDS = ["section", "equation", "table", "figure", "algorithm"]

ENTRY = re.compile(r"^\*\*(?P<tag>\S+)\*\* \((?P<source>.*)\)\n(?P<body>(?:[- ].*\n?)*)", re.M)
TAG = re.compile(r"\[([A-Z]{2,}(?:-[A-Z0-9][A-Z0-9.]*)*)\]")
NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"
NUMBERS = re.compile(rf"{NUMBER}(?:(?:\s*[–-]\s*|\s+to\s+|,?\s+and\s+|,\s+){NUMBER})*")
WORD = re.compile(r"[Ss]ections?|Eqs?\.|[Ee]quations?|[Tt]ables?|[Ff]igures?|[Aa]lgorithms?|[Aa]ppendix")
PLACE = re.compile(rf"({WORD.pattern})(?:\s+({NUMBERS.pattern}))?")
JOINT = re.compile(rf",\s+(?:and\s+)?(?={WORD.pattern})|\s+and\s+(?={WORD.pattern})")
# What may stand between a citation and its tag: other tags, remarks in brackets.
BETWEEN = re.compile(r"(?:\s*(?:\[[^\[\]]*\]|\([^()]*\)))*\s*")
# A line of a comment or a list continues the line above it: its marker counts as blank.
MARKER = re.compile(r"^[ \t]*(?:///?<?|#+|\*|>)(?=\s|$)", re.M)


@dataclasses.dataclass(order=True)
class Citation:
    """Text from start to end that cites places, (kind, number), of a paper."""
    start: int
    end: int
    paper: str
    year: str | None
    places: list


def expanded(numbers):
    """The numbers of "1, 3.1–3.3": 1, 3.1, 3.2, 3.3."""
    for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", numbers.strip()):
        first, _, last = re.sub(r"\s+to\s+|\s*[–-]\s*", "-", part).partition("-")
        if not last:
            yield from [first] if first else []
            continue
        stem = first.rpartition(".")[0]
        start, end = (int(edge.rpartition(".")[2]) for edge in (first, last))
        yield from (f"{stem}.{n}" if stem else str(n) for n in range(start, end + 1))


def kind_of(word):
    word = word.lower()
    return next((kind for kind in KINDS if word.startswith(kind[:2])), "appendix")


def places_at(text, at, bare):
    """The places at `at`, as in "section 3.1, Eq. 2", and where they end; if `bare`, the first may be a number."""
    places = []
    while True:
        match = PLACE.match(text, at)
        if match:
            kind = kind_of(match.group(1))
            numbers = list(expanded(match.group(2) or "")) or ([""] if kind == "appendix" else [])
        else:
            match = NUMBERS.match(text, at) if bare else None
            if not match:
                return places, at
            kind, numbers = "section", expanded(match.group())
        places += [(kind, number) for number in numbers]
        joint = JOINT.match(text, match.end())
        if not joint:
            return places, match.end()
        at, bare = joint.end(), False


class Papers:
    """Names, years and places of the papers in the page's table."""

    def __init__(self, page):
        self.years, self.places = {}, {}
        inside = False
        for number, cells in check_docs.rows(page):
            if cells[0] == "paper":
                inside = True
                if [cell.rstrip("s") for cell in cells[1:]] != KINDS:
                    columns = ", ".join(kind + "s" for kind in KINDS)
                    raise SystemExit(f"error: {PAGE}:{number}: the columns are paper, {columns}")
            elif inside:
                name, _, year = cells[0].rpartition(" ")
                self.years[name] = year
                self.places[name] = {kind: set(expanded(cell)) for kind, cell in zip(KINDS, cells[1:])}
        if not self.years:
            raise SystemExit(f"error: {PAGE}:1: no table whose first column is paper")
        # "Spotlight's objective (Eq. 15)" is a citation too. With a year a number alone is a section.
        name = rf"\b({'|'.join(map(re.escape, self.years))})(?:\s+Planner)?(?:'s(?:\s+[\w-]+){{1,4}})?"
        name += r"(?:\s+((?:19|20)\d\d)\b)?"
        places = rf"{PLACE.pattern}|{NUMBERS.pattern}"
        self.cited = re.compile(rf"{name}(?:,\s+|\s+\(|(?<=\d)\s+(?={WORD.pattern}))(?={places})")
        self.announced = re.compile(rf"\bPapers?:\s+(?={name})")

    def citations(self, text, folder=None):
        """All citations of a text, in order. `folder`: the paper of a place without one."""
        found, read = [], set()

        def add(start, at, paper, year):
            places, end = places_at(text, at, year is not None)
            if places and start not in read:
                found.append(Citation(start, end, paper, year, places))
                read.update(range(start, end))

        for match in self.cited.finditer(text):
            add(match.start(), match.end(), match.group(1), match.group(2))
        for match in PLACE.finditer(text) if folder else ():
            add(match.start(), match.start(), folder, None)
        return sorted(found)

    def problems(self, citation):
        year = self.years[citation.paper]
        if citation.year and citation.year != year:
            yield f"{citation.paper} is of {year}, not {citation.year}"
        for kind, number in citation.places:
            if number not in self.places[citation.paper].get(kind, ()):
                cure = "; cite the authors' code" if kind == "appendix" else ""
                yield f"{citation.paper} {year} has no {kind} {number}".rstrip() + cure


class Entries:
    """Line, and citation if it is of a paper in the table, of every tag of the page."""

    def __init__(self, page, papers):
        self.line, self.citation = {}, {}
        for match in ENTRY.finditer(page):
            tag = match["tag"]
            self.line[tag] = page.count("\n", 0, match.start()) + 1
            found = papers.citations(match["source"])
            self.citation[tag] = found[0] if found and found[0].start == 0 else None

    def problems(self, tag, citation):
        """A tag that follows a citation."""
        entry = self.citation[tag]
        if not entry or entry.paper != citation.paper:
            paper = entry.paper if entry else "another paper"
            yield f"[{tag}] is an entry of {paper}, not of {citation.paper}"
            return
        for kind in KINDS:
            theirs, ours = ({number for of, number in one.places if of == kind} for one in (entry, citation))
            if ours and theirs and not ours & theirs:
                yield (f"[{tag}] is an entry of {kind} {', '.join(sorted(theirs))}, not {', '.join(sorted(ours))} "
                       f"({PAGE}:{self.line[tag]})")


def check_text(name, text, papers, entries, seen):
    """Findings of one file; adds its tags to `seen`."""
    text = MARKER.sub(lambda match: " " * len(match.group()), text)

    def finding(at, problem):
        return f"{name}:{text.count(chr(10), 0, at) + 1}: {problem}"

    folder = name.split("/")[2] if name.startswith("configs/papers/") else None
    citations = papers.citations(text, next((paper for paper in papers.years if paper.lower() == folder), None))
    for citation in citations:
        yield from (finding(citation.start, problem) for problem in papers.problems(citation))
    starts = {citation.start for citation in citations}
    for match in papers.announced.finditer(text):
        if match.end() not in starts:
            yield finding(match.end(), f"cites {match.group(1)} without a {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    for match in TAG.finditer(text):
        tag = match.group(1)
        if tag not in entries.line:
            if "-" in tag:
                yield finding(match.start(), f"[{tag}] has no entry in {PAGE}")
            continue
        seen.add(tag)
        last = next((citation for citation in reversed(citations) if citation.end <= match.start()), None)
        if last and BETWEEN.fullmatch(text, last.end, match.start()):
            yield from (finding(match.start(), problem) for problem in entries.problems(tag, last))


def check_files(tree, page, named):
    """Code and tests that the entries name."""
    for match in ENTRY.finditer(page):
        start = f"{PAGE}:{page.count(chr(10), 0, match.start()) + 1}: {match['tag']} names"
        for kind in ("Code", "Test"):
            part = re.search(rf"^- {kind}: (.*(?:\n  .*)*)", match["body"], re.M)
            if not part:
                yield f"{start} no {kind.lower()}"
                continue
            folder, files = tree, 0
            for word in re.findall(r"`([^`]+)`", part.group(1)):
                if re.fullmatch(r"[A-Z]\w+\.[A-Z]\w+", word):
                    if word not in named.tests:
                        yield f"{start} the test `{word}`, which does not exist"
                elif "/" in word or re.search(r"\.(?:h|cc|py)$", word):
                    # A file without a folder is beside the one before it; one without an ending has .h or .cc.
                    path = (tree if "/" in word else folder) / word
                    files += 1
                    folder = path.parent
                    if not any((path.parent / (path.name + end)).is_file() for end in ("", ".h", ".cc")):
                        yield f"{start} `{word}`, which does not exist"
            if not files:
                yield f"{start} no file of its {kind.lower()}"


def texts_of(tree, sources):
    """Every file that is read: sources, and the prose beside them."""
    yield from sources
    for folder in source_tree.folders_of(tree):
        yield from (file for file in sorted(folder.rglob("*")) if file.suffix in PROSE and file.is_file())
    yield from (tree / page for page in ROOT_PAGES if (tree / page).is_file())


def check(tree, sources):
    page = (tree / PAGE).read_text()
    papers = Papers(page)
    entries = Entries(page, papers)
    program, cited, elsewhere = set(sources), set(), set()
    for file in texts_of(tree, sources):
        name = file.relative_to(tree).as_posix()
        if name.startswith("tests/layers/"):
            continue
        seen = cited if file in program and not name.startswith("tests/") else elsewhere
        yield from check_text(name, file.read_text(errors="replace"), papers, entries, seen)
    for tag in sorted(entries.line.keys() - cited):
        yield f"{PAGE}:{entries.line[tag]}: no source cites [{tag}]"
    yield from check_files(tree, page, check_docs.Named(tree, sources))


def main():
    tree = source_tree.tree_asked_for()
    sources = source_tree.sources_in(source_tree.folders_of(tree))
    problems = check(tree, sources) if sources else []
    return source_tree.verdict(tree, sources, problems, "and the citations are those of the papers")


if __name__ == "__main__":
    sys.exit(main())
