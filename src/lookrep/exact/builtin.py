"""Ready-made problems: the paper's two examples and the classics on which temporal-difference learning is judged.

Each builder returns a `Problem`; the solver settings that go with it are in `SETTINGS`. Nothing is computed at import.
"""

from collections.abc import Callable

import numpy as np

from lookrep.exact.problems import Problem, linear, markov_chain, problem
from lookrep.exact.settings import Settings


def two_state() -> Problem:
    """The paper's first example (section 4.1, App. B.1, figure 1): one space of three parameters."""
    features = linear([[1.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    return problem(
        markov_chain([[0.6, 0.4], [0.2, 0.8]], [1.0, 1.0], 0.5),
        online=features,
        target=features,
        online_init=[0.1, 2.0, 0.5],
        target_init=[1.2, 2.0, 0.5],
    )


def two_state_two_spaces() -> Problem:
    """The paper's second example (App. B.2, figure 8): the target has three parameters, the online network two."""
    return problem(
        markov_chain([[0.6, 0.4], [0.2, 0.8]], [1.0, 1.0], 0.5),
        online=linear([[1.0, 2.0], [2.0, 1.0]]),
        target=linear([[1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]),
        online_init=[0.3, 0.6],
        target_init=[1.2, 0.0, 0.3],
    )


def baird() -> Problem:
    """Baird's star (1995) as in Sutton & Barto, example 11.1: every state goes to the seventh, updates are uniform.

    The true value 0 is representable, and still semi-gradient TD diverges for every step size.
    """
    transition = np.zeros((7, 7))
    transition[:, 6] = 1.0
    features = np.zeros((7, 8))
    features[np.arange(6), np.arange(6)] = 2.0
    features[:6, 7] = 1.0
    features[6, 6:] = [1.0, 2.0]
    start = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0, 1.0])
    value = linear(features)
    return problem(
        markov_chain(transition, np.zeros(7), 0.99),
        online=value,
        target=value,
        weighting=np.full(7, 1 / 7),
        online_init=start,
        target_init=start,
    )


def tsitsiklis_van_roy(discount: float = 0.99) -> Problem:
    """Tsitsiklis and Van Roy's w → 2w (1996): one feature, 1 in the first state and 2 in the second, uniform updates.

    Even the exact projected iteration multiplies w by 6γ/5, so it diverges for γ > 5/6 whatever fits the target.
    """
    value = linear([[1.0], [2.0]])
    return problem(
        markov_chain([[0.0, 1.0], [0.0, 1.0]], [0.0, 0.0], discount),
        online=value,
        target=value,
        weighting=[0.5, 0.5],
        online_init=[1.0],
        target_init=[1.0],
    )


def boyan(discount: float = 0.95) -> Problem:
    """Boyan's chain (2002): thirteen states in a row, four interpolating features.

    Boyan's chain is undiscounted and episodic. Here the last state absorbs with reward 0, the discount is below 1,
    and the weighting is how often an episode visits each state.
    """
    states = 13  # index i is Boyan's state 12 − i
    transition = np.zeros((states, states))
    reward = np.full(states, -3.0)
    for state in range(states - 2):
        transition[state, [state + 1, state + 2]] = 0.5
    transition[11, 12] = transition[12, 12] = 1.0
    reward[11:] = [-2.0, 0.0]
    corners = np.arange(4) * 4.0
    features = np.maximum(0.0, 1.0 - np.abs(np.arange(states)[:, None] - corners) / 4.0)
    value = linear(features)
    moving = transition[:12, :12]
    visits = np.linalg.solve(np.eye(12) - moving.T, np.eye(12)[0])  # expected visits of one episode from state 12
    weights = np.append(visits, 1.0)
    return problem(
        markov_chain(transition, reward, discount),
        online=value,
        target=value,
        weighting=weights / weights.sum(),
        # Not zero: that is already right in the absorbing state, and would hide the slowest mode from the run.
        online_init=np.ones(4),
        target_init=np.ones(4),
    )


def random_chain(
    states: int,
    seed: int,
    online_features: int | None = None,
    target_features: int | None = None,
    discount: float = 0.9,
    stationary: bool = True,
    shared_features: int | None = None,
    concentration: float = 1.0,
) -> Problem:
    """A seeded random chain with Gaussian features and starts.

    Without counts both networks share one over-parameterised space (states + 1), or one of `shared_features`. With
    counts they get separate spaces of those sizes: fewer than `states` is a tall matrix, which cannot represent every
    value. With `stationary=False` the weighting is random too, which is how divergence becomes possible. Each row of
    the chain is drawn from a Dirichlet distribution: of a small `concentration`, most of it is one successor.
    """
    draw = np.random.default_rng(seed)
    rows = draw.dirichlet(np.full(states, concentration), size=states)
    chain = markov_chain(rows, draw.normal(size=states), discount)
    if online_features is None and target_features is None:
        online = target = linear(draw.normal(size=(states, shared_features or states + 1)))
    else:
        online = linear(draw.normal(size=(states, online_features or states + 1)))
        target = linear(draw.normal(size=(states, target_features or states + 1)))
    return problem(
        chain,
        online=online,
        target=target,
        weighting=None if stationary else draw.dirichlet(np.ones(states)),
        online_init=draw.normal(size=online.features.shape[1]),
        target_init=draw.normal(size=target.features.shape[1]),
    )


BUILDERS: dict[str, Callable[[], Problem]] = {
    "two-state": two_state,
    "two-state-two-spaces": two_state_two_spaces,
    "baird": baird,
    "tsitsiklis-van-roy": tsitsiklis_van_roy,
    "boyan": boyan,
}

# T = 800, K_L = 400, K_R = 1 are the paper's (App. B); it prints no α and β. The others need Replicate to keep up.
PAPER = Settings(outer_iterations=800, lookahead_updates=400, replicate_updates=1)
SETTINGS: dict[str, Settings] = {
    "two-state": PAPER,
    "two-state-two-spaces": PAPER,
    "baird": Settings(outer_iterations=3000, lookahead_updates=100, replicate_updates=100),
    "tsitsiklis-van-roy": Settings(outer_iterations=100, lookahead_updates=100, replicate_updates=100),
    "boyan": Settings(outer_iterations=800, lookahead_updates=100, replicate_updates=100),
    "random": Settings(outer_iterations=800, lookahead_updates=100, replicate_updates=100),
}
