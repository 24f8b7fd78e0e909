"""How fast populations train on MinAtar: the one source of our speed figures for the fused engine.

Every figure is a median over repeats with its spread, compile time apart, and stands beside the memory traffic that the
parameters alone cause, against a plain copy measured in the same run.
"""

import dataclasses
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

import lookrep
from lookrep import envs
from lookrep.config import Precision, RunConfig, TargetName, preset, with_method
from lookrep.training.fused import FusedEngine

REPEATS = 5
SECONDS_A_REPEAT = 1.0
WARMUP_STEPS = 1_000


class Case(NamedTuple):
    """One thing to time."""

    agents: int
    agent: str = "c51"
    target: TargetName = "hard"
    precision: Precision = "f32"
    game: str = "breakout"


def default_cases(backend: str) -> list[Case]:
    """The rows of docs/performance.md, sized to the machine."""
    if backend == "cpu":
        return [Case(1, "dqn"), Case(16, "dqn"), Case(1), Case(16), Case(1, target="replicate"), Case(1, "rainbow")]
    cases = [Case(1), Case(512), *(Case(n, precision="bf16") for n in (64, 512, 1024))]
    cases += [Case(512, target="replicate", precision="bf16"), Case(512, "rainbow", precision="bf16")]
    others = [name.removeprefix("minatar/") for name in envs.names.MINATAR if name != "minatar/breakout"]
    return cases + [Case(512, precision="bf16", game=game) for game in others]


def machine() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "device": device.device_kind,
        "backend": jax.default_backend(),
        "jax": jax.__version__,
        "lookrep": lookrep.__version__,
        "copy_gigabytes_per_second": round(copy_bandwidth() / 1e9),
    }


def copy_bandwidth() -> float:
    """Bytes read plus bytes written per second by a plain elementwise pass over an array far larger than any cache."""
    size = 2**30 if jax.default_backend() == "gpu" else 2**26
    array = jnp.arange(size, dtype=jnp.float32)
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    seconds, _ = _timed(lambda x: add(x), array)
    return 8 * size / statistics.median(seconds)


def run(cases: list[Case]) -> Iterator[dict[str, Any]]:
    """Time the cases one after the other; where there are cores for it, compile them side by side beforehand."""
    if compilers() == 1:
        for case in cases:
            yield prepare(case)()
        return
    with ThreadPoolExecutor(compilers()) as pool:
        prepared = list(pool.map(prepare, cases))
    for timing in prepared:
        yield timing()


def compilers() -> int:
    """How many programs to compile at a time, before any is timed."""
    return max(1, (os.cpu_count() or 1) // 3) if jax.default_backend() == "gpu" else 1


def config_of(case: Case, method: str = "plain") -> RunConfig:
    """A run to be timed. Replicate without a method has the paper's K_R = 0.1·K_L."""
    settings = preset(case.agent)
    settings = dataclasses.replace(
        settings,
        target=dataclasses.replace(settings.target, target=case.target),
        network=dataclasses.replace(settings.network, precision=case.precision),
    )
    settings = with_method(settings, "paper-replicate" if (case.target, method) == ("replicate", "plain") else method)
    return to_time(RunConfig(f"minatar/{case.game}", case.agent, case.agents, settings=settings))


def to_time(config: RunConfig) -> RunConfig:
    """The run as one that nothing ends, with a short warm-up. Resets are rare and long: a tenth of both their numbers
    costs the same, and comes round within a timing."""
    settings, method = config.settings, config.settings.method
    cycle, period = settings.learning.steps_per_update, method.reset_period_updates
    if period is not None:
        part = next(part for part in range(10, 0, -1) if period % part == method.reset_updates % part == 0)
        method = dataclasses.replace(
            method, reset_period_updates=period // part, reset_updates=method.reset_updates // part
        )
    warmup_steps = min(settings.replay.warmup_steps, -(-WARMUP_STEPS // cycle) * cycle)
    replay = dataclasses.replace(settings.replay, warmup_steps=warmup_steps)
    settings = dataclasses.replace(settings, replay=replay, method=method)
    return dataclasses.replace(config, steps=10**9 // cycle * cycle, settings=settings)


class Trial:
    """A population under way, compiled and past its warm-up, whose learning cycles are timed on request."""

    def __init__(self, config: RunConfig) -> None:
        settings = config.settings
        self.engine = FusedEngine(config, envs.make(config.env))
        self.cycle_steps = settings.learning.steps_per_update
        self.cycle_updates = settings.learning.updates_in_a_row
        # Every timing has whole cycles, and whole periods of the target and of resets.
        self.period_updates = math.lcm(
            self.cycle_updates, settings.target.target_period_updates, settings.method.reset_period_updates or 1
        )
        self.state = jax.block_until_ready(self.engine.advance(self.engine.init(), settings.replay.warmup_steps))
        self.first_seconds = self.seconds(self.period_updates)  # compiling included
        kept = self.state.agents._replace(online=None, optimizer=None)
        self.kept_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(kept))  # beside the online network and its Adam

    def ready(self) -> None:
        """It is, once it is made."""

    def seconds(self, updates: int) -> float:
        """How long the cycles take that have so many updates of every agent."""
        began = time.perf_counter()
        until_steps = int(self.state.agent_steps) + updates // self.cycle_updates * self.cycle_steps
        self.state = jax.block_until_ready(self.engine.advance(self.state, until_steps))
        return time.perf_counter() - began


def prepare(case: Case) -> Callable[[], dict[str, Any]]:
    """Compile and warm up a population; the function returned times its learning cycles, and its environments alone."""
    trial = Trial(config_of(case))
    step_environments = _environment_steps(trial.engine.env, case.agents)

    def timing() -> dict[str, Any]:
        one_period = trial.seconds(trial.period_updates)
        updates = max(1, round(SECONDS_A_REPEAT / one_period)) * trial.period_updates
        trial.seconds(updates)  # warm
        cycle = [trial.seconds(updates) / updates for _ in range(REPEATS)]
        median, steps = statistics.median(cycle), case.agents * trial.cycle_steps
        env_step = step_environments()
        return {
            **case._asdict(),
            "env_steps_per_second": round(steps / median),
            "spread": [round(steps / t) for t in (max(cycle), min(cycle))],
            "cycle_microseconds": round(median * 1e6, 1),
            "microseconds_per_agent": round(median * 1e6 / case.agents, 3),
            "environment_share_of_cycle": round(trial.cycle_steps * env_step / median, 3),
            "environment_step_microseconds": round(env_step * 1e6, 1),
            "parameter_gigabytes_per_second": round(_parameter_bytes_a_cycle(trial.engine, case) / median / 1e9),
            "compile_seconds": round(trial.first_seconds - one_period, 1),
        }

    return timing


def _environment_steps(env: envs.Environment, agents: int) -> Callable[[], float]:
    """A compiled timing: seconds for one step of all environments, resets included, without an agent."""

    def step(carry: Any, t: jax.Array) -> tuple[Any, None]:
        state, keys, total = carry
        now = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, t)))(keys)
        state, seen = jax.vmap(env.step)(now[:, 0], state, (jnp.arange(agents) + t) % env.num_actions)
        fresh, _ = jax.vmap(env.init)(now[:, 1])
        over = seen.terminated | seen.truncated
        state = jax.tree.map(
            lambda a, b: jnp.where(over.reshape(-1, *[1] * (a.ndim - 1)), a, b), fresh, state
        )  # the sum keeps observations and rewards alive
        return (state, keys, total + seen.reward + seen.observation.sum(axis=(1, 2, 3))), None

    steps = 1_000
    run = jax.jit(lambda carry: lax.scan(step, carry, jnp.arange(steps))[0])
    keys = jax.random.split(jax.random.key(0), agents)
    state, _ = jax.vmap(env.init)(keys)
    carry = jax.block_until_ready(run((state, keys, jnp.zeros(agents))))
    return lambda: statistics.median(_timed(run, carry)[0]) / steps


def _parameter_bytes_a_cycle(engine: FusedEngine, case: Case) -> float:
    """Bytes that parameters, gradients and Adam must move in one cycle, each counted once where it is used."""
    online = jax.eval_shape(engine.agent.init, jax.random.key(0)).online
    count = sum(leaf.size for leaf in jax.tree.leaves(online))
    used = 2 if case.precision == "bf16" else 4  # bytes of a parameter inside matrix products
    acting = engine.config.settings.learning.steps_per_update * used
    forward_backward = 3 * used  # online forward, target forward, gradient to the inputs
    gradient = 2 * used
    adam = 6 * 4 + (used if used == 2 else 0)  # parameters and two moments read and written, and the bf16 copy
    return float(case.agents * count * (acting + forward_backward + gradient + adam))


def _timed(function: Callable[[Any], Any], argument: Any) -> tuple[list[float], Any]:
    argument = jax.block_until_ready(function(argument))  # compiled and warm
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        argument = jax.block_until_ready(function(argument))
        seconds.append(time.perf_counter() - began)
    return seconds, argument
