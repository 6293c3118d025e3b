"""Finds the prose, the names and the trailing comments of a source file, config or page.

Each language has up to three functions of the text of a file:
  prose     text of the same length and lines, in which everything but comments and strings with a space is blanked
  names     (line, identifier) of the names in C++ code, or of the names that Python code binds: those of libraries are bound elsewhere
  trailing  (line, comment) of every comment that follows code on its line
"""

import ast
import io
import itertools
import re
import tokenize
import typing

CODE = "\0"  # Replaces code: it is neither a letter nor a space, so no phrase reaches across it.

# Raw string, string, character (not a digit separator), line comment, block comment.
CPP_TOKEN = re.compile(r'R"(?P<delimiter>[^()\s]*)\((?P<raw>.*?)\)(?P=delimiter)"|"(?P<string>(?:\\.|[^"\\\n])*)"'
                       r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/", re.S)
TOML_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#(?P<line>[^\n]*)')
# Escaped character, strings, comment. A quote within "$( )" ends a string too early; the next one starts another.
SHELL_TOKEN = re.compile(r"\\.|'(?P<raw>[^']*)'|\"(?P<string>(?:\\.|[^\"\\])*)\"|(?:^|(?<=[\s;]))#(?P<line>[^\n]*)", re.S | re.M)
HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*(['\"]?)(?P<end>\w+)\1[^\n]*\n(?P<body>.*?)^\s*(?P=end)$", re.S | re.M)
EXPANSION = re.compile(r"\$\([^()]*(?:\([^()]*\)[^()]*)*\)|\$\{[^{}]*\}|\$\w+")
PYTHON_STRING = re.compile(r"(?P<prefix>[a-zA-Z]*)(?P<quote>'''|\"\"\"|'|\")(?P<string>.*)(?P=quote)", re.S)
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
# Code in prose: in backticks, a quoted word without a space (a key), Python's None.
IN_PROSE = re.compile(r"`[^`]*`|\"[^\"\s]*\"|(?<!\w)'[^'\s]*'(?!\w)|\bNone\b")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
FENCE = re.compile(r"^ *(?:```|~~~)")
# Comments that are not prose.
MARKER = re.compile(r"namespace\b|NOLINT|clang-format|clang-tidy|IWYU|EMPLACE_\w+$|\w+\.h$|=|noqa|extern \"C\"|type: |pragma|fmt: |shellcheck")


def blank(text, keep=" "):
    """Text of the same length and lines that matches no word."""
    return re.sub(r"[^\n]", keep, text)


def blank_code(text):
    return re.sub(r"[^\s]", CODE, text)


def plain(text):
    """Prose with the code in it blanked."""
    return IN_PROSE.sub(lambda match: blank(match.group(0), CODE), text)


def unescaped(literal):
    return re.sub(r"\\.", "  ", literal)


def within(text, pattern, prose_of_token):
    """Text with each token of a pattern replaced by its prose, and the text between tokens blanked."""
    parts, end = [], 0
    for token in pattern.finditer(text):
        parts += [blank_code(text[end:token.start()]), prose_of_token(token)]
        end = token.end()
    return "".join([*parts, blank_code(text[end:])])


def message(token, group, literal):
    """The prose of a string, in its place; a string without a space is a key and has none."""
    if not re.search(r"\s", literal.strip()):
        return blank(token.group(0), CODE)
    return " " * (token.start(group) - token.start()) + plain(literal) + " " * (token.end() - token.end(group))


def trailing(text, comments):
    """Line and text of those of (start, comment) that follow code on their line."""
    for start, comment in comments:
        before = text[text.rfind("\n", 0, start) + 1:start].strip()
        if before and comment and not MARKER.match(comment):
            yield text.count("\n", 0, start) + 1, comment


# C++

def cpp_token(token):
    whole = token.group(0)
    if token.group("line") is not None or token.group("block") is not None:
        marks = re.sub(r"(?m)^(\s*)(?:/{2,}[!<]*|/\*[*!<]*|\*(?!/))", lambda match: " " * len(match.group(0)), whole)
        return plain(re.sub(r"\*/$", "  ", marks))
    if token.group("string") is not None:
        return message(token, "string", unescaped(token.group("string")))
    if token.group("raw") is not None:
        return message(token, "raw", token.group("raw"))
    return blank(whole, CODE)


def of_cpp(text):
    return within(text, CPP_TOKEN, cpp_token)


def cpp_names(text):
    code = CPP_TOKEN.sub(lambda match: blank(match.group(0)), text)
    return ((code.count("\n", 0, match.start()) + 1, match.group(0)) for match in IDENTIFIER.finditer(code))


def cpp_trailing(text):
    tokens = (token for token in CPP_TOKEN.finditer(text) if token.group("line") is not None)
    return trailing(text, ((token.start(), token.group("line").lstrip("/!<").strip()) for token in tokens))


# Python

def python_tokens(text):
    """Start, end and kind of the comments and strings. An f-string is one string, in Python 3.12 and later too."""
    starts = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
    fstring, depth = None, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            fstring, depth = (fstring if depth else start), depth + 1
        elif kind == "FSTRING_END":
            depth -= 1
            if depth == 0:
                yield fstring, end, "STRING"
        elif kind in ("STRING", "COMMENT") and depth == 0:
            yield start, end, kind


def python_string(whole):
    """The prose of a string. Raw strings are regular expressions and commands: none."""
    token = PYTHON_STRING.fullmatch(whole)
    prefix, literal = token.group("prefix").lower(), token.group("string")
    if "r" in prefix:
        return blank(whole, CODE)
    literal = re.sub(r"\\[^\n]", "  ", literal)
    if "f" in prefix:
        literal = PLACEHOLDER.sub(lambda match: blank(match.group(0), CODE), literal)
    return message(token, "string", literal)


def of_python(text):
    parts, last = [], 0
    for start, end, kind in python_tokens(text):
        whole = text[start:end]
        parts += [blank_code(text[last:start]), " " + plain(whole[1:]) if kind == "COMMENT" else python_string(whole)]
        last = end
    return "".join([*parts, blank_code(text[last:])])


def python_names(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.lineno, node.name


def python_trailing(text):
    return trailing(text, ((start, text[start:end].lstrip("#: ").strip()) for start, end, kind in python_tokens(text) if kind == "COMMENT"))


# Shell

def shell_token(token):
    if token.group("line") is not None:
        return " " + plain(token.group("line"))
    for group in ("string", "raw"):
        if token.group(group) is not None:
            literal = unescaped(token.group(group)) if group == "string" else token.group(group)
            return message(token, group, EXPANSION.sub(lambda match: blank(match.group(0), CODE), literal))
    return blank(token.group(0), CODE)


def without_here_documents(text):
    """Text with here documents blanked: they are files, or programs in another language."""
    def hide(match):
        start, end = (place - match.start() for place in match.span("body"))
        return match.group(0)[:start] + blank(match.group("body")) + match.group(0)[end:]
    return HERE_DOCUMENT.sub(hide, text)


def of_shell(text):
    return within(without_here_documents(text), SHELL_TOKEN, shell_token)


def shell_trailing(text):
    text = without_here_documents(text)
    tokens = (token for token in SHELL_TOKEN.finditer(text) if token.group("line") is not None)
    return trailing(text, ((token.start(), token.group("line").lstrip("# ").strip()) for token in tokens))


# Configs and pages

def of_toml(text):
    """Comments of a config."""
    return within(text, TOML_TOKEN, lambda token: blank(token.group(0), CODE) if token.group("line") is None else " " + plain(token.group("line")))


def of_page(text, hidden=None):
    """A page without code blocks, and without the table rows from line `hidden` on."""
    lines, out, fenced, indented, after_blank = text.splitlines(), [], False, False, True
    in_list = False
    for number, line in enumerate(lines):
        fence = bool(FENCE.match(line))
        indented = line.startswith("    ") and (indented or after_blank) and not in_list
        row = hidden is not None and number >= hidden and line.startswith("|")
        out.append(blank(line, CODE) if fenced or fence or indented or row else line)
        fenced ^= fence
        if line.strip():
            in_list = bool(re.match(r" *(?:[-*]|\d+\.) ", line)) or (in_list and line.startswith(" "))
        after_blank = not line.strip() or re.match(r"#", line)
    return plain("\n".join(out))


class Language(typing.NamedTuple):
    """How files of one language are read."""
    prose: typing.Callable
    names: typing.Callable = lambda text: ()
    trailing: typing.Callable = lambda text: ()


CPP = Language(of_cpp, cpp_names, cpp_trailing)
LANGUAGES = {".h": CPP, ".cc": CPP, ".cu": CPP, ".cuh": CPP, ".py": Language(of_python, python_names, python_trailing),
             ".sh": Language(of_shell, trailing=shell_trailing), ".toml": Language(of_toml)}
