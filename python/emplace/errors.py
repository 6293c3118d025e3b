"""The one kind of exception of this package."""

from __future__ import annotations


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
    """No placement fits, or none was found: another machine or other rules may have one."""


class UnknownName(EmplaceError, KeyError):
    """A pattern or a name that no op, scope or device has."""

    __str__ = EmplaceError.__str__


def missing_package(package: str, purpose: str) -> EmplaceError:
    """The error for an optional package that is not installed."""
    return EmplaceError(
        purpose, f"needs the package '{package}', which is not installed", f"pip install {package}"
    )
