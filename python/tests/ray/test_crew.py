"""How many actors the crew keeps, by demand and time: numbers only, no Ray and no clock."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from emplace.ray.crew import Crew, Drain, Limits, Node, Process, Release, Start, State, Status


class World:
    """A crew and the time. Every actor that is started is placed at once, unless `places` is False."""

    def __init__(self, **limits: float) -> None:
        self.crew = Crew(Limits(**limits))  # type: ignore[arg-type]
        self.now = 0.0
        self.places = True
        self.others = 0
        self.running: dict[int, Node] = {}
        self.log: list[object] = []

    def status(self, wanted: int, lists: bool = True) -> None:
        """The run reports, and lists all that run."""
        nodes = tuple(self.running.values()) if lists else ()
        total = sum(node.executors for node in nodes) + self.others
        self.crew.on_status(Status(wanted, total, nodes), self.now)
        self.act()

    def act(self) -> None:
        """Carries out the actions of the crew; a drain ends by `end`."""
        for action in self.crew.actions(self.now):
            self.log.append(action)
            if isinstance(action, Start) and self.places:
                self.place(action.number)
            if isinstance(action, Release):
                self.end(action.number)

    def place(self, number: int, ray_node: str = "") -> None:
        process = Process("host", 100 + number)
        self.crew.on_started(number, process, ray_node or f"node{number}")
        self.running[number] = Node(process, self.crew.limits.executors_per_actor, 0)

    def end(self, number: int) -> None:
        self.running.pop(number, None)
        self.crew.on_ended(number, self.now)

    def steady(self, wanted: int, seconds: float) -> None:
        """The same demand for some time, reported once a second."""
        end = self.now + seconds
        while self.now < end:
            self.now += 1
            self.status(wanted)

    def drains(self) -> list[int]:
        return [action.number for action in self.log if isinstance(action, Drain)]

    def drain_all(self) -> None:
        for number in self.drains():
            self.end(number)

    @property
    def there(self) -> int:
        return sum(member.state != State.DRAINING for member in self.crew.members.values())


def test_follows_the_demand_from_none_to_many_and_back_to_none() -> None:
    world = World(idle_s=5)
    world.status(0)
    assert world.there == 0
    world.steady(3, 2)
    assert world.there == 3 and world.crew.starts == 3
    world.steady(0, 4)
    assert world.there == 3, "not before the idle limit"
    world.steady(0, 2)
    assert world.there == 0 and sorted(world.drains()) == [1, 2, 3]
    world.drain_all()
    assert not world.crew.members
    world.steady(2, 1)
    assert world.there == 2


def test_a_demand_that_swings_within_the_idle_limit_stops_no_actor() -> None:
    world = World(idle_s=5)
    for _ in range(20):
        world.steady(3, 2)
        world.steady(1, 3)
    assert world.crew.starts == 3 and not world.drains()


def test_only_actors_unneeded_for_the_whole_idle_limit_leave() -> None:
    world = World(idle_s=5)
    world.steady(5, 2)
    world.steady(3, 3)
    world.steady(2, 3)
    assert world.there == 3, "5 are too many for 6 s, 3 only for 3 s"


@pytest.mark.parametrize(("most", "each", "wanted", "actors"), [(4, 1, 9, 4), (5, 2, 9, 2), (None, 4, 9, 3)])
def test_the_bound_counts_whole_actors(most: int | None, each: int, wanted: int, actors: int) -> None:
    world = World(most=most, executors_per_actor=each)  # type: ignore[arg-type]
    world.steady(wanted, 2)
    assert world.there == actors


def test_executors_that_joined_otherwise_count() -> None:
    world = World(idle_s=2)
    world.others = 2
    world.steady(3, 2)
    assert world.there == 1
    world.others = 5
    world.steady(3, 4)
    assert world.there == 0
    world.drain_all()
    world.others = 0
    world.steady(3, 2)
    assert world.there == 3


def test_a_killed_actor_is_replaced_at_once_although_the_run_still_lists_it() -> None:
    world = World()
    world.steady(3, 2)
    world.crew.on_ended(2, world.now)  # The run has not noticed: it is still among the nodes.
    world.act()
    assert world.crew.starts == 4 and world.there == 3
    world.status(3)
    assert world.crew.starts == 4, "its last report is not taken for an executor of others"


def test_an_actor_that_the_run_has_lost_is_replaced() -> None:
    world = World(absent_s=4)
    world.steady(2, 2)
    del world.running[1]
    world.steady(2, 4)
    assert not [action for action in world.log if isinstance(action, Release)]
    world.steady(2, 1)
    assert Release(1, "the run has lost it") in world.log
    world.steady(2, 1)
    assert world.there == 2 and 1 not in world.crew.members


def test_a_restart_of_the_head_stops_no_actor() -> None:
    """The head does not report, then reports no nodes, then all of them again."""
    world = World(absent_s=4)
    world.steady(3, 2)
    world.now += 30
    world.act()
    for _ in range(3):
        world.now += 1
        world.status(3, lists=False)
    world.steady(3, 20)
    assert world.crew.starts == 3 and not world.drains()


def test_the_cheapest_actors_leave_first() -> None:
    world = World(idle_s=1)
    world.places = False
    world.steady(5, 1)
    for number, ray_node in ((1, "a"), (2, "a"), (3, "b"), (4, "c")):  # Actor 5 waits for a node.
        world.place(number, ray_node)
    world.running[3] = Node(world.running[3].process, 1, in_flight=8)
    world.steady(5, 1)
    world.steady(2, 3)
    assert world.log[5:] == [Release(5), Drain(4), Drain(3)], (
        "pending; alone on a node and idle; alone on a node"
    )


def test_a_drain_that_takes_too_long_is_cut_short() -> None:
    world = World(idle_s=1, drain_s=5)
    world.steady(1, 2)
    world.steady(0, 3)
    assert world.drains() == [1]
    world.steady(0, 3)
    assert 1 in world.crew.members
    world.steady(0, 2)
    assert Release(1) in world.log and not world.crew.members


def test_actors_that_never_take_part_are_retried_with_backoff() -> None:
    world = World(first_delay_s=1, longest_delay_s=30)
    world.places = False
    starts: list[float] = []
    for tenth in range(3_000):
        world.now = tenth / 10
        if tenth % 10 == 0:
            world.status(4)
        world.act()
        for action in world.log:
            if isinstance(action, Start):
                starts.append(world.now)
                world.end(action.number)  # For example, its program is missing.
        world.log.clear()
    gaps = [later - earlier for earlier, later in zip(starts, starts[1:], strict=False) if later > earlier]
    assert len(starts) < 20 and max(gaps) == pytest.approx(30, abs=0.2)
    assert len({start for start in starts[4:]}) == len(starts[4:]), "one at a time, once it has failed"
    world.now += 31
    world.places = True
    world.act()
    world.status(4)
    world.act()
    assert world.there == 4, "one that takes part ends the wait"


def test_closing_drains_all_actors_and_starts_none() -> None:
    world = World()
    world.steady(3, 2)
    world.places = False
    world.steady(4, 1)
    world.crew.close()
    world.act()
    assert sorted(world.drains()) == [1, 2, 3] and Release(4) in world.log and not world.crew.closed
    world.drain_all()
    world.status(9)
    assert world.crew.closed and world.crew.starts == 4


def test_late_reports_about_ended_actors_are_ignored() -> None:
    world = World()
    world.steady(1, 2)
    world.end(1)
    world.crew.on_ended(1, world.now)
    world.crew.on_started(1, Process("host", 1), "a")
    assert not world.crew.members


def _demands(rng: random.Random) -> Iterator[int]:
    while True:
        demand = rng.choice((0, 0, 1, 2, 3, 8))
        for _ in range(rng.randrange(1, 15)):
            yield demand


@pytest.mark.parametrize("seed", range(50))
def test_reaches_the_demand_again_after_random_faults(seed: int) -> None:
    """Deaths, lost drains, and slow placements at random; then all is well, and the demand is met."""
    rng = random.Random(seed)
    limits = {"executors_per_actor": rng.choice((1, 3)), "most": rng.choice((3, 6, None))}
    world = World(**limits)  # type: ignore[arg-type]
    demands = _demands(rng)
    world.places = False
    for _ in range(200):
        world.now += 1
        for number, member in list(world.crew.members.items()):
            what = rng.random()
            if member.state == State.PENDING and what < 0.5:
                world.place(number, f"node{rng.randrange(3)}")
            elif what < 0.1 or (member.state == State.DRAINING and what < 0.6):
                world.end(number)
            elif what < 0.12:
                world.running.pop(number, None)
        world.status(next(demands))
        bound = world.crew.limits.most
        assert bound is None or world.there * world.crew.limits.executors_per_actor <= bound
        due = world.crew.next_s(world.now)
        assert due is None or due >= world.now
    world.places = True
    for number, member in world.crew.members.items():
        if member.state == State.PENDING:
            world.place(number)
    world.steady(2, 60)
    assert world.there == (2 if world.crew.limits.executors_per_actor == 1 else 1)
