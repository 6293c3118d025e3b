"""The one kind of exception of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any


class EmplaceError(Exception):
    """What is wrong, as one line: ``WHERE: what is wrong; what would fix it``.

    >>> error = EmplaceError("model.onnx", "no such file", "give the name of a file that exists")
    >>> print(error)
    model.onnx: no such file; give the name of a file that exists
    >>> error.where, error.cure
    ('model.onnx', 'give the name of a file that exists')
    """

    def __init__(self, where: str, what: str, cure: str) -> None:
        super().__init__(where, what, cure)
        self.where = where
        self.what = what
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.cure}"


class NoPlacement(EmplaceError):
    """No placement fits, or none was found: another machine or other rules may have one.

    ``remedies`` has what :func:`emplace.place` tried, the fastest first, each with the keys ``what``,
    ``allow``, ``fits``, ``step_time_s``, ``peak_memory_bytes`` and ``command``; empty if nothing was tried.
    """

    remedies: Sequence[Mapping[str, Any]] = ()


class UnknownName(EmplaceError, KeyError):
    """A pattern or a name that no op, scope or device has."""

    __str__ = EmplaceError.__str__


class LossyExport(UserWarning):
    """An export that another tool applies otherwise than the placement, or that does not fit."""


def need(purpose: str, **packages: str) -> None:
    """Raises EmplaceError if a module, of a package of PyPI, is not installed.

    >>> need("this", json="json", no_such_module="its-package")
    Traceback (most recent call last):
    emplace.errors.EmplaceError: this: needs 'its-package', which is not installed; pip install its-package
    """
    missing = [package for module, package in packages.items() if find_spec(module) is None]
    if missing:
        are, names = "is" if len(missing) == 1 else "are", " and ".join(f"'{name}'" for name in missing)
        raise EmplaceError(
            purpose, f"needs {names}, which {are} not installed", f"pip install {' '.join(missing)}"
        )
