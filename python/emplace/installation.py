"""Whether this package has its folder to itself. Its distribution is `emplace-placement`; `emplace` of PyPI
is a stranger's, whose files go to the same folder, and older wheels of this package had that name, too.
Whichever is installed last overwrites files of the other, and whichever is removed takes them along.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from emplace.errors import EmplaceError

# How Python names the programs of the package while they import it: scripts, and `-m` for a module.
_PROGRAMS = ("emplace", "emplace-exec-torch", "-m")


def check(folder: str) -> None:
    """Raises EmplaceError if a distribution `emplace` owns files of the package, which is in `folder`. Lists
    the folder, and reads more only if a name in it matches."""
    try:
        names = os.listdir(folder)
    except OSError:  # An archive: nothing is installed there.
        return
    for name in names:
        if name.startswith("emplace-") and name.endswith((".dist-info", ".egg-info")):
            _check_distribution(Path(folder, name))


def _check_distribution(path: Path) -> None:
    from importlib.metadata import Distribution

    found = Distribution.at(path)
    if not any(file.parts[0] == "emplace" for file in found.files or ()):
        return
    is_ours = any(entry.value == "emplace.program:main" for entry in found.entry_points)
    which = "an older wheel of it" if is_ours else "a stranger's package of PyPI"
    refuse(f"{which}, emplace {found.version}, is installed in the same folder")


def refuse(what: str) -> None:
    """Raises EmplaceError, whose cure is to install it again. A program of the package ends with its line."""
    error = EmplaceError("emplace", what, "pip uninstall emplace, then install the wheel again")
    if os.path.basename("".join(sys.argv[:1])) in _PROGRAMS:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    raise error
