"""Command lines of this package: wrong arguments are one line, an EmplaceError."""

from __future__ import annotations

import argparse
from typing import NoReturn

from emplace.errors import EmplaceError


class Parser(argparse.ArgumentParser):
    """Takes options by their whole names."""

    def __init__(self, name: str, description: str, example: str) -> None:
        epilog = f"example: {name} {example}"
        super().__init__(prog=name, description=description, epilog=epilog, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise EmplaceError(self.prog, message, f"see '{self.prog} --help'")


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if whole(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not at least 1")
    return whole(text)
