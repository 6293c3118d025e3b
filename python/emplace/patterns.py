"""Patterns that name ops: by name, or by the path of modules that they belong to.

"layers.3.*" names the ops of the module layers.3 and all below it, and ops whose own name starts with
"layers.3.". If there are none, it names those of "model.layers.3": a path may start at any module. ``*``
stands for any text, ``?`` for one letter. "." and "/" are the same, because scopes of graphs are written with
"/" and modules of PyTorch with ".". A compiled regular expression is searched in names and scopes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from emplace.errors import UnknownName
from emplace.graph import Graph, Op


@dataclass(frozen=True)
class Pattern:
    """An op matches if ``name`` is found in its name or ``scope`` in its scope. Both are also RE2
    expressions."""

    text: str
    name: str
    scope: str

    @staticmethod
    def of(given: str | re.Pattern[str], begin: str = "^") -> Pattern:
        """
        >>> Pattern.of("layers.3.*").scope
        '^layers[./]3([./]|$)'
        >>> Pattern.of("layers.*.attn").name
        '^layers[./].*[./]attn$'
        """
        if isinstance(given, re.Pattern):
            return Pattern(given.pattern, given.pattern, given.pattern)
        scope = given[:-2] if given.endswith((".*", "/*")) else given
        name = f"{begin}{_expression(given)}$"
        return Pattern(given, name, f"{begin}{_expression(scope)}([./]|$)" if scope != "*" else ".")

    def ops(self, ops: Iterable[Op]) -> list[Op]:
        """The ops that match, in their order."""
        name, scope = re.compile(self.name), re.compile(self.scope)
        return [op for op in ops if name.search(op.name) or (op.scope and scope.search(op.scope))]


def resolved(graph: Graph, given: str | re.Pattern[str], where: str) -> tuple[Pattern, list[Op]]:
    """A pattern and the ops that it names. Raises UnknownName, with the nearest name, if there are none."""
    for begin in ("^", "(^|[./])"):
        pattern = Pattern.of(given, begin)
        found = pattern.ops(graph.ops)
        if found:
            return pattern, found
    text = given if isinstance(given, str) else given.pattern
    raise UnknownName(where, f"'{text}' matches no op of {graph.name}", nearest(graph, text))


def nearest(graph: Graph, text: str) -> str:
    """A cure for a pattern that matches nothing: the nearest name or scope."""
    import difflib

    wanted = re.sub(r"[*?^$]", "", text).replace("/", ".").strip(".")
    paths = {op.scope.replace("/", ".") for op in graph.ops if op.scope}
    names = {op.name for op in graph.ops}
    near = difflib.get_close_matches(wanted, sorted(paths | names)[:20_000], n=1, cutoff=0.4)
    if near:
        return f"the nearest is '{near[0]}'"
    return "p.ops()['op'] and p.ops()['scope'] list what there is"


def modules_of(scope: str) -> list[str]:
    """The modules that a scope lies in, outermost first.

    >>> modules_of("layers/3/attn")
    ['layers', 'layers.3', 'layers.3.attn']
    """
    return list(
        accumulate(
            (part for part in scope.replace("/", ".").split(".") if part), lambda path, part: f"{path}.{part}"
        )
    )


def _expression(glob: str) -> str:
    parts = {"*": ".*", "?": ".", ".": "[./]", "/": "[./]"}
    return "".join(parts.get(letter) or _escaped(letter) for letter in glob)


def _escaped(letter: str) -> str:
    return letter if letter.isalnum() or letter in "_:-#" or ord(letter) > 127 else "\\" + letter
