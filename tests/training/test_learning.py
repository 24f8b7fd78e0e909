"""Every agent with every target update learns the museum's known values, through the real engine.

What must come out, with discount ½ and actions drawn at random throughout, is worked out here by hand and by a few
lines of numpy, never by the code under test.
"""

import dataclasses

import jax
import numpy as np
import probes
import pytest

from lookrep import config as configs
from lookrep.config import RunConfig
from lookrep.training.fused import FusedEngine, TrainState

pytestmark = pytest.mark.usefixtures("quick_compilation")

DISCOUNT = 0.5
ATOMS = np.linspace(-2.0, 4.0, 13)  # every half: all returns below fall on an atom
QUANTILES = 8
PRIZE_PROBABILITY = 0.25
UPDATES = 1500
TOLERANCE = 0.12  # of a value; a mistake would show as 0.25 or more
CHANCE_TOLERANCE = 0.25  # where the return is random: 600 draws in the replay, and the last updates' own noise


def settings(agent: str, target: str) -> configs.AgentConfig:
    preset = configs.preset(agent)
    return dataclasses.replace(
        preset,
        network=dataclasses.replace(preset.network, network="mlp:32"),
        learning=dataclasses.replace(
            preset.learning, discount=DISCOUNT, batch_size=64, learning_rate=2e-3, adam_epsilon=1e-8,
            atoms=len(ATOMS), v_min=ATOMS[0], v_max=ATOMS[-1], quantiles=QUANTILES,
        ),
        replay=dataclasses.replace(preset.replay, replay_capacity_steps=8192, warmup_steps=2048),
        exploration=configs.ExplorationConfig(epsilon_start=1.0, epsilon_end=1.0),
        target=configs.TargetConfig(
            target=target, target_period_updates=50, tau=0.05, replicate_updates=25, replicate_learning_rate=4e-3,
            replicate_batch_size=64,
        ),
    )  # fmt: skip


def trained(agent: str, target: str, env: probes.Museum, agents: int = 1) -> tuple[FusedEngine, TrainState]:
    steps = 2048 + 4 * UPDATES
    config = RunConfig("probes:Museum", agent, agents, steps=steps, settings=settings(agent, target))
    engine = FusedEngine(config, env)
    return engine, engine.advance(engine.init(), steps)


def both_networks(engine: FusedEngine, state: TrainState) -> list[np.ndarray]:
    """What the online and the target network of each agent say about every place: [agents, places, actions, K]."""
    agent, places = engine.agent, np.eye(probes.PLACES, dtype=bool)
    pairs = ((agent.online, state.agents.online), (agent.target, state.agents.target.params))
    return [np.asarray(jax.vmap(lambda p: network.apply(p, places, None).per_action)(ps)) for network, ps in pairs]


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def known_values(n_steps: int) -> dict[int, tuple[float, float]]:
    """What each place is worth by action, the lottery apart."""
    both = {probes.PAYS_ONE: 1.0, probes.TWO_STEPS: 1.0, probes.PAYS_TWO: 2.0}
    both |= dict(zip(probes.CHAIN, (0.125, 0.25, 0.5, 1.0), strict=True))
    both[probes.TREADMILL] = 2.0  # 1 + ½ + ¼ + …: cut short, it would be 1.5 at the door and 1 after a step
    # One step looks ahead to the better action; n steps sum what the actions at random really got: ±½ on average 0.
    both[probes.BEFORE_CHOICE] = 0.5 if n_steps == 1 else 0.0
    return {place: (v, v) for place, v in both.items()} | {probes.CHOICE: (-1.0, 1.0)}


def known_prize_probability(prioritised: bool) -> float:
    """Uniform replay shows the prize as often as it comes. Under Dopamine's priorities an item of loss ℓ is drawn with
    probability ∝ √ℓ and weighs 1/√√ℓ: it counts ℓ^¼-fold, and the probability p learned is where that balances."""
    p = PRIZE_PROBABILITY
    for _ in range(100 * prioritised):
        prize = PRIZE_PROBABILITY * (-np.log(p)) ** 0.25
        p = prize / (prize + (1 - PRIZE_PROBABILITY) * (-np.log(1 - p)) ** 0.25)
    return p


def huber_quantile(tau: float, outcomes: np.ndarray, probabilities: np.ndarray) -> float:
    """Where the quantile Huber loss of a known distribution is least, by bisection of its slope."""
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        error = outcomes - middle
        slope = (probabilities * np.abs(tau - (error < 0)) * np.clip(error, -1, 1)).sum()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return low


def known_quantiles(implicit: bool) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles of the lottery, and of the place before it, which bootstraps from them."""
    taus = (np.arange(QUANTILES) + 0.5) / QUANTILES
    prize = np.array([-1.0, 3.0]), np.array([1 - PRIZE_PROBABILITY, PRIZE_PROBABILITY])
    drawn = (np.arange(200) + 0.5) / 200 if implicit else taus
    later = DISCOUNT * np.array([huber_quantile(tau, *prize) for tau in drawn])
    here = [huber_quantile(tau, *prize) for tau in taus]
    before = [huber_quantile(tau, later, np.full(len(later), 1 / len(later))) for tau in taus]
    return np.array(here), np.array(before)


def check_lottery(learning: configs.LearningConfig, prioritised: bool, out: np.ndarray) -> None:
    lottery, before = out[probes.LOTTERY], out[probes.BEFORE_LOTTERY]
    if learning.head == "dqn":
        # The least Huber loss, not the mean: ¾ (v + 1) = ¼ gives −⅔.
        np.testing.assert_allclose(lottery[:, 0], -2 / 3, atol=CHANCE_TOLERANCE)
        np.testing.assert_allclose(before[:, 0], DISCOUNT * -2 / 3, atol=CHANCE_TOLERANCE)
    elif learning.head == "c51":
        p = known_prize_probability(prioritised)
        for place, low, high in ((lottery, -1.0, 3.0), (before, -0.5, 1.5)):
            expected = (1 - p) * (low == ATOMS) + p * (high == ATOMS)
            np.testing.assert_allclose(softmax(place), np.tile(expected, (2, 1)), atol=0.15)
    else:
        for place, expected in zip((lottery, before), known_quantiles(learning.head == "iqn"), strict=True):
            assert np.abs(place - expected).mean() < CHANCE_TOLERANCE
            assert np.abs(place.mean(axis=-1) - expected.mean()).max() < CHANCE_TOLERANCE


def check(engine: FusedEngine, state: TrainState) -> None:
    learning, prioritised = engine.config.settings.learning, engine.config.settings.replay.prioritised
    for out in (outs[0] for outs in both_networks(engine, state)):
        values = np.asarray(engine.agent.head.values(out))
        for place, expected in known_values(learning.n_steps).items():
            by_chance = place == probes.BEFORE_CHOICE and learning.n_steps > 1
            if place != probes.TREADMILL or engine.env.can_truncate:
                tolerance = CHANCE_TOLERANCE if by_chance else TOLERANCE
                np.testing.assert_allclose(values[place], expected, atol=tolerance, err_msg=f"place {place}")
        check_lottery(learning, prioritised, out)


LIKE_RAINBOW = ("rainbow-lr", "dopamine-rainbow", "paper-lr", "fork-rainbow", "fork-lr")  # with other numbers
AGENTS = [agent for agent in configs.AGENTS if agent not in LIKE_RAINBOW]
# An average of parameters does not know what they mean: it needs no trial with every agent.
TRIALS = [(agent, target) for agent in AGENTS for target in ("hard", "replicate")] + [
    ("dqn", "polyak"), ("rainbow", "polyak"),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "target"), TRIALS)
def test_every_agent_learns_every_known_value_from_copied_and_from_learned_targets(agent: str, target: str) -> None:
    check(*trained(agent, target, probes.Museum()))


def test_so_it_does_where_nothing_is_truncated_and_the_replay_keeps_no_final_observations() -> None:
    check(*trained("dqn", "hard", probes.ClosedMuseum()))


def test_rainbow_without_truncation_learns_them_and_overrates_rare_events_as_dopamines_priorities_must() -> None:
    engine, state = trained("rainbow", "hard", probes.ClosedMuseum(), agents=8)
    check(engine, state)
    lottery = softmax(both_networks(engine, state)[0][:, probes.LOTTERY])
    prize = lottery[..., ATOMS == 3.0].mean()  # over agents and actions: 0.308, where uniform replay gives 0.25
    assert prize == pytest.approx(known_prize_probability(prioritised=True), abs=0.03)
