"""Everything that can be set, with presets and validation. A wrong value is one clear line.

Frozen dataclasses, grouped as the help shows them; units are in the names. `config.json` of a run holds all of it.
"""

import dataclasses
import difflib
import json
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lookrep.errors import UserError

Head = Literal["dqn", "c51", "qr", "iqn"]
TargetName = Literal["hard", "polyak", "replicate", "frozen"]
ReplayMemory = Literal["auto", "device", "host"]
Precision = Literal["f32", "bf16"]


@dataclass(frozen=True)
class NetworkConfig:
    """What the networks look like."""

    network: str = "auto"
    """the online network: cnn16:128 (3×3 convolutions, dense layers), nature:512 (Atari's), mlp:64x64, or auto"""
    target_network: str = "same"
    """the target network, if it should differ; only --target replicate can follow across networks"""
    dueling: bool = False
    """separate streams for state value and advantages"""
    noisy: bool = False
    """noisy dense layers for exploration"""
    precision: Precision = "f32"
    """what matrix products are computed in; parameters and optimiser are always float32"""


@dataclass(frozen=True)
class LearningConfig:
    """How the online network learns (Lookahead)."""

    head: Head = "dqn"
    """what is predicted for each action: a value, a categorical distribution, quantiles, implicit quantiles"""
    double: bool = False
    """choose the bootstrap action by the online network"""
    n_steps: int = 1
    """rewards summed before bootstrapping"""
    clip_rewards: bool = False
    """learn from rewards clipped to [−1, 1]; the returns reported are never clipped"""
    discount: float = 0.99
    batch_size: int = 32
    learning_rate: float = 2.5e-4
    adam_epsilon: float = 1.5e-4
    steps_per_update: int = 4
    """agent steps between two updates of the online network"""
    atoms: int = 51
    """support of the categorical distribution: atoms evenly spaced from v_min to v_max"""
    v_min: float = -5.0
    v_max: float = 45.0
    quantiles: int = 32
    """quantiles, or fractions drawn for implicit quantiles"""


@dataclass(frozen=True)
class ReplayConfig:
    """What is remembered."""

    replay_capacity_steps: int = 100_000
    warmup_steps: int = 5_000
    """agent steps of exploration before the first update"""
    prioritised: bool = False
    """sample by priority with Dopamine's rules instead of uniformly"""
    replay_memory: ReplayMemory = "auto"
    """where frames from emulators are kept; auto: on the device if they fit, otherwise in the host's memory"""


@dataclass(frozen=True)
class ExplorationConfig:
    """How actions are explored: epsilon falls linearly after the warm-up."""

    epsilon_start: float = 1.0
    epsilon_end: float = 0.01
    epsilon_decay_steps: int = 100_000


@dataclass(frozen=True)
class TargetConfig:
    """How the target network follows the online network."""

    target: TargetName = "hard"
    """hard copy, Polyak average, Replicate (gradient steps in function space), or never"""
    target_period_updates: int = 250
    """online updates between two turns of the target: hard's period, Replicate's K_L"""
    tau: float = 0.005
    """polyak's fraction"""
    polyak_period_updates: int = 1
    replicate_updates: int = 25
    """K_R: gradient steps on the target in each turn"""
    replicate_actions: Literal["all", "all-summed", "one"] = "all"
    """compare the networks on all actions (their mean or their sum), or on the one in the replay"""
    replicate_batch_size: int = 32
    replicate_learning_rate: float | None = None
    """step size on the target; the online network's if not given"""
    replicate_adam_epsilon: float | None = None
    """Adam's ε for the target; the online network's if not given"""
    replicate_sampler: Literal["agent", "uniform"] = "agent"
    """draw batches as the agent does (prioritised if it is), or uniformly"""
    replicate_reset_optimizer: bool = False
    """forget the target's optimiser state before each turn"""
    replicate_start: Literal["target", "online"] = "target"
    """begin each turn from the target as it is, or from a copy of the online network"""
    replicate_until_gap: float | None = None
    """instead of a fixed K_R: stop when |q_θ − q_w| on the batch is at most this"""
    replicate_max_updates: int = 1_000
    """… or after this many steps"""
    target_init: Literal["copy", "independent"] = "copy"
    """start the target as a copy of the online network (where the shapes allow), or on its own"""


@dataclass(frozen=True)
class AgentConfig:
    """One agent: every part can be swapped."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    target: TargetConfig = field(default_factory=TargetConfig)

    def __post_init__(self) -> None:
        learning, replay, exploration, target = self.learning, self.replay, self.exploration, self.target
        _at_least(1, learning, "n_steps", "batch_size", "steps_per_update", "quantiles")
        _at_least(2, learning, "atoms")
        _at_least(1, target, "target_period_updates", "polyak_period_updates", "replicate_updates",
                  "replicate_batch_size", "replicate_max_updates")  # fmt: skip
        _at_least(1, replay, "replay_capacity_steps")
        _at_least(0, replay, "warmup_steps")
        _at_least(0, exploration, "epsilon_decay_steps")
        _below(2**31, replay, "replay_capacity_steps")
        _below(2**31, exploration, "epsilon_decay_steps")
        _within("discount", learning.discount, 0.0, 1.0)
        _within("epsilon_start", exploration.epsilon_start, 0.0, 1.0)
        _within("epsilon_end", exploration.epsilon_end, 0.0, 1.0)
        if not 0.0 < target.tau <= 1.0:
            raise UserError(f"tau = {target.tau}: must be in (0, 1], the fraction taken from the online network")
        for name, rate in (
            ("learning_rate", learning.learning_rate),
            ("adam_epsilon", learning.adam_epsilon),
            ("replicate_learning_rate", target.replicate_learning_rate),
            ("replicate_adam_epsilon", target.replicate_adam_epsilon),
        ):
            if rate is not None and not (rate > 0 and math.isfinite(rate)):
                raise UserError(f"{name} = {rate}: must be a positive number")
        if target.replicate_until_gap is not None and not target.replicate_until_gap >= 0:
            raise UserError(f"replicate_until_gap = {target.replicate_until_gap}: must be at least 0")
        for name, value in (("v_min", learning.v_min), ("v_max", learning.v_max)):
            if not math.isfinite(value):
                raise UserError(f"{name} = {value}: must be a finite number")
        if not learning.v_min < learning.v_max:
            raise UserError(f"v_min = {learning.v_min} must be below v_max = {learning.v_max}")
        cycle, capacity = learning.steps_per_update, replay.replay_capacity_steps
        if capacity % cycle:
            raise UserError(f"replay_capacity_steps = {capacity}: must be a multiple of steps_per_update = {cycle}")
        if capacity < learning.n_steps + cycle:
            raise UserError(
                f"replay_capacity_steps = {capacity}: must be at least n_steps + steps_per_update = "
                f"{learning.n_steps + cycle}, or nothing could be sampled"
            )
        if replay.warmup_steps % cycle:
            raise UserError(f"warmup_steps = {replay.warmup_steps}: must be a multiple of steps_per_update = {cycle}")
        if replay.warmup_steps < learning.n_steps + 1:
            raise UserError(
                f"warmup_steps = {replay.warmup_steps}: at least n_steps + 1 = {learning.n_steps + 1} are needed "
                "before anything can be sampled"
            )


@dataclass(frozen=True)
class RunConfig:
    """A training run: a population of agents with one configuration."""

    env: str
    """what to train on; several Atari games share one program: atari/Breakout,Freeway"""
    agent: str = "rainbow"
    """preset that the other settings start from"""
    agents: int = 1
    """how many agents to train side by side, over all games; in a game they differ in their random numbers alone"""
    first_agent: int = 0
    """number of the first agent: agent i is the same run whatever population it is part of"""
    steps: int = 1_000_000
    """agent steps of each agent"""
    seed: int = 0
    log_interval_steps: int = 10_000
    """agent steps between two rows of metrics"""
    checkpoint_interval_steps: int = 250_000
    """agent steps between two checkpoints; the end always has one; 0: none at all"""
    devices: int = 1
    """spread the agents over this many devices"""
    workers: int | None = None
    """processes that step environments on the host; 0: none, in this one; default: one per core, 0 for Gymnasium"""
    groups: int | None = None
    """parts of the population that take turns, so that emulators play while the device learns; default: up to 16"""
    settings: AgentConfig = field(default_factory=lambda: preset("rainbow"))

    def __post_init__(self) -> None:
        preset(self.agent)  # refuses a name that stands for nothing
        if self.agents % len(self.games):
            raise UserError(f"agents = {self.agents}: must be a multiple of the {len(self.games)} games")
        if len(set(self.games)) < len(self.games):
            raise UserError(f"env = '{self.env}': a game is named twice")
        for name, least in (("workers", 0), ("groups", 1)):
            if getattr(self, name) is not None:
                _at_least(least, self, name)
        if self.groups is not None and self.agents % self.groups:
            raise UserError(f"agents = {self.agents}: must be a multiple of groups = {self.groups}")
        _at_least(1, self, "agents", "steps", "log_interval_steps", "devices")
        _at_least(0, self, "first_agent", "checkpoint_interval_steps", "seed")
        _below(2**31, self, "steps", "log_interval_steps")  # counters on the device have 32 bits
        _below(2**32, self, "first_agent", "seed")  # of a larger one JAX would silently use the last 32 bits
        cycle = self.settings.learning.steps_per_update
        for name in ("steps", "log_interval_steps"):
            if getattr(self, name) % cycle:
                raise UserError(f"{name} = {getattr(self, name)}: must be a multiple of steps_per_update = {cycle}")
        if self.agents % self.devices:
            raise UserError(f"agents = {self.agents}: must be a multiple of devices = {self.devices}")
        if self.steps <= self.settings.replay.warmup_steps:
            raise UserError(
                f"steps = {self.steps}: all of it is warm-up (warmup_steps = {self.settings.replay.warmup_steps}); "
                "nothing would be learned"
            )

    @property
    def games(self) -> tuple[str, ...]:
        """The environments of the population, `agents / len(games)` agents each, in this order.

        >>> RunConfig("atari/Breakout,Freeway", agents=2).games
        ('atari/Breakout', 'atari/Freeway')
        """
        return games(self.env)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Each agent's number, counted within its game: agent i of a game is the same whatever is trained beside it."""
        per_game = self.agents // len(self.games)
        return tuple(self.first_agent + i % per_game for i in range(self.agents))


def games(env: str) -> tuple[str, ...]:
    """`atari/Breakout,Freeway` as two environments."""
    suite, slash, names = env.partition("/")
    return tuple(f"{suite}/{name}" for name in names.split(",")) if slash else (env,)


# What Dopamine and the paper use on Atari, where it differs from the defaults, which suit MinAtar.
ATARI: dict[str, dict[str, Any]] = {
    "network": {"network": "nature:512"},
    "learning": {"clip_rewards": True, "learning_rate": 6.25e-5, "v_min": -10.0, "v_max": 10.0},
    "replay": {"replay_capacity_steps": 1_000_000, "warmup_steps": 20_000},
    "exploration": {"epsilon_decay_steps": 250_000},
    "target": {"target_period_updates": 2_000, "replicate_updates": 200},
}


def preset(agent: str, env: str = "") -> AgentConfig:
    """The settings an agent's name stands for (docs/agents.md lists them): at MinAtar's scale, or at Atari's for an
    environment of that suite and for the agents that are defined on it."""
    base = AgentConfig()
    rainbow: dict[str, dict[str, Any]] = {
        "learning": {"head": "c51", "n_steps": 3},
        "replay": {"prioritised": True},
    }
    changes: dict[str, dict[str, dict[str, Any]]] = {
        "dqn": {},
        "double-dqn": {"learning": {"double": True}},
        "c51": {"learning": {"head": "c51"}},
        "qr-dqn": {"learning": {"head": "qr"}},
        "iqn": {"learning": {"head": "iqn"}},
        "rainbow": rainbow,
        "full-rainbow": {
            "learning": {"head": "c51", "n_steps": 3, "double": True},
            "replay": {"prioritised": True},
            "network": {"dueling": True, "noisy": True},
            "exploration": {"epsilon_start": 0.0, "epsilon_end": 0.0},  # the noise explores
        },
        "rainbow-lr": rainbow | {"target": {"target": "replicate", "replicate_batch_size": 512}},
        "dopamine-rainbow": rainbow,
        "paper-lr": rainbow | {"target": {"target": "replicate"}},
    }
    if agent not in changes:
        near = difflib.get_close_matches(agent, changes, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(changes)}"
        raise UserError(f"agent '{agent}' is unknown: {hint}")
    at_scale = ATARI if env.startswith("atari/") or agent in ("dopamine-rainbow", "paper-lr") else {}
    fields = {name: at_scale.get(name, {}) | changes[agent].get(name, {}) for name in vars(base)}
    if agent == "rainbow-lr":  # as in docs/results/minatar.md: larger steps make up for the paper's few
        online = fields["learning"].get("learning_rate", base.learning.learning_rate)
        periods = {} if at_scale else {"target_period_updates": 125, "replicate_updates": 12}
        fields["target"] |= {"replicate_learning_rate": 10 * online} | periods
    return AgentConfig(**{name: dataclasses.replace(getattr(base, name), **some) for name, some in fields.items()})


def replace(config: RunConfig, **changes: Any) -> RunConfig:
    """`config` with some fields of the run changed, checked again."""
    return dataclasses.replace(config, **changes)


def shared(config: RunConfig) -> RunConfig:
    """What runs must have in common to be trained in one program: all but their target update, their random numbers and
    how often they save.

    >>> hard, polyak = (preset("rainbow") for _ in range(2))
    >>> polyak = dataclasses.replace(polyak, target=TargetConfig("polyak"))
    >>> shared(RunConfig("minatar/breakout", settings=hard)) == shared(RunConfig("minatar/breakout", settings=polyak))
    True
    """
    settings = dataclasses.replace(config.settings, target=TargetConfig())
    own = {"first_agent": 0, "seed": 0, "checkpoint_interval_steps": 0, "groups": None, "workers": None}
    return replace(config, agents=config.devices, settings=settings, **own)


AGENTS = (
    "dqn", "double-dqn", "c51", "qr-dqn", "iqn", "rainbow", "full-rainbow", "rainbow-lr",
    "dopamine-rainbow", "paper-lr",
)  # fmt: skip


def to_json(config: RunConfig) -> dict[str, Any]:
    """A plain dictionary with every setting."""
    return dataclasses.asdict(config)


def from_json(data: dict[str, Any], where: str = "config") -> RunConfig:
    """The configuration that `to_json` wrote; what is left out is what the agent's name stands for.

    Unknown and mistyped fields are named.
    """
    if "env" not in data:
        raise UserError(f"{where}: field 'env' is missing")
    agent = _value(str, data.get("agent", "rainbow"), f"{where}: agent")
    env = _value(str, data["env"], f"{where}: env")
    config: RunConfig = _changed(RunConfig("", agent, settings=preset(agent, env)), data, where)
    return config


def load(path: Path) -> RunConfig:
    """Read a run's `config.json` (or a run folder that has one)."""
    file = path / "config.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text())
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{file}: not readable as JSON ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{file}: must hold one JSON object")
    data.pop("versions", None)
    return from_json(data, str(file))


def _changed(base: Any, data: Any, where: str) -> Any:
    """The dataclass `base` with the fields that `data` has."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected an object, got {data!r}")
    hints = typing.get_type_hints(type(base))
    values = {}
    for name, value in data.items():
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            raise UserError(f"{where}: unknown field '{name}'" + (f", did you mean '{near[0]}'?" if near else ""))
        old, place = getattr(base, name), f"{where}: {name}"
        values[name] = (
            _changed(old, value, place) if dataclasses.is_dataclass(old) else _value(hints[name], value, place)
        )
    return dataclasses.replace(base, **values)


def _value(kind: Any, value: Any, where: str) -> Any:
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            raise UserError(f"{where} = {value!r}: choose from {', '.join(typing.get_args(kind))}")
        return value
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in options:
        return None
    if float in options and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not any(
        o is not type(None) and isinstance(value, o) and isinstance(value, bool) == (o is bool) for o in options
    ):
        raise UserError(f"{where} = {value!r}: must be {' or '.join(o.__name__ for o in options)}")
    return value


def _at_least(low: int, settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < low:
            raise UserError(f"{name} = {getattr(settings, name)}: must be at least {low}")


def _below(high: int, settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) >= high:
            raise UserError(f"{name} = {getattr(settings, name)}: must be below {high}")


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UserError(f"{name} = {value}: must be between {low:g} and {high:g}")
