"""Finite problems: a Markov chain or a decision process, a weighting D, and the two value functions.

What lives here: the data, its validation, the Bellman operators, the true value. Not here: ready-made problems
(`builtin.py`), reading files (`problem_file.py`), algorithms (`solver.py`).

The classes are JAX pytrees, so a problem is an argument of a jitted function and a list of problems of one shape
can be stacked and vmapped. That is why checks sit in the lower-case builders and not in `__post_init__`, which JAX
would run on tracers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from lookrep.errors import UserError
from lookrep.exact.checks import (
    Floats,
    check_discount,
    check_probabilities,
    check_stochastic,
    check_weighting,
    finite,
)
from lookrep.importing import in_short

Params = Any
"""Parameters of a value function: a vector for linear ones, any pytree of arrays otherwise."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MarkovChain:
    """Prediction: `backup` is the Bellman operator T^π of a fixed policy."""

    transition: Floats  # [states, states]
    reward: Floats  # [states]
    discount: float

    def backup(self, values: Any) -> Any:
        """(T v)(s) = r(s) + γ Σ_s' P(s, s') v(s')."""
        return self.reward + self.discount * (self.transition @ values)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MDP:
    """Control: `backup` is the Bellman optimality operator."""

    transition: Floats  # [actions, states, states]
    reward: Floats  # [actions, states]
    discount: float

    def backup(self, values: Any) -> Any:
        """(T v)(s) = max_a r(a, s) + γ Σ_s' P(a, s, s') v(s')."""
        return (self.reward + self.discount * (self.transition @ values)).max(axis=0)


Process = MarkovChain | MDP


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Linear:
    """v(params) = features · params; row s of the features belongs to state s."""

    features: Floats  # [states, parameters]

    def __call__(self, params: Any) -> Any:
        return self.features @ params


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Differentiable:
    """Any JAX function from a pytree of parameters to the vector of state values."""

    function: Callable[[Params], Any] = field(metadata={"static": True})

    def __call__(self, params: Params) -> Any:
        return self.function(params)


ValueFunction = Linear | Differentiable


def table(states: int) -> Linear:
    """One free value per state."""
    return Linear(np.eye(states))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Problem:
    """What Algorithm 1 needs besides its step sizes. `target` is the paper's θ side, `online` its w side."""

    process: Process
    weighting: Floats  # [states], the diagonal of D
    online: ValueFunction
    target: ValueFunction
    online_init: Params
    target_init: Params

    @property
    def states(self) -> int:
        return int(self.weighting.shape[0])


def markov_chain(transition: ArrayLike, reward: ArrayLike, discount: float) -> MarkovChain:
    """Check and build a chain.

    >>> chain = markov_chain([[0.6, 0.4], [0.2, 0.8]], [1, 1], 0.5)
    >>> true_value(chain).round(6).tolist()
    [2.0, 2.0]
    """
    matrix = finite("transition", transition, 2)
    check_stochastic("transition", matrix)
    states = matrix.shape[0]
    rewards = finite("reward", reward, 1)
    if rewards.shape != (states,):
        raise UserError(f"reward: {len(rewards)} entries for {states} states; give one per state")
    return MarkovChain(matrix, rewards, check_discount(discount))


def mdp(transition: ArrayLike, reward: ArrayLike, discount: float) -> MDP:
    """Check and build a decision process; `transition` is [actions, states, states], `reward` [actions, states]."""
    tensor = finite("transition", transition, 3)
    for action, matrix in enumerate(tensor):
        check_stochastic(f"transition of action {action + 1}", matrix)
    rewards = finite("reward", reward, 2)
    if rewards.shape != tensor.shape[:2]:
        raise UserError(f"reward: shape {list(rewards.shape)}, should be [actions, states] = {list(tensor.shape[:2])}")
    return MDP(tensor, rewards, check_discount(discount))


def under_policy(process: MDP, policy: ArrayLike) -> MarkovChain:
    """The chain of a decision process whose actions a policy chooses: per state a probability of each action, or the
    number of one action, from 1.

    >>> stay, move = [[1, 0], [0, 1]], [[0, 1], [0, 1]]
    >>> under_policy(mdp([stay, move], [[0, 1], [5, 0]], 0.5), [2, 1]).reward.tolist()
    [5.0, 1.0]
    """
    actions, states = process.reward.shape
    if np.ndim(policy) == 1:
        chosen = finite("policy", policy, 1)
        if chosen.shape != (states,):
            raise UserError(f"policy: {len(chosen)} entries for {states} states; give one action per state")
        wrong = np.flatnonzero(~np.isin(chosen, np.arange(1, actions + 1)))
        if wrong.size:
            raise UserError(f"policy: entry {wrong[0] + 1} is {chosen[wrong[0]]:g}; actions are 1 to {actions}")
        probabilities = np.eye(actions)[chosen.astype(int) - 1]
    else:
        probabilities = finite("policy", policy, 2)
        if probabilities.shape != (states, actions):
            raise UserError(
                f"policy: shape {list(probabilities.shape)}, should be [states, actions] = {[states, actions]}"
            )
        check_probabilities("policy", probabilities)
    return MarkovChain(
        np.einsum("sa,ast->st", probabilities, process.transition),
        np.einsum("sa,as->s", probabilities, process.reward),
        process.discount,
    )


def linear(features: ArrayLike, name: str = "features") -> Linear:
    matrix = finite(name, features, 2)
    if matrix.shape[1] == 0:
        raise UserError(f"{name}: rows are empty; give at least one feature per state")
    return Linear(matrix)


def problem(
    process: Process,
    online: ValueFunction,
    target: ValueFunction,
    weighting: ArrayLike | None = None,
    online_init: Params | None = None,
    target_init: Params | None = None,
) -> Problem:
    """Check the parts against each other. Without `weighting` a chain uses its stationary distribution; without a
    start, linear value functions start at zero."""
    states = process.transition.shape[-1]
    if weighting is None:
        if not isinstance(process, MarkovChain):
            raise UserError("weighting: a decision process has no stationary distribution of its own; give one")
        weights = stationary_weighting(process.transition)
    else:
        weights = check_weighting(weighting, states)
    return Problem(
        process=process,
        weighting=weights,
        online=online,
        target=target,
        online_init=_check_init("online_init", "features_online", online, online_init, states),
        target_init=_check_init("target_init", "features_target", target, target_init, states),
    )


def stationary_weighting(transition: ArrayLike) -> Floats:
    """The distribution with d P = d.

    >>> stationary_weighting([[0.6, 0.4], [0.2, 0.8]]).round(4).tolist()
    [0.3333, 0.6667]
    """
    matrix = np.asarray(transition, np.float64)
    states = matrix.shape[0]
    _, spread, right = np.linalg.svd(matrix.T - np.eye(states))
    if states > 1 and spread[-2] < 1e-10:
        raise UserError("weighting: the chain has more than one stationary distribution; give the weighting")
    weights = np.abs(right[-1])
    weights[weights < 1e-13 * weights.max()] = 0.0  # transient states, up to rounding
    return weights / weights.sum()


def true_value(process: Process) -> Floats:
    """The fixed point of the Bellman operator, by a linear solve (chain) or policy iteration (decision process)."""
    if isinstance(process, MarkovChain):
        return _solve_chain(process.transition, process.reward, process.discount)
    states = process.reward.shape[1]
    every_state = np.arange(states)
    policy = np.argmax(process.reward, axis=0)
    # There are finitely many policies and each round strictly improves, so this ends; the bound is a safety net.
    for _ in range(10_000):
        values = _solve_chain(
            process.transition[policy, every_state], process.reward[policy, every_state], process.discount
        )
        action_values = process.reward + process.discount * (process.transition @ values)
        improved = np.where(
            action_values.max(axis=0) > action_values[policy, every_state] + 1e-12,
            np.argmax(action_values, axis=0),
            policy,
        )
        if np.array_equal(improved, policy):
            break
        policy = improved
    return values


def same_class(problem: Problem) -> bool:
    """Whether online and target are one value function, so that parameters may be copied between them."""
    online, target = problem.online, problem.target
    if isinstance(online, Linear) and isinstance(target, Linear):
        return np.array_equal(online.features, target.features)
    return online is target


def linear_chain(problem: Problem) -> tuple[MarkovChain, Floats, Floats]:
    """The chain and both feature matrices (online, target), or a clear refusal: theory needs the linear case."""
    online, target, process = problem.online, problem.target, problem.process
    if not isinstance(process, MarkovChain):
        raise UserError("the optimality operator is only piecewise linear; audit and certificate need a Markov chain")
    if not (isinstance(online, Linear) and isinstance(target, Linear)):
        raise UserError("the audit and the certificate need linear value functions")
    return process, online.features, target.features


def _solve_chain(transition: Floats, reward: Floats, discount: float) -> Floats:
    return np.asarray(np.linalg.solve(np.eye(len(reward)) - discount * transition, reward), np.float64)


def _check_init(name: str, features: str, function: ValueFunction, init: Params | None, states: int) -> Params:
    if isinstance(function, Linear):
        rows, count = function.features.shape
        if rows != states:
            raise UserError(f"{features}: {rows} rows for {states} states; give one row per state")
        if init is None:
            return np.zeros(count)
        params = finite(name, init, 1)
        if params.shape != (count,):
            raise UserError(f"{name}: {len(params)} entries for {count} features ({features})")
        return params
    if init is None:
        raise UserError(f"{name}: needed, because the value function is not linear")
    try:
        shape = jnp.shape(jax.eval_shape(function, init))
    except Exception as error:  # whatever a user's function may do
        raise UserError(f"{name}: its value function fails on it ({in_short(error)})") from error
    if shape != (states,):
        raise UserError(f"{name}: its value function gives shape {list(shape)}, should be [states] = [{states}]")
    return init


def stack(problems: Sequence[Problem]) -> Problem:
    """Problems of one shape as a single pytree with a leading batch axis, for `vmap`."""
    try:
        return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *problems)
    except ValueError:
        raise UserError("problems solved together need one shape and one kind of value function") from None
