"""The comparison with Dopamine: its driver's loop and settings, and what is said where Dopamine is not installed."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import dopamine_driver
import pytest
from dopamine_rainbow import Dopamine

from lookrep.config import preset
from lookrep.errors import UserError


class Env:
    """Episodes of three steps; rewards beyond what learning should see."""

    game_over = False
    steps = 0

    def reset(self) -> str:
        self.steps, self.game_over = 0, False
        return "start"

    def step(self, action: int) -> tuple[str, float, bool, dict]:
        self.steps += 1
        self.game_over = self.steps == 3
        return f"after {action}", 7.0 if self.steps % 2 else -7.0, self.game_over, {}


class Agent:
    """Says 0, 1, 2, …, and writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def begin_episode(self, observation: str) -> int:
        self.heard.append(observation)
        return len(self.heard)

    def step(self, reward: float, observation: str) -> int:
        self.heard.append((reward, observation))
        return len(self.heard)

    def end_episode(self, reward: float, terminal: bool) -> None:
        self.heard.append((reward, terminal))


def test_the_driver_plays_whole_episodes_with_clipped_rewards_in_portions_of_any_size() -> None:
    agent = Agent()
    play = dopamine_driver.player(Env(), agent)
    episode = ["start", (1.0, "after {0}"), (-1.0, "after {1}"), (1.0, True)]
    for steps in (1, 2, 4):
        play(steps)
    expected = [
        entry if isinstance(entry, str) else tuple(v.format(n, n + 1) if isinstance(v, str) else v for v in entry)
        for n in (1, 5)
        for entry in episode
    ]
    assert agent.heard == [*expected, "start", (1.0, "after 9")]


def test_the_driver_sets_what_our_preset_sets() -> None:
    text = dopamine_driver.SETTINGS.format(game="Breakout", warmup_steps=400, capacity_steps=20_000)
    theirs = dict(re.findall(r"(\S+) = (\S+)", text))
    ours = preset("dopamine-rainbow")
    assert float(theirs["JaxDQNAgent.gamma"]) == ours.learning.discount
    assert int(theirs["JaxRainbowAgent.update_horizon"]) == ours.learning.n_steps
    assert int(theirs["JaxDQNAgent.update_period"]) == ours.learning.steps_per_update
    period_steps = ours.target.target_period_updates * ours.learning.steps_per_update
    assert int(theirs["JaxDQNAgent.target_update_period"]) == period_steps
    assert float(theirs["create_optimizer.learning_rate"]) == ours.learning.learning_rate
    assert float(theirs["create_optimizer.eps"]) == ours.learning.adam_epsilon
    assert int(theirs["ReplayBuffer.batch_size"]) == ours.learning.batch_size
    assert theirs["ReplayBuffer.max_capacity"] == theirs["PrioritizedSamplingDistribution.max_capacity"] == "20000"
    assert theirs["JaxRainbowAgent.min_replay_history"] == "400"
    assert theirs["atari_lib.create_atari_environment.game_name"] == "'Breakout'"


def test_where_dopamine_is_not_installed_its_last_words_are_one_line() -> None:
    with pytest.raises(UserError) as caught:
        Dopamine(Path(sys.executable), "Breakout", 400, 20_000)
    assert re.fullmatch(
        r"\S+: Dopamine does not run there: ModuleNotFoundError: No module named '\w+'", str(caught.value)
    )


def test_a_python_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^.*/nowhere: cannot be started \(No such file or directory\)$"):
        Dopamine(tmp_path / "nowhere", "Breakout", 400, 20_000)


def test_steps_are_asked_for_and_answered_line_by_line_whatever_the_libraries_print(tmp_path: Path) -> None:
    # In place of a Python with Dopamine, one that answers as the driver does: twice as many seconds as steps.
    stand_in = tmp_path / "python"
    stand_in.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "print('noise', file=sys.stderr)\n"
        "print(json.dumps({'agent': 'JaxRainbowAgent', 'arguments': sys.argv[2:]}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    if line == '0\\n':\n"
        "        sys.exit('out of memory')\n"
        "    print(json.dumps({'seconds': 2 * int(line), 'updates': int(line) // 4}), flush=True)\n"
    )
    os.chmod(stand_in, 0o755)
    with Dopamine(stand_in, "Pong", 400, 20_000, repaired=True) as peer:
        assert peer.description["arguments"] == [
            "--game", "Pong", "--warmup-steps", "400", "--capacity-steps", "20000", "--repair-priorities",
        ]  # fmt: skip
        assert peer.step(8) == (16, 2)
        with pytest.raises(UserError, match=r"Dopamine does not run there: out of memory$"):
            peer.step(0)
