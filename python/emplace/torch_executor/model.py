"""The step that an executor runs: the user's model, traced here and compared with the parent's graph."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emplace.errors import EmplaceError

if TYPE_CHECKING:
    from emplace.graph import Graph


def load(name: str) -> tuple[Graph, Any]:
    """The graph of ``MODULE:FUNCTION`` or ``PATH/file.py:FUNCTION``, and a batch (None if it brings none).

    It returns (model, batch), (model, batch, loss), (model, batch, loss, optimizer), or a graph that was
    traced.
    """
    module, _, function = name.rpartition(":")
    where = f"model '{name}'"
    make = _imported(module, where)
    for part in function.split("."):
        if not hasattr(make, part):
            raise EmplaceError(where, f"the module has no '{part}'", "give --model MODULE:FUNCTION")
        make = getattr(make, part)
    made = _called(make, where)
    from emplace.graph import Graph

    if isinstance(made, Graph):
        if made.step is None:
            raise EmplaceError(
                where, "returned a graph that was not traced", "return what emplace.trace returns"
            )
        return made, None
    if not isinstance(made, (tuple, list)) or not 2 <= len(made) <= 4:
        raise EmplaceError(
            where,
            f"returned {type(made).__name__}",
            "return (model, batch, loss, optimizer) or what emplace.trace returns",
        )
    from emplace.tracing.trace import trace

    model, batch, loss, optimizer = (*made, None, None)[:4]
    return trace(model, batch, loss=loss, optimizer=optimizer), batch


def _imported(module: str, where: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        if not module.endswith(".py"):
            return importlib.import_module(module)
        path = Path(module)
        if not path.is_file():
            raise EmplaceError(where, f"{path} does not exist", "give the name of a file that exists")
        sys.path.insert(0, str(path.resolve().parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = found
        spec.loader.exec_module(found)
        return found
    except EmplaceError:
        raise
    except ModuleNotFoundError as error:
        raise EmplaceError(
            where,
            f"there is no module '{error.name}'",
            "run where it can be imported, or give PATH/file.py:FUNCTION",
        ) from error
    except Exception as error:
        raise EmplaceError(
            where, f"its import failed: {_line(error)}", "import it in python3 to see where"
        ) from error


def _called(make: Callable[[], Any], where: str) -> Any:
    try:
        return make()
    except EmplaceError:
        raise
    except Exception as error:
        raise EmplaceError(
            where, f"calling it failed: {_line(error)}", "call it in python3 to see where"
        ) from error


def _line(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def compare(name: str, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Refuses if the traced graph is not the parent's: the first op that differs, in one line."""
    where = f"model '{name}'"
    cure = "name the module that made this graph, with the torch that traced it"
    ours, parents = mine["ops"], theirs["ops"]
    for a, b in zip(ours, parents):
        for key in ("name", "type", "inputs", "outputs"):
            if _plain(a[key]) != _plain(b[key]):
                raise EmplaceError(
                    where,
                    f"is not this graph: op {a['id']} has the {key.removesuffix('s')}"
                    f" {_short(a[key])} here and {_short(b[key])} there",
                    cure,
                )
    if len(ours) != len(parents):
        raise EmplaceError(
            where, f"is not this graph: it has {len(ours)} ops, the graph {len(parents)}", cure
        )


def _plain(value: Any) -> Any:
    return [_plain(element) for element in value] if isinstance(value, (list, tuple)) else value


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
