"""Folders for temporary files."""

from __future__ import annotations

import weakref
from functools import cached_property
from pathlib import Path


class Scratch:
    """A folder that is made when it is first asked for, and removed with this object."""

    @cached_property
    def folder(self) -> Path:
        import shutil
        import tempfile

        path = tempfile.mkdtemp(prefix="emplace-")
        weakref.finalize(self, shutil.rmtree, path, True)
        return Path(path)
