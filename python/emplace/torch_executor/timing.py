"""How steps are timed (docs/reference/measurement.md): warm-up steps, then timed ones."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence

_STEADY = 0.05


@dataclasses.dataclass(frozen=True)
class Timing:
    """What the parent asks for."""

    warmups: int = 5
    samples: int = 5
    most_samples: int = 15
    mean: bool = False
    stop_ratio: float = 0.0


def deviation(values: Sequence[float]) -> float:
    """Median absolute deviation from the median.

    >>> deviation([1.0, 2.0, 4.0])
    1.0
    """
    centre = statistics.median(values)
    return statistics.median([abs(value - centre) for value in values])


def time_steps(
    timing: Timing, step: Callable[[], float], best_s: float = math.inf
) -> tuple[float, list[float]]:
    """The step's time and its samples; ``step`` returns the seconds that it took.

    More samples than ``samples`` are taken while they spread by more than 5 %. If the first two steps both
    take at least ``stop_ratio`` times ``best_s``, the second is the only sample.

    >>> time_steps(Timing(warmups=2, samples=3, stop_ratio=2.0), iter([9.0, 3.0]).__next__, best_s=1.5)
    (3.0, [3.0])
    """
    limit_s = timing.stop_ratio * best_s if timing.stop_ratio > 0 else math.inf
    first: list[float] = []
    samples: list[float] = []
    for _ in range(timing.warmups):
        first.append(step())
        if len(first) == 2 and min(first) >= limit_s:
            return first[1], first[1:]
    while len(samples) < timing.samples or (
        len(samples) < timing.most_samples and deviation(samples) > _STEADY * statistics.median(samples)
    ):
        samples.append(step())
        steps = [*first, *samples]
        if len(steps) == 2 and min(steps) >= limit_s:
            return steps[1], steps[1:]
    return (statistics.fmean if timing.mean else statistics.median)(samples), samples


def line_of(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Latency [s] and rate [bytes/s] of copies: the line of Theil and Sen.

    >>> line_of([0, 10, 20], [1.0, 2.0, 3.0])
    (1.0, 10.0)
    """
    slopes = [
        (seconds[j] - seconds[i]) / (sizes[j] - sizes[i])
        for i in range(len(sizes))
        for j in range(i + 1, len(sizes))
    ]
    slope = max(statistics.median(slopes), 1e-15)
    return max(0.0, statistics.median([s - slope * size for size, s in zip(sizes, seconds)])), 1 / slope
