"""Training from Python: `lookrep.train` starts a run, `lookrep.load` opens one, and both give a `Run`.

Nothing is printed, no signal handler is installed and JAX's configuration is left alone. Without `out=` nothing is
written. The command line is a shell over the same parts.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from lookrep import config as configs
from lookrep import playing
from lookrep.agents import Parts
from lookrep.agents.parts import PLACES, split
from lookrep.config import RunConfig
from lookrep.envs import spelling
from lookrep.errors import UserError
from lookrep.methods import Method
from lookrep.playing import Trained, evaluation
from lookrep.runs import metrics, names, trust
from lookrep.training import loop, memory, opening
from lookrep.training.advice import Advice
from lookrep.training.interrupt import Stop
from lookrep.training.loop import Watch

Rows = list[dict[str, Any]]
Which = Literal["online", "target"]


def train(
    env: str,
    *,
    agent: str = "rainbow",
    out: str | Path | None = None,
    network: Any = None,
    target_network: Any = None,
    head: Any = None,
    optimizer: Any = None,
    replicate_optimizer: Any = None,
    target: Any = None,
    method: str | Method = "plain",
    bootstrap: Any = None,
    regulariser: Any = None,
    on_row: Callable[[Rows], None] | None = None,
    **settings: Any,
) -> "Run":
    """Train a population of agents, to the end.

    Args:
      env: `minatar/breakout`, `atari/Pong`, `gym/CartPole-v1`, or `my_module:MyEnv`. Names of Gymnasium's are
        understood, too: `ALE/Pong-v5`.
      agent: the preset that the other settings start from.
      out: a new folder for settings, metrics and checkpoints. Without it nothing is written.
      network: a flax module, a function of `rngs` (nnx) or of `key` (Equinox) that makes a module, a pair
        `(init, apply)`, or a name such as `"cnn:64"`. It gives features, or all of [batch, actions, K].
      target_network: the target's, if it should differ. Only rules that learn can follow across networks.
      head: a `lookrep.heads.Head`, or a name.
      optimizer: an optax transformation for the online network; without it, Adam with `learning_rate`.
      replicate_optimizer: the same for the target under `target="replicate"`.
      target: a rule from `lookrep.targets` or of one's own, a function from the agent to one, or a name.
      method: a way to stabilise bootstrapping from `lookrep.methods`, or its name; other settings come on top.
      bootstrap: whose outputs are learned from: a `lookrep.methods.bootstraps.Mix`, or a name.
      regulariser: a term in the online loss: a `lookrep.methods.regularisers.Regulariser`, or a name.
      on_row: called with the rows of all agents, once per logging interval, outside the compiled program.
      settings: everything `lookrep train --help` lists, with underscores: agents=16, steps=1_000_000, seed=1, …

    An exception, also one from `on_row`, leaves a run in `out` that `load(out).resume()` goes on with.

    >>> run = train("minatar/breakout", agent="dqn", agents=2, steps=400, warmup_steps=200, log_interval_steps=200,
    ...             replay_capacity_steps=400, network="mlp:8")
    >>> [(row["agent"], row["agent_steps"]) for row in run.curves()]
    [(0, 200), (1, 200), (0, 400), (1, 400)]
    """
    given = {
        "network": network, "target_network": target_network, "head": head, "optimizer": optimizer,
        "replicate_optimizer": replicate_optimizer, "target": target, "bootstrap": bootstrap,
        "regulariser": regulariser,
    }  # fmt: skip
    if not isinstance(env, str):
        raise UserError(f"env = {env!r:.60}: must be a name, such as minatar/breakout, or my_module:MyEnv for your own")
    env = spelling.meant(env)
    if on_row is not None and not callable(on_row):
        raise UserError(f"on_row = {on_row!r:.60}: must be a function of a list of rows")
    named = {"env": env, "agent": agent, "agents": len(configs.games(env)), "method": method}
    config = configs.from_flat(named | settings, "train")
    agent_config, parts = split(config.settings, given)
    config = configs.replace(config, settings=agent_config)
    with opening.started(config, None if out is None else Path(out), parts) as run:
        return _trained(run, on_row)


def load(run: str | Path, *, trust: bool = False, **parts: Any) -> "Run":
    """The run in a folder. Parts that were given as objects when it was trained are asked for again: `network=…`.

    `trust`: modules that its `config.json` names, for an environment or parts of one's own, may be imported.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such run folder")
    unknown = [name for name in parts if name not in PLACES]
    if unknown:
        raise UserError(f"'{unknown[0]}' is no part: give {', '.join(PLACES)}")
    return Run(configs.load(folder), folder, Parts(**parts), trust=trust)


class Run:
    """A run that was trained, here or in a folder. Arrays have an axis of agents first."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path | None,
        parts: Parts,
        rows: Rows | None = None,
        agents: Any = None,
        *,
        trust: bool = True,  # its code has been running
    ) -> None:
        self.config, self.folder, self.parts, self._trust = config, folder, parts, trust
        self._rows, self._agents = rows, agents
        self._trained: Trained | None = None

    def __repr__(self) -> str:
        where = "in memory" if self.folder is None else str(self.folder)
        return f"<Run of {self.config.agents} × {self.config.agent} on {self.config.env}, {where}>"

    def curves(self) -> Rows:
        """A row per agent and logging interval, oldest first: `pandas.DataFrame(run.curves())` works."""
        if self._rows is not None:
            return [dict(row) for row in self._rows]
        assert self.folder is not None
        columns = metrics.read(self.folder)
        plain = [np.asarray(values).tolist() for values in columns.values()]  # numbers that JSON can hold, too
        return [dict(zip(columns, values, strict=True)) for values in zip(*plain, strict=True)]

    def parameters(self, network: Which = "online") -> Any:
        """All agents' parameters as a tree of arrays [agents, …], as matrix products use them."""
        return getattr(self.agents, _which(network))

    @memory.enough(memory.PLAYING)
    def q_values(self, observations: Any, network: Which = "online") -> np.ndarray:
        """Action values [agents, batch, actions] for a batch of observations, without noise."""
        return np.asarray(self.agents.agent.head.values(self._outputs(observations, network)))

    @memory.enough(memory.PLAYING)
    def distributions(self, observations: Any, network: Which = "online") -> tuple[np.ndarray, np.ndarray]:
        """Possible returns and their weights, both [agents, batch, actions, K], for heads that know them."""
        said = playing.distribution(self.agents.agent.head, np.asarray(self._outputs(observations, network)))
        if said is None:
            raise UserError(f"head '{self.config.settings.learning.head}' knows expected returns alone: use q_values")
        return said.atoms, said.weights

    def evaluate(
        self, episodes: int = 10, *, epsilon: float = 0.001, seed: int = 0, max_steps: int | None = None
    ) -> dict[str, Any]:
        """Every agent plays so many episodes: their returns, as `lookrep eval --json` gives them."""
        with memory.enough(memory.PLAYING):
            return evaluation.evaluate(self.agents, episodes, epsilon=epsilon, seed=seed, max_steps=max_steps)

    def film(
        self, path: str | Path, *, agent: int | None = None, game: str | None = None, episodes: int | None = None,
        max_steps: int | None = None, epsilon: float = 0.001, seed: int = 0, fps: int = 15,
    ) -> Path:  # fmt: skip
        """One agent at play as a .gif or .mp4, with both networks' values beside the game."""
        from lookrep.video import film  # pillow

        trained = self.agents
        number = int(trained.numbers[0]) if agent is None else agent
        one = playing.choose(trained, number, game or trained.games[0])
        options: dict[str, Any] = {"episodes": episodes, "max_steps": max_steps, "epsilon": epsilon, "seed": seed}
        with memory.enough(memory.PLAYING):
            film.make(one, Path(path), fps=fps, **options)
        return Path(path)

    def plot(self, path: str | Path) -> Path:
        """Returns and the function gap over agent steps, as a picture or a PDF."""
        from lookrep.analysis import curve  # matplotlib

        return curve.draw(self.curves(), f"{self.config.env} · {self.config.agent}", Path(path))

    def resume(
        self, steps: int | None = None, *, restart: bool = False, refill: bool = False,
        on_row: Callable[[Rows], None] | None = None,
    ) -> "Run":  # fmt: skip
        """Go on from the last checkpoint; `steps` sets a new end.

        Args:
          restart: begin anew; what there was is kept in a folder inside the run's.
          refill: if frames of its replay are damaged, go on without, and fill the replay again before learning.
        """
        if self.folder is None:
            raise UserError("this run is in memory alone: only one with a folder (out=…) can go on")
        trust.check(self.config, self.folder / names.CONFIG, self._trust, self.parts.given)
        how: dict[str, Any] = {"restart": restart, "refill": refill, "ways": opening.IN_PYTHON}
        with opening.resumed(self.folder, steps, self.parts, **how) as run:
            return _trained(run, on_row)

    @property
    @memory.enough(memory.PLAYING)
    def agents(self) -> Trained:
        """Networks and environment, from memory or from the last checkpoint."""
        if self._trained is None:
            if self.folder is not None:
                self._trained = playing.load(self.folder, self.parts, trusted=self._trust)
            else:
                self._trained = playing.in_memory(self.config, self.parts, self._agents, self.config.steps)
        return self._trained

    def _outputs(self, observations: Any, network: Which) -> jax.Array:
        agent, params = self.agents.agent, self.parameters(network)
        apply = (agent.online if network == "online" else agent.target).apply
        batch = _observed(observations, agent.observation_shape, np.dtype(self.agents.env.observation_dtype))
        outputs: jax.Array = jax.jit(jax.vmap(lambda p: apply(p, batch, None).per_action))(params)
        return outputs


def _trained(run: opening.OpenRun, on_row: Callable[[Rows], None] | None) -> Run:
    """What the command would say on the terminal goes to the log: damage, a NaN, a target that falls behind."""
    say, advice = logging.getLogger("lookrep").warning, Advice(run.config.settings)

    def row(columns: dict[str, Any]) -> None:
        if line := advice.on(columns):
            say(line)

    if not run.at_steps and (line := advice.at_start()):
        say(line)
    watch = Watch(note=say, row=row)
    if on_row is not None:
        # The rows as they are written, with whose they are.
        watch.rows = on_row
    program = loop.prepare([run])
    loop.train(program, Stop(), watch)
    return Run(run.config, run.out, run.parts, run.rows if run.out is None else None, run.agents)


def _observed(observations: Any, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """A batch in the type that the environment gives: bytes, say, are read as fractions of 255 by the networks."""
    given = np.asarray(observations)
    if given.shape[1:] != tuple(shape):
        raise UserError(f"observations have shape {list(given.shape)}: must be [batch, {', '.join(map(str, shape))}]")
    batch = given.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(batch, given):
        raise UserError(f"observations hold values that are not {dtype.name}, which is what this environment gives")
    return jnp.asarray(batch)


def _which(network: str) -> str:
    if network not in ("online", "target"):
        raise UserError(f"network = {network!r}: must be 'online' or 'target'")
    return network
