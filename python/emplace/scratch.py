"""Folders for temporary files, and files for the user."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from emplace.errors import EmplaceError


class Scratch:
    """A folder that is made when it is first asked for, and removed with this object.

    A process that forks and its child have a folder each: neither removes or overwrites files of the other.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._maker = 0

    @property
    def folder(self) -> Path:
        """The folder, which exists: it is made again if it was cleaned away, as systemd-tmpfiles does."""
        if self._folder is None or self._maker != os.getpid():
            import tempfile

            self._maker = os.getpid()
            self._folder = Path(tempfile.mkdtemp(prefix="emplace-"))
            weakref.finalize(self, _remove, str(self._folder), self._maker)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder


def _remove(folder: str, maker: int) -> None:
    """Removes a folder of this process; finalizers also run in a child that was forked."""
    if os.getpid() != maker:
        return
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


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
