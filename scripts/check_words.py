#!/usr/bin/env python3
"""Comments, messages and pages are plain words: no retired word, no long line, no half sentence beside a field.

    usage: scripts/check_words.py [--count] [TREE]      (default: the repository that contains this script)

Reads comments and string literals of the program's sources, comments of configs, and the pages. Fails, naming file and line, for
  retired   a word or phrase from the last table of docs/reference/glossary.md; the table also lists the phrases that are permitted
  name      an identifier of the program with a retired word; begin and live are permitted there (begin and end of a range, live bytes)
  long      a line of a page that has more than 120 letters; generated pages are exempt
  fragment  trailing comments that start with a preposition, a conjunction or a lower-case word, if they exceed 1 % of all
            trailing comments; reports the share and the first twenty
Not read: code blocks, `code` in backticks, quoted words without a space (keys), calls such as begin(), words in capitals (SQL).
--count reports the number of findings per kind and folder instead of the findings.
"""

import re
import sys

import source_tree

PROGRAM = ["base", "graph", "placement", "messages", "runtime", "policy", "executor", "record", "solver", "actors", "launcher"]
ROOT_PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
GLOSSARY = "docs/reference/glossary.md"
GENERATED = {"docs/reference/config.md", "docs/reference/machines.md", "docs/results/papers.md"}
MAX_LINE = 120
MAX_SHARE = 0.01
MAX_SHOWN = 20

# Raw string, string, character (not a digit separator), line comment, block comment.
TOKEN = re.compile(r'R"(?P<delimiter>[^()\s]*)\((?P<raw>.*?)\)(?P=delimiter)"|"(?P<string>(?:\\.|[^"\\\n])*)"'
                   r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/", re.S)
TOML_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#(?P<line>[^\n]*)')
FENCE = re.compile(r"^ *(?:```|~~~)")
FRAGMENT = re.compile(r"(?:Of|By|Until|That|Then|Than|And|Or|Nor|But|With|Without|Where|Whose|Which|Who|Whom|Only if|So|Beside|Beneath"
                      r"|Behind|Before|Among|Between|Into|Onto)\b")
# A lower-case word of prose; not an identifier, a unit, a symbol, an equation or a call.
LOWER = re.compile(r"[a-z]{2,}(?:[,;.:]? [\w`\"]|[,;.]?$)")
# Comments that are not prose.
MARKER = re.compile(r"namespace\b|NOLINT|clang-format|clang-tidy|IWYU|EMPLACE_\w+$|\w+\.h$|=")
CODE = "\0"
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PERMITTED_IN_NAMES = {"begin", "begins", "live"}


def blank(text, keep=" "):
    """Text of the same length and lines that matches no word."""
    return re.sub(r"[^\n]", keep, text)


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


def prose(text):
    """Prose with code in backticks and quoted keys blanked."""
    text = re.sub(r"`[^`]*`", lambda match: blank(match.group(0), CODE), text)
    return re.sub(r'"[^"\s]*"', lambda match: blank(match.group(0), CODE), text)


def of_source(text):
    """Comments and strings of C++ code in their places, everything else blanked."""
    parts, end = [], 0
    for token in TOKEN.finditer(text):
        parts.append(blank(text[end:token.start()]) if not text[end:token.start()].strip() else blank_code(text[end:token.start()]))
        parts.append(of_token(token))
        end = token.end()
    return "".join([*parts, blank_code(text[end:])])


def blank_code(text):
    return re.sub(r"[^\s]", CODE, text)


def of_token(token):
    whole = token.group(0)
    for kind in ("line", "block"):
        if token.group(kind) is not None:
            marks = re.sub(r"(?m)^(\s*)(?:/{2,}[!<]*|/\*[*!<]*|\*(?!/))", lambda match: " " * len(match.group(0)), whole)
            return prose(re.sub(r"\*/$", "  ", marks))
    for kind in ("string", "raw"):
        literal = token.group(kind)
        if literal is not None and re.search(r"\s", literal.strip()):
            unescaped = re.sub(r"\\.", "  ", literal) if kind == "string" else literal
            return " " * (token.start(kind) - token.start()) + prose(unescaped) + " " * (token.end() - token.end(kind))
    return blank(whole, CODE)


def of_toml(text):
    """Comments of a config."""
    parts, end = [], 0
    for token in TOML_TOKEN.finditer(text):
        parts.append(blank_code(text[end:token.start()]))
        comment = token.group("line")
        parts.append(blank(token.group(0), CODE) if comment is None else " " + prose(comment))
        end = token.end()
    return "".join([*parts, blank_code(text[end:])])


def of_page(text, name):
    """A page without code blocks; the glossary without its table of retired words."""
    lines, out, fenced, indented, after_blank = text.splitlines(), [], False, False, True
    hidden = last_table(text)[0] if name == GLOSSARY else None
    in_list = False
    for number, line in enumerate(lines):
        fence = bool(FENCE.match(line))
        indented = line.startswith("    ") and (indented or after_blank) and not in_list
        retired = hidden is not None and number >= hidden and line.startswith("|")
        out.append(blank(line, CODE) if fenced or fence or indented or retired else line)
        fenced ^= fence
        if line.strip():
            in_list = bool(re.match(r" *(?:[-*]|\d+\.) ", line)) or (in_list and line.startswith(" "))
        after_blank = not line.strip() or re.match(r"#", line)
    return prose("\n".join(out))


def trailing_comments(text):
    """Line number and text of every comment that follows code on its line."""
    for token in TOKEN.finditer(text):
        if token.group("line") is None:
            continue
        before = text[text.rfind("\n", 0, token.start()) + 1:token.start()].strip()
        comment = token.group("line").lstrip("/!<").strip()
        if before and comment and not MARKER.match(comment):
            yield text.count("\n", 0, token.start()) + 1, comment


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
            self.words(name, of_page(text, name))
            self.lines(name, text)
        elif file.suffix == ".toml":
            self.words(name, of_toml(text))
        else:
            self.words(name, of_source(text))
            self.names(name, text)
            self.trailing(name, text)

    def words(self, name, text):
        text = self.permitted.sub(lambda match: blank(match.group(0), CODE), text)
        for match in self.retired.finditer(text):
            if not match.group(0).isupper():
                word = " ".join(match.group(0).split())
                self.found.append(("retired", name, text.count("\n", 0, match.start()) + 1, f"'{word}' is retired; see {GLOSSARY}"))

    def names(self, name, text):
        code = TOKEN.sub(lambda match: blank(match.group(0)), text)
        for match in IDENTIFIER.finditer(code):
            parts = {part.lower() for part in PART.findall(match.group(0))}
            if parts & self.retired_parts:
                word = sorted(parts & self.retired_parts)[0]
                message = f"the name {match.group(0)} contains '{word}', which is retired; see {GLOSSARY}"
                self.found.append(("name", name, code.count("\n", 0, match.start()) + 1, message))

    def lines(self, name, text):
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MAX_LINE and name not in GENERATED:
                self.found.append(("long", name, number, f"{len(line)} letters; at most {MAX_LINE}"))

    def trailing(self, name, text):
        for number, comment in trailing_comments(text):
            self.num_trailing += 1
            if FRAGMENT.match(comment) or LOWER.match(comment):
                self.fragments.append(("fragment", name, number, f"the trailing comment is no sentence of its own: {comment}"))

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
    yield from source_tree.sources_in([tree / folder for folder in PROGRAM if (tree / folder).is_dir()])
    yield from (tree / page for page in ROOT_PAGES if (tree / page).is_file())
    yield from sorted((tree / "docs").rglob("*.md"))
    yield from sorted((tree / "configs").rglob("*.toml"))


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
