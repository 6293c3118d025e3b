"""Which of three machines to take for a model: the step time on each, and how far it is above what is
possible.

usage: python compare_machines.py [GRAPH]
"""

import sys
from pathlib import Path

import emplace as em

MACHINES = ["rtx4090, ryzen7950x", "rtx4090 x 2, ryzen7950x", "h100, epyc9654"]
SHIPPED = Path(em.__file__).with_name("configs") / "graphs"
IN_SOURCES = Path(__file__).resolve().parents[2] / "configs" / "graphs"


def main() -> None:
    graphs = SHIPPED if SHIPPED.is_dir() else IN_SOURCES
    graph = em.read(sys.argv[1] if len(sys.argv) > 1 else graphs / "resnet50-bs2.json.gz")
    print(f"{graph.name}, {len(graph)} ops")
    for text in MACHINES:
        placement = em.place(graph, em.machine(text), budget="1s", progress=False)
        above = 100 * (placement.step_time / placement.bound - 1)
        memory = max(placement.peak.values()) / 2**20
        step = f"{1e3 * placement.step_time:8.2f} ms  {above:5.1f} % above the bound"
        print(f"{text:26} {step}  {memory:6.0f} MiB")


if __name__ == "__main__":
    main()
