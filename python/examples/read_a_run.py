"""A short learning run, and its record: step times over time, and the best placement.

usage: python read_a_run.py [DIRECTORY]      (of a run that is there; default: a new run of a few seconds)
"""

import sys
from pathlib import Path

import emplace as em

SHIPPED = Path(em.__file__).with_name("configs")
IN_SOURCES = Path(__file__).resolve().parents[2] / "configs"


def new_run(configs: Path) -> em.Run:
    settings = {
        "input.graph": configs / "graphs" / "cifar10_cnn-bs32.json.gz",
        "input.devices": configs / "devices" / "quickstart.toml",
    }
    return em.run(configs / "quickstart.toml", settings=settings, budget="4s", run_dir="run", progress=False)


def main() -> None:
    configs = SHIPPED if SHIPPED.is_dir() else IN_SOURCES
    run = em.open_run(sys.argv[1]) if len(sys.argv) > 1 else new_run(configs)
    columns = run.measurements()
    times = [time for time, valid in zip(columns["step_time_s"], columns["valid"]) if valid]
    for part in range(4):
        quarter = times[len(times) * part // 4 : len(times) * (part + 1) // 4]
        if quarter:
            mean = 1e3 * sum(quarter) / len(quarter)
            print(f"quarter {part + 1}: mean {mean:8.3f} ms, best {1e3 * min(quarter):8.3f} ms")
    heuristics = run.heuristics()
    for method, seconds, valid in zip(
        heuristics["method"], heuristics["step_time_s"], heuristics["valid"], strict=True
    ):
        if valid:
            print(f"{method:16} {1e3 * seconds:8.3f} ms")


if __name__ == "__main__":
    main()
