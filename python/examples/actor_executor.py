"""An executor in Python: it measures placements for a running head.

    emplace up configs/clusters/local.toml --insecure --run-dir RUN         in one terminal
    python examples/actor_executor.py tcp://127.0.0.1:5555 --insecure       in another one

What it measures is a small cost model: ops of one device run one after the other, and a tensor that is read
on another device is copied there once. Replace `measure` by whatever can time a training step.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

import emplace.actor as ea

RATE, BANDWIDTH, LAUNCH = 1e12, 8e9, 5e-6  # Flop/s of a device, bytes/s of a link, seconds per op.
BYTES = {
    **{"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "f8": 1},
    **{"i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1},
}


class CostModel(ea.Executor):
    def measure(self, graph: ea.Graph, placement: NDArray[np.uint8]) -> ea.Measurement:
        devices = int(placement.max()) + 1
        free, busy = np.zeros(devices), np.zeros(devices)  # When a device is free again; how long it worked.
        ready = np.zeros(graph.num_ops)  # When the outputs of an op exist.
        arrived: dict[tuple[int, int, int], float] = {}  # (producer, output, device): when its copy is there.
        moved = 0
        for op in graph.ops:
            device, start = int(placement[op["id"]]), 0.0
            for producer, output in op["inputs"]:
                at = float(ready[producer])
                if placement[producer] != device:
                    copy = (producer, output, device)
                    if copy not in arrived:
                        tensor = graph.ops[producer]["outputs"][output]
                        size = int(np.prod(tensor["shape"], dtype=np.int64)) * BYTES[tensor["dtype"]]
                        arrived[copy] = at + size / BANDWIDTH
                        moved += size
                    at = arrived[copy]
                start = max(start, at)
            takes = op.get("flops", 0) / RATE + LAUNCH if op["inputs"] else 0.0
            start = max(start, float(free[device])) if takes else start
            ready[op["id"]] = start + takes
            free[device] = max(free[device], ready[op["id"]])
            busy[device] += takes
        return ea.Measurement(valid=True, step_time_s=float(ready.max()), busy_s=busy, bytes_moved=moved)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="tcp://HOST:PORT, or the directory of a run on this machine")
    parser.add_argument("--key", help="your key file (emplace keygen)")
    parser.add_argument("--insecure", action="store_true", help="without encryption")
    parser.add_argument("--count", type=int, default=1, help="number of executors")
    options = parser.parse_args()
    try:
        print(
            "left:",
            ea.join(
                options.address,
                lambda run: ea.executors(run, CostModel, options.count),
                options.key,
                insecure=options.insecure,
            ),
        )
    except ea.EmplaceError as error:
        raise SystemExit(f"error: {error}") from None
