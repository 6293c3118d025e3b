"""Rules of a placement, from Python to the rules file of the program (docs/guide/rules.md)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emplace.errors import EmplaceError
from emplace.graph import Graph
from emplace.patterns import Pattern, resolved

Rules = (
    Mapping[str | re.Pattern[str], str | Sequence[str] | Mapping[str, Any]]
    | Sequence[Mapping[str, Any]]
    | str
    | os.PathLike[str]
)

_ACTIONS = ("pin", "allow", "forbid", "colocate", "colocate_with")


@dataclass(frozen=True)
class RulesFile:
    """The text of a rules file and what errors should call its lines."""

    text: str
    path: Path | None = None
    """The user's own file; its lines need no other name."""
    entries: tuple[str, ...] = ()
    """Per rule in the text, the entry that it was made of."""

    def written(self, folder: Path) -> tuple[Path, dict[str, str]]:
        """The file for the command line, and what errors call its lines."""
        if self.path is not None:
            return self.path, {}
        path = folder / "rules.toml"
        path.write_text(self.text, encoding="utf-8")
        shown: dict[str, str] = {}
        for number, line in enumerate(self.text.splitlines(), 1):
            if line == "[[rule]]":
                shown[f"{path.name}:{number}"] = self.entries[len(shown)]
        # Longer names first: rules.toml:1 is the start of rules.toml:10.
        return path, {key: shown[key] for key in sorted(shown, key=len, reverse=True)} | {path.name: "rules"}


def rules_file(rules: Rules | None, graph: Graph) -> RulesFile | None:
    """Makes a rules file of

    - a mapping of patterns to a device ("cpu:0"), to the devices that they may use (["gpu:*"], "gpu:*"), or
    to a rule
      of the file without its match ({"colocate": "embedding"}); the first entry that names an op wins,
    - a list of rules as in the file ({"match": {"type": "MatMul"}, "allow": ["gpu:*"]}),
    - the name of a rules file.
    """
    if rules is None:
        return None
    if isinstance(rules, (str, os.PathLike)):
        path = Path(rules)
        return RulesFile(path.read_text(encoding="utf-8") if path.is_file() else "", path)
    if isinstance(rules, Mapping):
        return _from_patterns(rules, graph)
    if isinstance(rules, Sequence):
        tables = [_table(rule, f"rules[{index}]") for index, rule in enumerate(rules)]
        return RulesFile("\n".join(tables), None, tuple(f"rules[{index}]" for index in range(len(tables))))
    raise EmplaceError(
        "rules", f"is a {type(rules).__name__}", 'give {"embed.*": "cpu:0"}, a list of rules or a file'
    )


def _from_patterns(rules: Mapping[Any, Any], graph: Graph) -> RulesFile:
    tables: list[str] = []
    entries: list[str] = []
    covered: set[int] = set()
    for given, value in rules.items():
        if not isinstance(given, (str, re.Pattern)):
            raise EmplaceError("rules", f"{given!r} is not a pattern", 'write {"embed.*": "cpu:0"}')
        where = f"rules['{given if isinstance(given, str) else given.pattern}']"
        pattern, found = resolved(graph, given, where)
        matched = {op.id for op in found}
        if matched <= covered:
            raise EmplaceError(where, "an earlier rule has each of its ops", "put the special case first")
        action = _action(value, where)
        for key, expression in (("name", pattern.name), ("scope", pattern.scope)):
            # A rule whose ops all have an earlier rule would contradict that one.
            own = {
                op.id
                for op in Pattern(
                    pattern.text,
                    expression if key == "name" else "$^",
                    expression if key == "scope" else "$^",
                ).ops(graph.ops)
            }
            if not own <= covered:
                tables.append(_table({"match": {key: expression}, **action}, where))
                entries.append(where)
        covered |= matched
    return RulesFile("\n".join(tables), None, tuple(entries))


def _action(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"allow": [value]} if value.endswith("*") else {"pin": value}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and value and all(isinstance(name, str) for name in value):
        return {"allow": list(value)}
    raise EmplaceError(
        where, f"{value!r} is not a device", 'give "cpu:0", ["gpu:*"] or {"colocate": "label"}'
    )


def _table(rule: Any, where: str) -> str:
    if not isinstance(rule, Mapping) or not isinstance(rule.get("match"), Mapping):
        raise EmplaceError(where, "has no match", 'write {"match": {"name": "^embed/"}, "pin": "cpu:0"}')
    if not any(action in rule for action in _ACTIONS):
        raise EmplaceError(where, "states nothing about its ops", f"add one of {', '.join(_ACTIONS)}")
    return "[[rule]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in rule.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    # A TOML basic string escapes as JSON does, except that JSON leaves DEL as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
