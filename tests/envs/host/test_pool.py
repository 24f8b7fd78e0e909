"""What an agent sees depends on its seed, its number and its actions: not on processes, groups, timing or a restart."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from lookrep.envs import host as host_envs
from lookrep.envs.host import EnvPool, EnvPoolState
from lookrep.envs.host.pool import spin_seconds
from lookrep.envs.host.process_pool import assigned
from lookrep.envs.host.serial import episode_seed
from lookrep.errors import UserError

WALKS = ["toys:Walk"] * 5
NUMBERS = [0, 1, 2, 7, 9]
WHOLE = [slice(0, 5)]
HALVES = [slice(0, 2), slice(2, 5)]
SEED = 3
STEPS = 40


def action(agent: int, step: int) -> int:
    """Any fixed choice will do."""
    return (agent + step * step) % 3


def alone(name: str, agent: int, steps: int) -> list[tuple[object, ...]]:
    """What an agent sees, by hand: observation (of the new episode, after an end), reward, ends, last observation."""
    env, episode, seen = host_envs.make(name), 0, []
    env.reset(episode_seed(SEED, agent, 0))
    for step in range(steps):
        observation, reward, terminated, truncated, _ = env.step(action(agent, step))
        final = observation.copy()
        if terminated or truncated:
            episode += 1
            observation = env.reset(episode_seed(SEED, agent, episode))
        ended = terminated or truncated
        seen.append(
            (observation.tobytes(), np.float32(reward), terminated, truncated, final.tobytes() if ended else b"")
        )
    return seen


def play(pool: EnvPool, group: int, numbers: Sequence[int], steps: range) -> dict[int, list[tuple[object, ...]]]:
    """The same, of a group in a pool."""
    seen: dict[int, list[tuple[object, ...]]] = {agent: [] for agent in numbers}
    for step in steps:
        pool.send(group, np.array([action(agent, step) for agent in numbers]))
        observation, reward, terminated, truncated, finals, goes_on = pool.receive(group)
        assert np.shares_memory(observation, pool.observation(group))
        assert not goes_on.any()  # that is for lives lost on Atari
        for k, agent in enumerate(numbers):
            ended = bool(terminated[k] or truncated[k])
            final = finals[k].tobytes() if ended and finals is not None else b""
            seen[agent].append((observation[k].tobytes(), reward[k], bool(terminated[k]), bool(truncated[k]), final))
    return seen


@pytest.mark.parametrize("groups", [WHOLE, HALVES], ids=["one group", "two groups"])
@pytest.mark.parametrize(("processes", "spin_s"), [(0, 0.0), (1, 0.0), (3, 0.0), (3, 0.001)])
@pytest.mark.parametrize("name", ["Walk", "Unhurried"])
def test_what_an_agent_sees_does_not_depend_on_how_it_is_stepped(
    name: str, processes: int, spin_s: float, groups: list[slice]
) -> None:
    """Groups are served in another order in every step."""
    seen: dict[int, list[tuple[object, ...]]] = {agent: [] for agent in NUMBERS}
    names = [f"toys:{name}"] * 5
    with EnvPool(names, NUMBERS, SEED, groups=groups, processes=processes, spin_s=spin_s) as pool:
        for step in range(STEPS):
            order = range(len(groups))
            for group in order[:: (-1) ** step]:
                for agent, more in play(pool, group, NUMBERS[groups[group]], range(step, step + 1)).items():
                    seen[agent] += more
        episodes = pool.state().episode
    for k, agent in enumerate(NUMBERS):
        expected = alone("toys:Walk", agent, STEPS)
        assert seen[agent] == expected
        assert episodes[k] == sum(bool(terminated or truncated) for _, _, terminated, truncated, _ in expected)
    ends = [step[2:4] for steps in seen.values() for step in steps]
    assert {(True, False), (False, True)} <= set(ends)


def test_who_waits_spins_only_where_cores_would_be_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert [spin_seconds(processes) > 0 for processes in (1, 14, 15, 16)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("groups", "size", "workers", "workers_a_group"),
    [(1, 5, 3, 3), (2, 8, 16, 8), (4, 12, 16, 12), (8, 12, 16, 4), (12, 16, 16, 4), (16, 16, 16, 2), (16, 16, 32, 4)],
)
def test_many_groups_have_few_workers_each_and_all_workers_the_same_work(
    groups: int, size: int, workers: int, workers_a_group: int
) -> None:
    found = assigned(groups * [size], workers)
    everywhere = sorted((group, i) for own in found for group, part in own.items() for i in part)
    assert everywhere == [(group, i) for group in range(groups) for i in range(size)]
    assert {sum(group in own for own in found) for group in range(groups)} == {workers_a_group}
    work = [sum(map(len, own.values())) for own in found]
    assert max(work) - min(work) <= (groups * size % workers > 0)


def test_groups_of_their_own_workers_see_what_they_would_alone() -> None:
    names, groups = 12 * ["toys:Walk"], [slice(i, i + 2) for i in range(0, 12, 2)]
    with EnvPool(names, range(12), SEED, groups=groups, processes=2) as pool:
        for group in range(6):
            for agent, seen in play(pool, group, [2 * group, 2 * group + 1], range(STEPS)).items():
                assert seen == alone(names[agent], agent, STEPS)


def test_agents_and_episodes_begin_differently() -> None:
    with EnvPool(WALKS, NUMBERS, SEED, groups=WHOLE, processes=0) as pool:
        firsts = {row.tobytes() for row in pool.observation(0)}
        for _ in range(13):  # a walk is cut after 12 steps
            pool.send(0, np.ones(5, np.int64))
            pool.receive(0)
        assert (pool.state().episode > 0).all()
    assert len(firsts) == 5


@pytest.mark.parametrize("processes", [0, 2])
def test_a_resumed_pool_goes_on_as_if_nothing_had_happened(processes: int) -> None:
    with EnvPool(WALKS, NUMBERS, SEED, groups=WHOLE, processes=processes) as pool:
        play(pool, 0, NUMBERS, range(30))
        state, last = pool.state(), pool.observation(0).copy()
        uncut = play(pool, 0, NUMBERS, range(30, 60))
        assert [(part.dtype, part.ndim) for part in state[:3]] == [(np.int64, 1), (np.int64, 1), (np.uint8, 1)]
        assert state.starts is None  # a seed says it all
    with EnvPool(WALKS, NUMBERS, SEED, groups=HALVES, processes=processes, resume=state) as pool:
        assert np.array_equal(np.concatenate([pool.observation(0), pool.observation(1)]), last)
        assert all(np.array_equal(*pair) for pair in zip(pool.state()[:3], state[:3], strict=True))
        resumed = play(pool, 0, NUMBERS[:2], range(30, 60)) | play(pool, 1, NUMBERS[2:], range(30, 60))
    assert resumed == uncut


@pytest.mark.parametrize("names", [["Breakout", "Qbert"], ["Frostbite", "Kaboom"]], ids=" and ".join)
def test_two_atari_games_resume_on_the_same_bytes(names: list[str]) -> None:
    """Q*bert is one of the games that cannot simply be restored; Frostbite and Kaboom are of those whose episodes begin
    with something that the last one left behind."""
    names, numbers = [f"atari/{name}" for name in names], [0, 1]
    with EnvPool(names, numbers, SEED, groups=[slice(0, 2)], processes=2) as pool:
        play(pool, 0, numbers, range(170))
        state = pool.state()
        uncut = play(pool, 0, numbers, range(170, 350))
        after = pool.state()
    assert state.episode.sum() > 0  # at least one end before, and one after
    assert (after.episode - state.episode).sum() > 0
    state = EnvPoolState.from_json(json.loads(json.dumps(state.to_json())))
    with EnvPool(names, numbers, SEED, groups=[slice(0, 1), slice(1, 2)], processes=1, resume=state) as pool:
        assert play(pool, 0, [0], range(170, 350)) | play(pool, 1, [1], range(170, 350)) == uncut


def test_the_state_does_not_see_what_is_under_way() -> None:
    with EnvPool(WALKS, NUMBERS, SEED, groups=HALVES, processes=0) as pool:
        play(pool, 0, NUMBERS[:2], range(3))
        play(pool, 1, NUMBERS[2:], range(2))
        state = pool.state()
        pool.send(1, np.ones(3))
        assert all(np.array_equal(*pair) for pair in zip(pool.state()[:3], state[:3], strict=True))
    assert np.diff(state.offsets).tolist() == [3, 3, 2, 2, 2]


def test_the_log_has_room_for_long_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookrep.envs.host.pool.LOG_STEPS", 2)
    with EnvPool(WALKS, NUMBERS, SEED, groups=WHOLE, processes=0) as pool:
        seen = play(pool, 0, NUMBERS, range(11))
        lengths = np.diff(pool.state().offsets)
    assert lengths.max() > 4
    assert seen[0] == alone(WALKS[0], 0, 11)


def test_an_environment_that_does_not_repeat_itself_cannot_be_resumed() -> None:
    state = EnvPoolState(np.zeros(1, np.int64), np.array([0, 30]), np.full(30, 1, np.uint8))  # no walk is that long
    with pytest.raises(UserError, match=r"Forgetful failed for agent 4 .*step \d+ of 30 ended the episode this time"):
        EnvPool(["toys:Forgetful"], [4], SEED, groups=[slice(0, 1)], processes=0, resume=state)


def test_a_state_of_other_agents_is_refused() -> None:
    with EnvPool(WALKS, NUMBERS, SEED, groups=WHOLE, processes=0) as pool:
        state = pool.state()
    with pytest.raises(UserError, match="the saved state is of 5 environments, not of 2"):
        EnvPool(WALKS[:2], [0, 1], SEED, groups=[slice(0, 2)], processes=0, resume=state)


def test_environments_that_show_different_things_cannot_share_a_pool() -> None:
    with pytest.raises(UserError, match=r"toys:Walk and atari/Pong cannot share .* float32\[3\] and uint8\[84, 84\]$"):
        EnvPool(["toys:Walk", "atari/Pong"], [0, 1], SEED, groups=[slice(0, 2)], processes=0)


@pytest.mark.parametrize("groups", [[slice(0, 2), slice(3, 5)], [slice(0, 3), slice(2, 5)], [slice(0, 4)]])
def test_groups_that_leave_agents_out_are_a_mistake(groups: list[slice]) -> None:
    with pytest.raises(ValueError, match="into consecutive parts"):
        EnvPool(WALKS, NUMBERS, SEED, groups=groups, processes=0)


def test_sending_twice_is_a_mistake() -> None:
    with EnvPool(WALKS, NUMBERS, SEED, groups=WHOLE, processes=0) as pool:
        with pytest.raises(RuntimeError, match="send actions before receiving"):
            pool.receive(0)
        pool.send(0, np.ones(5))
        with pytest.raises(RuntimeError, match="before sending new ones"):
            pool.send(0, np.ones(5))


def test_stacked_frames_leave_final_observations_to_the_trainer() -> None:
    with EnvPool(["atari/Pong"], [0], SEED, groups=[slice(0, 1)], processes=0) as pool:
        pool.send(0, np.zeros(1))
        assert pool.receive(0).final_observation is None
