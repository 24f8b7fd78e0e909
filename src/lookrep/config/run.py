"""A training run: which agents, on what, for how long. What runs must share to be trained in one program."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from lookrep.config.presets import preset
from lookrep.config.schema import NUMBERS, AgentConfig, AtariConfig, TargetConfig, at_least, below
from lookrep.errors import UserError

MOST_AGENTS = 2**20  # more would fit nowhere, and is slow to find out


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
    """of all random numbers: equal seeds give equal runs"""
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
    settings: AgentConfig = None  # type: ignore[assignment]  # what `agent` stands for, where it is left out

    def __post_init__(self) -> None:
        named = preset(self.agent, self.env)  # refuses a name that stands for nothing
        if self.settings is None:
            object.__setattr__(self, "settings", named)
        if self.env and not self.env.startswith("atari/") and self.settings.atari != AtariConfig():
            raise UserError(f"sticky_actions, life_loss_terminal: only Atari's games have them, not {self.env}")
        if self.agents % len(self.games):
            raise UserError(f"agents = {self.agents}: must be a multiple of the {len(self.games)} games")
        if len(set(self.games)) < len(self.games):
            raise UserError(f"env = '{self.env}': a game is named twice")
        for name, least in (("workers", 0), ("groups", 1)):
            if getattr(self, name) is not None:
                at_least(least, self, name)
        if self.groups is not None and self.agents % self.groups:
            raise UserError(f"agents = {self.agents}: must be a multiple of groups = {self.groups}")
        at_least(1, self, "agents", "steps", "log_interval_steps", "devices")
        at_least(0, self, "first_agent", "checkpoint_interval_steps", "seed")
        below(2**31, self, "steps", "log_interval_steps")  # counters on the device have 32 bits
        below(2**32, self, "seed")  # of a larger one JAX would silently use the last 32 bits
        check_agents(self.agents, self.first_agent)
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


def check_agents(agents: int, first_agent: int) -> None:
    """Refuse more agents, or larger numbers of them, than a population can have."""
    if agents > MOST_AGENTS:
        raise UserError(f"agents = {agents}: must be at most {MOST_AGENTS}")
    if first_agent >= 2**32:  # JAX would silently use the last 32 bits
        raise UserError(f"first_agent = {first_agent}: must be below {2**32}")
    if first_agent + agents > 2**32:
        raise UserError(f"first_agent = {first_agent}: with {agents} agents, numbers go beyond 2³² − 1")


def games(env: str) -> tuple[str, ...]:
    """`atari/Breakout,Freeway` as two environments."""
    suite, slash, names = env.partition("/")
    return tuple(f"{suite}/{name}" for name in names.split(",")) if slash else (env,)


def replace(config: RunConfig, **changes: Any) -> RunConfig:
    """`config` with some fields of the run changed, checked again."""
    return dataclasses.replace(config, **changes)


def shared(config: RunConfig) -> RunConfig:
    """What runs must have in common to be trained in one program: all but numbers that each agent may have for itself
    (`NUMBERS`), their target update, their random numbers and how often they save.

    >>> hard, polyak = (preset("rainbow") for _ in range(2))
    >>> polyak = dataclasses.replace(polyak, target=TargetConfig("polyak"))
    >>> shared(RunConfig("minatar/breakout", settings=hard)) == shared(RunConfig("minatar/breakout", settings=polyak))
    True
    """
    alike = _without_numbers(config.settings)
    unnamed = dataclasses.replace(alike.method, method="plain")
    any_target = TargetConfig("replicate" if unnamed.symmetric else "hard")
    settings = dataclasses.replace(alike, target=any_target, method=unnamed)
    own = {"agent": "rainbow", "first_agent": 0, "seed": 0, "checkpoint_interval_steps": 0}
    return replace(config, agents=config.devices, settings=settings, groups=None, workers=None, **own)


def target_code(config: RunConfig) -> TargetConfig:
    """What targets must have in common to have their turns in one piece of code: all but numbers."""
    return _without_numbers(config.settings).target


def _without_numbers(settings: AgentConfig) -> AgentConfig:
    plain = AgentConfig()
    for group in set(NUMBERS.values()):
        names = [name for name, of in NUMBERS.items() if of == group]
        defaults = {name: getattr(getattr(plain, group), name) for name in names}
        if group == "target" and settings.target.replicate_spread_updates > 1:
            defaults["replicate_updates"] = settings.target.replicate_spread_updates  # which must divide it
        settings = dataclasses.replace(settings, **{group: dataclasses.replace(getattr(settings, group), **defaults)})
    return settings
