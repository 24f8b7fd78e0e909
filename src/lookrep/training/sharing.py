"""Several runs in one program: where each has its agents, and which targets have their turns together.

Runs that `config.shared` says are alike act and learn as one population. Their numbers may differ (`agents.Numbers`).
Targets that follow by the same code at the same times are a group: they have their turns in one piece, the others
apart. A group's optimiser states are its own, because other groups may have other optimisers.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep import config as configs
from lookrep.agents import Numbers, Parts, numbers_of, together
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.targets import Schedule, TargetState
from lookrep.training.population import Population

State = Any  # a NamedTuple with `agents`, `replay` and `target_optimizers`


class TargetGroup(NamedTuple):
    """Agents whose targets have their turns in one piece."""

    agents: slice
    runs: slice
    population: Population
    schedule: Schedule


class Sharing:
    """How the agents of `runs` lie in one population, one run after the other."""

    def __init__(self, runs: Sequence[RunConfig], spaces: Any, parts: Parts | None) -> None:
        if len(runs) > 1 and (runs[0].devices > 1 or len({configs.shared(run) for run in runs}) > 1):
            raise UserError("runs that share a program may differ in their target update and in numbers, on one device")
        self.runs = tuple(runs)
        self.spans = _spans([run.agents for run in runs])

        def population(of: slice) -> Population:
            some = self.runs[of]
            config = configs.replace(some[0], agents=sum(run.agents for run in some)) if len(some) > 1 else some[0]
            return Population(config, spaces, parts=parts, numbers=numbers(some))

        self.population = population(slice(None))
        alike = [list(kin) for _, kin in groupby(range(len(runs)), key=lambda i: configs.target_code(runs[i]))]
        self.groups: list[TargetGroup] = []
        for kin in alike:
            of = slice(kin[0], kin[-1] + 1)
            mine = self.population if len(alike) == 1 else population(of)
            agents = slice(self.spans[kin[0]].start, self.spans[kin[-1]].stop)
            self.groups.append(TargetGroup(agents, of, mine, mine.agent.schedule))
        self._apart = len(self.groups) > 1

    def keys(self, key_of: Callable[[int, jax.Array], jax.Array]) -> jax.Array:
        """Each agent's key, from its run's seed and its number."""
        numbers = ((run.seed, jnp.arange(run.agents, dtype=jnp.uint32) + run.first_agent) for run in self.runs)
        return jnp.concatenate([jax.vmap(lambda n, seed=seed: key_of(seed, n))(each) for seed, each in numbers])

    def new(self, new_of: Callable[[Population, jax.Array], State], keys: jax.Array) -> State:
        """The state at step 0, a group's after another's."""
        if not self._apart:
            return new_of(self.population, keys)
        states = [new_of(group.population, keys[group.agents]) for group in self.groups]
        return self._concatenated(states, tuple(state.agents.target.optimizer for state in states))

    def joined(self, states: Sequence[State]) -> State:
        """The states of all runs, at the same step, as one."""
        if not self._apart:
            return self._concatenated(states, None)
        optimizers = tuple(
            jax.tree.map(
                lambda *x: jnp.concatenate(x), *(state.agents.target.optimizer for state in states[group.runs])
            )
            for group in self.groups
        )
        return self._concatenated(states, optimizers)

    def part(self, state: State, run: int) -> State:
        """The state of one run, as if it had been trained by itself."""
        if len(self.runs) == 1:
            return state
        span = self.spans[run]
        group, optimizer = next((i, g) for i, g in enumerate(self.groups) if g.runs.start <= run < g.runs.stop), None
        number, its = group
        if self._apart:
            start = its.agents.start
            optimizer = jax.tree.map(
                lambda x: x[span.start - start : span.stop - start], state.target_optimizers[number]
            )
        return self._cut(state, span, optimizer)

    def of_group(self, state: State, number: int) -> State:
        """The state of a group's agents."""
        if not self._apart:
            return state
        return self._cut(state, self.groups[number].agents, state.target_optimizers[number])

    def with_target(self, state: State, number: int, target: TargetState) -> State:
        """The state with the targets of a group replaced."""
        if not self._apart:
            return state._replace(agents=state.agents._replace(target=target))
        before, optimizers = state.agents.target, list(state.target_optimizers)
        optimizers[number] = target.optimizer
        after = before._replace(
            params=self.with_part(before.params, number, target.params),
            updates=self.with_part(before.updates, number, target.updates),
        )
        return state._replace(agents=state.agents._replace(target=after), target_optimizers=tuple(optimizers))

    def with_part(self, whole: Any, number: int, part: Any) -> Any:
        """Arrays of all agents with those of a group replaced."""
        if not self._apart:
            return part
        start = self.groups[number].agents.start
        return jax.tree.map(lambda x, y: lax.dynamic_update_slice_in_dim(x, y, start, axis=0), whole, part)

    def _concatenated(self, states: Sequence[State], optimizers: tuple[Any, ...] | None) -> State:
        if len(states) == 1:
            return states[0]
        alike = list(states) if optimizers is None else [_with_optimizer(state, ()) for state in states]
        whole = jax.tree.map(
            lambda axis, *arrays: jnp.concatenate(arrays, axis) if axis >= 0 else arrays[0],
            self._axes(alike[0]),
            *alike,
        )
        return whole if optimizers is None else whole._replace(target_optimizers=optimizers)

    def _cut(self, state: State, span: slice, optimizer: Any | None) -> State:
        whole = state._replace(target_optimizers=())
        part = jax.tree.map(
            lambda axis, x: lax.slice_in_dim(x, span.start, span.stop, axis=axis) if axis >= 0 else x,
            self._axes(whole),
            whole,
        )
        return _with_optimizer(part, optimizer) if self._apart else part

    def _axes(self, state: State) -> State:
        """Where each array counts agents; -1: nowhere."""
        axes = jax.tree.map(lambda x: 0 if x.ndim else -1, state)
        return axes._replace(replay=self.population.replay.agent_axes())


def numbers(runs: Sequence[RunConfig]) -> Numbers:
    """Of all agents of these runs."""
    return together([numbers_of(run.settings) for run in runs], [run.agents for run in runs])


def _spans(agents: Sequence[int]) -> tuple[slice, ...]:
    ends = np.cumsum(agents).tolist()
    return tuple(slice(end - count, end) for end, count in zip(ends, agents, strict=True))


def _with_optimizer(state: State, optimizer: Any) -> State:
    return state._replace(agents=state.agents._replace(target=state.agents.target._replace(optimizer=optimizer)))
