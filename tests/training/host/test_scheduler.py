"""Groups are served as they become ready. Played with a clock that only moves when the host works or waits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lookrep.training.host.scheduler import serve
from lookrep.training.host.stopwatch import Stopwatch

LAUNCH, NAP = 2, 1


@dataclass
class World:
    """Stands in for a pool: each group's environments take their time."""

    play_takes: Sequence[int]
    network_takes: int = 3
    now: int = 0
    played_at: dict[int, int] = field(default_factory=dict)
    events: list[tuple[str, int]] = field(default_factory=list)
    learners: list[int] = field(default_factory=list)
    ready_at_updates: list[frozenset[int]] = field(default_factory=list)

    def ready(self, group: int) -> bool:
        return self.now >= self.played_at[group]

    def first_ready(self, groups: Sequence[int]) -> int | None:
        return next(filter(self.ready, groups), None)

    def wait_for_any(self, groups: Sequence[int]) -> None:
        self.now = max(self.now, min(self.played_at[group] for group in groups))

    def nap(self) -> None:
        self.now += NAP


@dataclass
class Group:
    """Stands in for a runner, with an update due every second step."""

    world: World
    number: int
    steps: int = 0
    update_due: bool = False
    decided_at: int = 0

    def actions_ready(self) -> bool:
        return self.world.now >= self.decided_at

    def act(self) -> None:
        self.world.now = max(self.world.now, self.decided_at)
        self.world.played_at[self.number] = self.world.now + self.world.play_takes[self.number]
        self.world.events.append(("act", self.number))

    def observe(self) -> None:
        assert self.world.ready(self.number)
        assert not self.update_due  # what an observation writes over has been learnt from
        del self.world.played_at[self.number]
        self.steps += 1
        self.world.now += LAUNCH
        self.decided_at = self.world.now + self.world.network_takes
        self.update_due = self.steps % 2 == 0
        self.world.events.append(("observe", self.number))

    def learn(self) -> None:
        if self.update_due:
            ready = frozenset(group for group in self.world.played_at if self.world.ready(group))
            self.world.learners.append(self.number)
            self.world.ready_at_updates.append(ready)
            self.update_due = False
            self.world.now += LAUNCH
            self.world.events.append(("learn", self.number))


def served(world: World, until_steps: int, steps: Sequence[int] = ()) -> list[Group]:
    groups = [Group(world, number, before) for number, before in enumerate(steps or [0] * len(world.play_takes))]
    stand_ins: Any = groups, world
    serve(*stand_ins, Stopwatch(), until_steps)
    return groups


def test_one_group_acts_before_it_learns() -> None:
    world = World([20])
    (group,) = served(world, 5)
    assert group.steps == 5
    assert [event for event, _ in world.events] == (
        ["act", "observe", "act", "observe", "act", "learn", "observe", "act", "observe", "act", "learn", "observe"]
    )


def test_all_groups_get_to_the_end_and_have_learnt_there() -> None:
    world = World([9, 31, 5])
    for group in served(world, 40):
        assert (group.steps, group.update_due) == (40, False)
    assert [world.events.count(("learn", number)) for number in range(3)] == [20, 20, 20]


def test_groups_that_are_there_already_do_nothing() -> None:
    world = World([9, 9])
    served(world, 6, steps=[6, 4])
    assert {number for _, number in world.events} == {1}
    assert not served(World([9]), 0)[0].steps


def test_nobody_waits_for_a_slow_group() -> None:
    world = World([10, 1000])
    served(world, 20)
    first_of_the_slow = world.events.index(("observe", 1))
    assert world.events[:first_of_the_slow].count(("observe", 0)) == 20


def test_while_one_groups_networks_act_another_observes() -> None:
    """Two groups whose networks take as long as their play: in a fixed order each would wait for the other's."""
    together, alone = World([50, 50], network_takes=50), World([50], network_takes=50)
    served(together, 30)
    served(alone, 30)
    assert together.now < 1.1 * alone.now


def test_updates_give_way_to_observations() -> None:
    """An update is launched while nobody is ready, or because its own group is to observe."""
    world = World([10, 14, 11])
    served(world, 60)
    assert world.ready_at_updates.count(frozenset()) > 10
    assert all(group in ready for group, ready in zip(world.learners, world.ready_at_updates, strict=True) if ready)
