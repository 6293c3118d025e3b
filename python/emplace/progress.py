"""Progress of a command: a bar of tqdm if it is installed, else one plain line every five seconds."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from emplace.program import Finished, run_command

_PLAIN_EVERY_S = 5.0
_BEST = re.compile(r"best .*?(?:\)|(?=  |$))")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds_of(budget: str | float | int | None) -> float | None:
    """Seconds of a budget; None if there is none, or if it is malformed (the program states how to write it).

    >>> seconds_of("1.5min"), seconds_of(30), seconds_of("soon")
    (90.0, 30.0, None)
    """
    if budget is None:
        return None
    if isinstance(budget, (int, float)):
        return float(budget)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]+)\s*", budget)
    try:
        return float(match[1]) * _UNITS[match[2]] if match else None
    except (KeyError, ValueError):
        return None


class Progress:
    """Shows lines of a command while it runs."""

    def __init__(self, what: str, budget_s: float | None, shown: bool) -> None:
        self._what = what
        self._budget_s = budget_s
        self._shown = shown
        self._started = self._last = time.monotonic()
        self._line = ""
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def run(self, command: str, arguments: Sequence[str | os.PathLike[str]], **more: Any) -> Finished:
        """Runs a command and shows its progress; see :func:`run_command`."""
        with self:
            return run_command(command, arguments, on_line=self.on_line, on_tick=self.on_tick, **more)

    def on_line(self, line: str) -> None:
        """Takes a line of standard error."""
        self._line = line

    def on_tick(self) -> None:
        """Draws, if it is time to."""
        if not self._shown:
            return
        now = time.monotonic()
        self._open_bar()
        if self._bar is not None:
            self._bar.n = min(now - self._started, self._bar.total)
            best = _BEST.search(self._line)
            self._bar.set_postfix_str(best[0] if best else "", refresh=True)
        elif now - self._last >= _PLAIN_EVERY_S:
            self._last = now
            print(self._line or f"{self._what}  {now - self._started:.0f} s", file=sys.stderr, flush=True)

    def _open_bar(self) -> None:
        """Opens the bar at the first tick: a command that ends at once needs none."""
        if self._bar is not None or not self._budget_s:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._budget_s = None
            return
        self._bar = tqdm(
            total=round(self._budget_s, 1),
            desc=self._what,
            leave=False,
            bar_format="{desc} |{bar}| {n:.0f} of {total:.0f} s {postfix}",
        )
