"""An executor for tests: it takes `SECONDS` for each placement and answers something plausible."""

import sys
import time

import numpy as np
from numpy.typing import NDArray

import emplace.actor as ea


class Slow(ea.Executor):
    def measure(self, graph: ea.Graph, placement: NDArray[np.uint8]) -> ea.Measurement:
        time.sleep(float(sys.argv[2]))
        share = float(placement.mean())
        return ea.Measurement(
            valid=True, step_time_s=0.01 + share, label=ea.MEASURED, samples_s=np.array([0.01 + share] * 3)
        )


try:
    print(ea.join(sys.argv[1], lambda run: ea.executors(run, Slow), insecure=True, cache=sys.argv[3]))
except ea.EmplaceError as error:
    raise SystemExit(f"error: {error}") from None
