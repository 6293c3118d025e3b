"""Folders for temporary files, and files for the user."""

from __future__ import annotations

import os
import weakref
from functools import cached_property
from pathlib import Path

from emplace.errors import EmplaceError


class Scratch:
    """A folder that is made when it is first asked for, and removed with this object."""

    @cached_property
    def folder(self) -> Path:
        import shutil
        import tempfile

        path = tempfile.mkdtemp(prefix="emplace-")
        weakref.finalize(self, shutil.rmtree, path, True)
        return Path(path)


def write(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file as a whole or not at all. Raises EmplaceError."""
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():  # A pipe or a terminal.
            target.write_text(text, encoding="utf-8")
            return
        partial = target.with_name(target.name + ".partial")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(target)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EmplaceError(
            os.fspath(path),
            f"cannot be written ({error.strerror})",
            "name a file in a folder that exists and is writable",
        ) from error
