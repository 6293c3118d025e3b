#!/usr/bin/env python3
"""The cost of a placement by DOPPLER's own code, which is imported from a copy of its repository.

usage: doppler_cost.py DOPPLER_FOLDER COMPUTE_GRAPH.txt PLACEMENT.json

Prints seconds. Needs simpy and networkx (pip install simpy networkx) and nothing else that DOPPLER uses: its graph
library only passes on a networkx graph, and its costs are tensors with one number, which `Cost` stands for. Imports
that only its real engine needs are left empty.
"""
import json
import pathlib
import re
import sys
import types


class Cost(int):
    """A whole number with the methods of a tensor that DOPPLER's simulator calls; exact, as its 64-bit tensors are."""

    def __add__(self, other):
        return Cost(int(self) + int(other))

    __radd__ = __add__

    def item(self):
        return int(self)

    def clone(self):
        return self

    detach = clone


def read_graph(path):
    """(producers, readers, computation costs, transfer costs) of a file of compute_graph."""
    lines = pathlib.Path(path).read_text().splitlines()
    numbers = lambda line: [int(word) for word in re.findall(r"\d+", line)]
    nodes = numbers(lines[0])[0] - len(numbers(lines[1]))
    costs = [numbers(line)[:2] for line in lines[4:4 + nodes]]
    return numbers(lines[2]), numbers(lines[3]), [Cost(c) for c, _ in costs], [Cost(t) for _, t in costs]


class Graph:
    """What DOPPLER's simulator takes from its graph: a networkx graph with an edge for every pair of the file."""

    def __init__(self, producers, readers, nodes):
        import networkx
        self.graph = networkx.MultiDiGraph()
        self.graph.add_nodes_from(range(nodes))
        self.graph.add_edges_from(zip(producers, readers))

    def to_networkx(self):
        return self.graph


def simulator_of(folder):
    """The class Simulator of FOLDER/env/cost.py."""
    for name in ("torch", "pexpect", "dotenv"):
        sys.modules.setdefault(name, types.ModuleType(name))
    if not hasattr(sys.modules["dotenv"], "load_dotenv"):
        sys.modules["dotenv"].load_dotenv = lambda: None
    sys.path.insert(0, str(pathlib.Path(folder) / "env"))
    import cost
    return cost.Simulator


def main():
    folder, path, placement = sys.argv[1:]
    try:
        simulator = simulator_of(folder)
        producers, readers, compute, transfer = read_graph(path)
        of = json.loads(pathlib.Path(placement).read_text())["ops"]
        names = sorted(set(of.values()))
        devices = [names.index(of["node%d" % node]) for node in range(len(compute))]
        print(repr(float(simulator(Graph(producers, readers, len(compute)), transfer, compute).get_cost(devices))))
    except ImportError as error:
        sys.exit("error: DOPPLER's cost code: %s; pip install simpy networkx, and pass its repository" % error)
    except (OSError, KeyError, ValueError, IndexError) as error:
        sys.exit("error: %s: %s" % (path, error))


if __name__ == "__main__":
    main()
