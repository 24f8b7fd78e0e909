"""Atari plays as ALE's own vector environment does, byte by byte; only its sticky actions are drawn elsewhere."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ale_py
import ale_py.roms
import cv2
import numpy as np
import pytest
from ale_py import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from scipy import stats

from lookrep.envs import host as host_envs
from lookrep.envs.host import atari_roms
from lookrep.envs.host.atari import Atari, AtariRules, exact_restart
from lookrep.errors import UserError

DOPAMINE = {
    "noop_max": 0,
    "use_fire_reset": False,
    "reward_clipping": False,
    "autoreset_mode": AutoresetMode.SAME_STEP,
    "stack_num": 1,
    "num_threads": 1,
}


def vector_env(game: str, stickiness: float) -> AtariVectorEnv:
    # Its own time limit is never reached here: at that one step it shows an old screen.
    return AtariVectorEnv(game, 1, repeat_action_probability=stickiness, **DOPAMINE)


class Step(NamedTuple):
    picture: bytes
    reward: float
    over: bool


def played(env: AtariVectorEnv, seed: int, actions: np.ndarray) -> list[Step]:
    """One episode, from a freshly loaded ROM, as far as it, or the actions, go."""
    first, _ = env.reset(seed=seed, options={"reset_mask": np.array([True])})
    steps = [Step(first.tobytes(), 0.0, False)]
    for action in actions:
        picture, reward, terminated, _, _ = env.step(np.array([action]))
        steps.append(Step(picture.tobytes(), float(reward[0]), bool(terminated[0])))
        if steps[-1].over:
            break
    return steps


# Breakout is plain; Q*bert's saved states lack something.
@pytest.mark.parametrize(("game", "max_steps", "games_over"), [("breakout", 200, 4), ("qbert", 400, 4)])
def test_every_episode_is_that_of_a_freshly_loaded_vector_environment(
    game: str, max_steps: int, games_over: int
) -> None:
    oracle, ours = vector_env(game, 0.0), Atari(game, AtariRules(sticky_actions=0.0), max_steps=max_steps)
    oracle.reset(seed=1)
    random = np.random.default_rng(5)
    for episode in range(1, 5):
        actions = random.integers(ours.spec.num_actions, size=max_steps)
        first, *expected = played(oracle, episode, actions)
        assert ours.reset(episode).tobytes() == first.picture
        for count, (action, step) in enumerate(zip(actions, expected, strict=False), start=1):
            outcome = ours.step(action)
            assert (outcome.reward, outcome.terminated) == (step.reward, step.over)
            assert outcome.truncated == (count == max_steps and not step.over)
            if not step.over:  # then the oracle's picture is already the next episode's
                assert outcome.observation.tobytes() == step.picture
        games_over -= outcome.terminated
    assert games_over == 0


def test_in_some_games_an_episode_starts_with_what_the_last_one_left_behind() -> None:
    """In Assault it is the state of a random number generator, so no two games are alike. ALE's own resets say how."""
    ours, ale = Atari("assault", AtariRules(sticky_actions=0.0)), atari_roms.emulator("assault")
    legal, random, firsts = ale.getMinimalActionSet(), np.random.default_rng(3), set()
    for _ in range(2):
        ale.reset_game()  # as often as ours was
    for episode in range(4):
        ale.reset_game()
        assert ours.reset(episode).tobytes() == picture(ale.getScreenGrayscale())
        firsts.add(ale.getRAM().tobytes())
        for action in random.integers(len(legal), size=random.integers(50, 90)):
            screens = []
            for _ in range(4):
                ale.act(legal[action])
                screens.append(ale.getScreenGrayscale())
            assert ours.step(action).observation.tobytes() == picture(np.maximum(*screens[-2:]))
    assert len(firsts) == 4


def picture(screen: np.ndarray) -> bytes:
    return cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA).tobytes()


@pytest.mark.parametrize("game", ["assault", "kung_fu_master", "breakout"])
def test_an_episode_can_be_begun_again_elsewhere(game: str) -> None:
    """And so can all that follow."""

    def play(env: Atari) -> list[bytes]:
        return [env.step(k % 5 % env.spec.num_actions).observation.tobytes() for k in range(40)]

    one, other = Atari(game), Atari(game)
    for seed in range(3):
        one.reset(seed)
        play(one)
    first, start = one.reset(9).tobytes(), one.start()
    assert len(start) == one.spec.start_bytes
    expected = [first, *play(one), one.reset(10).tobytes(), *play(one)]
    assert [other.reset(9, start).tobytes(), *play(other), other.reset(10).tobytes(), *play(other)] == expected


@pytest.mark.parametrize("game", ["breakout", "road_runner", "boxing"])
def test_ales_vector_environment_does_what_the_protocol_says_with_sticky_actions_too(game: str) -> None:
    """Written down once more, from ALE's screens: so frames, skips and rewards mean what we think they mean."""
    for seed in (3, 4):
        actions = np.random.default_rng(seed).integers(3, size=200)
        ale = ale_py.ALEInterface()
        ale.setInt("random_seed", seed)
        ale.setFloat("repeat_action_probability", 0.25)
        ale.loadROM(ale_py.roms.get_rom_path(game))
        ale.reset_game()
        legal = ale.getMinimalActionSet()
        screens = [ale.getScreenGrayscale()] * 2
        rewards = 0
        for count, step in enumerate(played(vector_env(game, 0.25), seed, actions)):
            if count:
                screens, rewards = [], 0
                for _ in range(4):
                    rewards += ale.act(legal[actions[count - 1]])
                    screens.append(ale.getScreenGrayscale())
            assert (rewards, ale.game_over()) == (step.reward, step.over)
            if not step.over:
                assert picture(np.maximum(screens[-2], screens[-1])) == step.picture


class Spy:
    """An emulator that only remembers what it was told."""

    def __init__(self, emulator: Any) -> None:
        self._emulator, self.told = emulator, []

    def act(self, action: Any) -> int:
        self.told.append(action)
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._emulator, name)


def test_each_frame_keeps_the_previous_action_with_probability_one_quarter() -> None:
    env = Atari("freeway")
    env.reset(11)
    spy = env._ale = Spy(env._ale)
    late: list[int] = []  # frames until a new action gets through; 4: not within its step
    for k in range(4000):
        before = spy.told[-1] if spy.told else None
        env.step(k % 3)
        told, wanted = spy.told[-4:], atari_roms.minimal_actions("freeway")[k % 3]
        if before != wanted:
            late.append(told.index(wanted) if wanted in told else 4)
            assert told == [before or atari_roms.minimal_actions("freeway")[0]] * late[-1] + [wanted] * (4 - late[-1])
    expected = np.array([0.75 * 0.25**k for k in range(4)] + [0.25**4]) * len(late)
    assert stats.chisquare(np.bincount(late, minlength=5), expected).pvalue > 0.01


def test_an_episode_follows_from_its_seed() -> None:
    one, other = Atari("Breakout"), Atari("breakout")
    other.reset(9)
    for k in range(50):
        other.step(k % 4)

    def episode(env: Atari, seed: int) -> bytes:
        return env.reset(seed).tobytes() + b"".join(env.step(1 + k % 3).observation.tobytes() for k in range(60))

    assert episode(one, 7) == episode(other, 7) != episode(one, 8)


@pytest.mark.parametrize("game", ["breakout", "assault"])  # plain; and one whose episodes leave traces
def test_playing_ahead_changes_nothing(game: str) -> None:
    ours, hasty = (Atari(game, AtariRules(sticky_actions=0.6), max_steps=300) for _ in range(2))
    random, episodes, frames_ahead = np.random.default_rng(2), 0, 0
    for _ in range(1200):
        for _ in range(random.integers(3)):  # once or twice, or not at all
            before = hasty._ale.getEpisodeFrameNumber()
            hasty.play_ahead()
            frames_ahead += hasty._ale.getEpisodeFrameNumber() - before
        action = int(random.integers(ours.spec.num_actions))
        expected, found = ours.step(action), hasty.step(action)
        assert found[1:] == expected[1:]
        assert found.observation.tobytes() == expected.observation.tobytes()
        if found.terminated or found.truncated:
            episodes += 1
            assert hasty.reset(episodes).tobytes() == ours.reset(episodes).tobytes()
            assert hasty.start() == ours.start()
    assert episodes > 2
    assert frames_ahead > 300


def test_an_emulator_whose_states_cannot_be_restored_loads_its_rom_anew() -> None:
    emulator = atari_roms.emulator("assault")  # its reset_game alone is not exact either
    emulator.reset_game()
    actions = atari_roms.minimal_actions("assault")
    loads = []

    class Broken(Spy):
        def act(self, action: Any) -> int:
            return int(emulator.act(action))

        def restoreState(self, state: Any) -> None:
            pass

    def reload() -> None:
        loads.append(emulator.loadROM(atari_roms.rom_path("assault")))

    first = emulator.getRAM().tobytes()
    restart = exact_restart(Broken(emulator), actions, reload)
    assert emulator.getRAM().tobytes() != first
    restart()
    assert len(loads) == 1
    assert emulator.getRAM().tobytes() == first


def test_the_screen_of_a_new_episode_is_not_that_of_the_old_one() -> None:
    env = Atari("Breakout")
    env.reset(0)
    first = env.screen()
    assert first.shape == (210, 160, 3)
    assert first.dtype == np.uint8
    for k in range(30):
        env.step(k % 4)
    assert not np.array_equal(env.screen(), first)
    env.reset(1)
    assert np.array_equal(env.screen(), first)


class Life(NamedTuple):
    """What Dopamine's AtariPreprocessing gives with terminal_on_life_loss, written down from its source."""

    picture: bytes
    reward: int
    terminal: bool
    over: bool


def dopamines(game: str, actions: np.ndarray) -> Iterator[Life]:
    ale = atari_roms.emulator(game)
    ale.reset_game()
    legal, lives = atari_roms.minimal_actions(game), ale.lives()
    screens = [ale.getScreenGrayscale(), ale.getScreenGrayscale()]
    for action in actions:
        reward = 0
        for frame in range(4):
            reward += ale.act(legal[action])
            before, lives = lives, ale.lives()
            terminal = ale.game_over() or lives < before
            if terminal:
                break
            if frame >= 2:
                screens[frame - 2] = ale.getScreenGrayscale()
        yield Life(picture(np.maximum(*screens)), reward, terminal, ale.game_over())


def test_a_lost_life_is_terminal_for_learning_and_the_game_goes_on_as_dopamines_does() -> None:
    env = Atari("breakout", AtariRules(sticky_actions=0.0, life_loss_terminal=True))
    random = np.random.default_rng(1)
    for episode in range(2):
        env.reset(episode)
        terminals, rewards, actions = 0, 0.0, random.integers(4, size=2000)
        for expected, action in zip(dopamines("breakout", actions), actions, strict=True):
            found = env.step(int(action))
            assert (found.reward, found.terminated, found.over) == expected[1:]
            assert found.goes_on == (found.terminated and not found.over)
            assert found.over or found.observation.tobytes() == expected.picture
            terminals, rewards = terminals + found.terminated, rewards + found.reward
            if found.over:
                break
        assert found.over
        assert terminals == 5  # Breakout's lives, of one game
        assert rewards > 0


def test_a_resumed_game_with_lost_lives_goes_on_where_it_was() -> None:
    """The actions of the whole game are kept, not those since the last life."""
    rules, random = AtariRules(life_loss_terminal=True), np.random.default_rng(3)
    with host_envs.EnvPool(["atari/Breakout"], [0], 7, groups=[slice(0, 1)], processes=0, rules=rules) as pool:
        lost = 0
        while lost < 2:
            pool.send(0, random.integers(4, size=1))
            step = pool.receive(0)
            lost += int(step.goes_on[0])
        assert not step.over[0]
        state, seen = pool.state(), pool.observation(0).copy()
    assert state.episode.tolist() == [0]
    resumed = host_envs.EnvPool(
        ["atari/Breakout"], [0], 7, groups=[slice(0, 1)], processes=1, resume=state, rules=rules
    )
    with resumed as pool:
        assert np.array_equal(pool.observation(0), seen)


def test_action_names_are_ales() -> None:
    assert Atari("Breakout").action_names() == ["NOOP", "FIRE", "RIGHT", "LEFT"]


@pytest.mark.parametrize("name", ["RoadRunner", "roadrunner", "road_runner", "Road-Runner"])
def test_a_game_has_many_spellings_and_one_name(name: str) -> None:
    assert host_envs.canonical(f"atari/{name}") == "atari/RoadRunner"
    spaces = host_envs.check(f"atari/{name}")
    assert spaces == ((84, 84), np.uint8, 18, 4, True, 16_384)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Brekout", "Atari game 'Brekout' is unknown: did you mean atari/Breakout?"),
        ("Xyzzy", "Atari game 'Xyzzy' is unknown: try atari/Breakout"),
        ("Joust", "atari/Joust is a game for two players only: choose another"),
    ],
)
def test_a_game_that_cannot_be_played_is_one_clear_line(name: str, line: str) -> None:
    with pytest.raises(UserError) as error:
        host_envs.check(f"atari/{name}")
    assert str(error.value) == line


def test_a_missing_rom_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(UserError, match=r"^atari/Breakout: no ROM .*breakout\.bin.*; reinstall ale-py, .*$"):
        host_envs.make("atari/breakout")
    assert capfd.readouterr() == ("", "")


def test_a_folder_of_other_roms_is_used_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rom = bytearray(atari_roms.rom_path("breakout").read_bytes())
    assert host_envs.versions(["atari/Breakout"]) == {"ale-py": ale_py.__version__}
    rom[-100] ^= 1
    (tmp_path / "breakout.bin").write_bytes(rom)
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    assert atari_roms.rom_path("breakout") == tmp_path / "breakout.bin"
    assert host_envs.versions(["atari/Breakout", "gym/CartPole-v1"]) == {
        "ale-py": ale_py.__version__,
        "roms": f"breakout {hashlib.md5(rom).hexdigest()}",
    }


def test_a_damaged_rom_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "breakout.bin").write_bytes(b"half a game")
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(
        UserError, match=r"^atari/Breakout: the ROM at .* is damaged \(it has 11 bytes instead of 2,048\)"
    ):
        host_envs.make("atari/breakout")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    atari_roms.libraries.cache_clear()
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UserError, match=r"needs more packages: pip install 'lookrep\[atari\]'"):
        host_envs.check("atari/Breakout")
