"""emplace: which operation of a neural network runs on which device."""

from emplace.errors import EmplaceError, NoPlacement, UnknownName
from emplace.graph import Graph, Op, read

__version__ = "0.1.0"
__all__ = ["EmplaceError", "Graph", "NoPlacement", "Op", "UnknownName", "read"]
