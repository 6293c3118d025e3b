"""Not a part of emplace: a stranger's package of this name imports `emplace.formatter` first of all. Where it
was installed over this package, its `__init__` has replaced ours, finds this folder before its own file, and
is refused here."""

from emplace.installation import refuse

refuse("a stranger's package of PyPI, which is also called emplace, is installed over it")
