#!/usr/bin/env python3
"""The table of docs/results/module_maps.md: device maps of bodies of transformers on unlike machines, compared with every
map that puts consecutive blocks on devices of their own, and with 200 random maps that fit.

    usage: PYTHONPATH=python EMPLACE_PROGRAM=build/release/emplace bench/module_maps.py [--folder DIR] [NAME…]
    needs torch and transformers, and build/release/module_maps_test, which compares

The bodies and the machines are those of python/tests/exports/bodies.py. --folder keeps the graphs."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests/exports")]
ROW = re.compile(r"(\S+) on (\S+): (\d+) ops, (\d+) units, (\d+) devices: ([\d.]+) ms( does not fit)?, contiguous ([\d.]+) ms of"
                 r" (\d+), random ([\d.inf]+) ms of (\d+); ([\d.]+) s")


def make_graphs(folder, names):
    """A folder per body, with its graph and its machines."""
    import bodies
    for name in names or bodies.BODIES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        graph = bodies.traced(name, bodies.made(name))
        graph.save(folder / name / "graph.json")
        for machine, gpus in bodies.MACHINES.items():
            bodies.machine(gpus, graph, folder / name / (machine + ".toml"))
        print("%s: %d ops" % (name, len(graph)), file=sys.stderr)


def table_of(rows):
    """Markdown; times in milliseconds."""
    lines = ["| body | machine | ops | units | map | best contiguous | of | best of 200 random | search |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for body, machine, ops, units, _, found, misfit, contiguous, tried, random, _, seconds in rows:
        cells = [body, machine, ops, units, found + (misfit or ""), contiguous, tried, random, seconds + " s"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = arguments.folder or pathlib.Path(own)
        make_graphs(folder, arguments.names)
        compared = subprocess.run(
            [ROOT / "build/release/module_maps_test", "--gtest_filter=ModuleMaps.OfRealModels"],
            env={**os.environ, "EMPLACE_MAPS_OF": str(folder)}, stdout=subprocess.PIPE, text=True)
    rows = [found.groups() for found in map(ROW.match, compared.stdout.splitlines()) if found]
    print(table_of(rows), end="")
    if compared.returncode != 0:
        print(compared.stdout, file=sys.stderr)
    return compared.returncode


if __name__ == "__main__":
    sys.exit(main())
