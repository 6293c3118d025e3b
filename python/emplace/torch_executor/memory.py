"""Memory of a step, from when its tasks ran: the simulator's rules on measured times."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emplace.applying.plan import StepPlan
    from emplace.applying.running import Times


@dataclasses.dataclass(frozen=True)
class Peak:
    """Bytes in use on a device after a task took some; ``task`` -1: state."""

    bytes: int
    task: int = -1
    asked: int = 0


class Memory:
    """State is there for the whole step, an output until its last reader or copy has ended, a result until
    the end.
    """

    def __init__(self, plan: StepPlan) -> None:
        self.resident = plan.resident_bytes()
        self._held = [held for held in plan.held() if held.bytes]

    def _changes(self, times: Times) -> list[tuple[int, bool, int, int, int]]:
        """(time, takes, task, device, bytes); at one moment memory is freed first."""
        found = []
        for held in self._held:
            found.append((times.start[held.taker], True, held.taker, held.device, held.bytes))
            if held.users:
                end = max(times.end[user] for user in held.users)
                found.append((end, False, held.taker, held.device, -held.bytes))
        return sorted(found)

    def levels(self, times: Times) -> list[tuple[int, int, int]]:
        """(time in ns, device, bytes in use from then on), by time, from the step's start on."""
        now = list(self.resident)
        found = [(times.begin_ns, device, level) for device, level in enumerate(now)]
        for at, _, _, device, change in self._changes(times):
            now[device] += change
            if found[-1][:2] == (at, device):
                found.pop()
            found.append((at, device, now[device]))
        return found

    def peaks(self, times: Times) -> list[Peak]:
        """The most that each device held."""
        now = list(self.resident)
        found = [Peak(level) for level in now]
        for _, takes, task, device, change in self._changes(times):
            now[device] += change
            if takes and now[device] > found[device].bytes:
                found[device] = Peak(now[device], task, change)
        return found

    def first_above(self, times: Times, device: int, cap: int) -> Peak:
        """The first task that did not fit under a cap."""
        now = self.resident[device]
        for _, takes, task, where, change in self._changes(times):
            if where == device:
                now += change
                if takes and now > cap:
                    return Peak(now, task, change)
        return Peak(now)
