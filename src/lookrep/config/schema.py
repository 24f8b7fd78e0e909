"""Everything that can be set, with validation. A wrong value is one clear line.

Frozen dataclasses, grouped as the help shows them; units are in the names. `config.json` of a run holds all of it.
Networks, heads, optimisers and target rules are named here: by our names, or as `module:thing` for one's own.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lookrep.config.method import MethodConfig, check_together
from lookrep.errors import UserError
from lookrep.importing import known_or_own

Head = Literal["dqn", "c51", "qr", "iqn"]
TargetName = Literal["hard", "polyak", "replicate", "frozen"]
ReplayMemory = Literal["auto", "device", "host"]
Precision = Literal["f32", "bf16"]


# Numbers that agents of one program may have each for themselves: field → its group. All else is compiled in.
NUMBERS = {
    "learning_rate": "learning",
    "adam_epsilon": "learning",
    "discount": "learning",
    "epsilon_start": "exploration",
    "epsilon_end": "exploration",
    "epsilon_decay_steps": "exploration",
    "tau": "target",
    "replicate_updates": "target",
    "replicate_learning_rate": "target",
    "replicate_adam_epsilon": "target",
    "kappa": "method",
}


@dataclass(frozen=True)
class NetworkConfig:
    """What the networks look like."""

    network: str = "auto"
    """the online network: cnn16:128 (3×3 convolutions, dense layers), nature:512 (Atari's), mlp:64x64, auto, or
    my_nets:Torso"""
    target_network: str = "same"
    """the target network, if it should differ; only --target replicate can follow across networks"""
    dueling: bool = False
    """separate streams for state value and advantages"""
    noisy: bool = False
    """noisy dense layers for exploration"""
    layer_norm: bool = False
    """normalise what every hidden layer gives, before its ReLU"""
    precision: Precision = "f32"
    """what matrix products are computed in; parameters and optimiser are always float32"""


@dataclass(frozen=True)
class LearningConfig:
    """How the online network learns (Lookahead)."""

    head: Head | str = "dqn"
    """what is predicted for each action: a value, a categorical distribution, quantiles, implicit quantiles, or
    my_heads:head"""
    double: bool = False
    """choose the bootstrap action by the online network"""
    n_steps: int = 1
    """rewards summed before bootstrapping"""
    clip_rewards: bool = False
    """learn from rewards clipped to [−1, 1]; the returns reported are never clipped"""
    discount: float = 0.99
    """what a reward one step later is worth"""
    batch_size: int = 32
    """transitions of each update"""
    learning_rate: float = 2.5e-4
    """Adam's step size"""
    adam_epsilon: float = 1.5e-4
    """Adam's ε: larger means smaller steps where gradients are small"""
    steps_per_update: int = 4
    """agent steps between two updates of the online network"""
    updates_in_a_row: int = 1
    """so many updates then, each with a batch of its own"""
    atoms: int = 51
    """support of the categorical distribution: so many returns, evenly spaced from v_min to v_max"""
    v_min: float = -5.0
    """smallest return that the categorical distribution can say"""
    v_max: float = 45.0
    """largest return that it can say"""
    quantiles: int = 32
    """quantiles, or fractions drawn for implicit quantiles"""
    optimizer: str = "adam"
    """adam, with the step size and ε above, or my_optimizers:make for any optax transformation"""


@dataclass(frozen=True)
class ReplayConfig:
    """What is remembered."""

    replay_capacity_steps: int = 100_000
    """agent steps that each agent remembers"""
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
    """share of random actions before and at the end of the warm-up"""
    epsilon_end: float = 0.01
    """share of random actions at the end of the decay, and from then on"""
    epsilon_decay_steps: int = 100_000
    """agent steps over which it falls, after the warm-up"""


@dataclass(frozen=True)
class TargetConfig:
    """How the target network follows the online network."""

    target: TargetName | str = "hard"
    """hard copy, Polyak average, Replicate (gradient steps in function space), never, or my_rules:rule"""
    target_period_updates: int = 250
    """online updates between two turns of the target: hard's period, Replicate's K_L"""
    target_period_growth: float = 1.0
    """each of these periods is so many times the one before …"""
    target_period_most_updates: int = 2_500
    """… up to this one"""
    tau: float = 0.005
    """polyak's fraction: how much of the online network each average takes"""
    polyak_period_updates: int = 1
    """online updates between two averages"""
    replicate_updates: int = 100
    """K_R: gradient steps on the target in each turn"""
    replicate_spread_updates: int = 1
    """the last so many online updates of a period share a turn's steps evenly; 1: all come after the last one"""
    replicate_actions: Literal["all", "all-summed", "one"] = "all"
    """compare the networks on all actions (their mean or their sum), or on the one in the replay"""
    replicate_batch_size: int = 32
    """transitions of each gradient step on the target"""
    replicate_learning_rate: float | None = 2.5e-3
    """step size on the target: ten times the online network's default, whatever --learning-rate is; None: as large as
    the online network's"""
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
    replicate_optimizer: str = "adam"
    """the target's: adam, with the step size and ε above, or my_optimizers:make"""


@dataclass(frozen=True)
class AtariConfig:
    """By what rules Atari's games are played."""

    sticky_actions: float = 0.25
    """chance that an emulator frame keeps the action before"""
    life_loss_terminal: bool = False
    """learn as if the loss of a life ended the episode; the game, and its return, go on"""


@dataclass(frozen=True)
class AgentConfig:
    """One agent, by the names of its parts and their numbers."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)

    def __post_init__(self) -> None:
        learning, replay, exploration, target = self.learning, self.replay, self.exploration, self.target
        known_or_own("head", learning.head, get_args(Head))
        known_or_own("target", target.target, get_args(TargetName))
        known_or_own("optimizer", learning.optimizer, ("adam",))
        known_or_own("replicate_optimizer", target.replicate_optimizer, ("adam",))
        at_least(1, learning, "n_steps", "batch_size", "steps_per_update", "updates_in_a_row", "quantiles")
        at_least(2, learning, "atoms")
        at_least(1, target, "target_period_updates", "polyak_period_updates", "replicate_updates",
                  "replicate_spread_updates",
                  "replicate_batch_size", "replicate_max_updates")  # fmt: skip
        at_least(1, replay, "replay_capacity_steps")
        at_least(0, replay, "warmup_steps")
        at_least(0, exploration, "epsilon_decay_steps")
        # Counters on the device have 32 bits; losses compare every atom or quantile with every other.
        below(2**31, replay, "replay_capacity_steps", "warmup_steps")
        below(2**31, exploration, "epsilon_decay_steps")
        below(2**31, target, "target_period_updates", "target_period_most_updates", "polyak_period_updates",
              "replicate_updates", "replicate_max_updates")  # fmt: skip
        at_most(2**20, learning, "batch_size", "steps_per_update")
        at_most(2**10, learning, "updates_in_a_row")
        at_most(2**20, target, "replicate_batch_size")
        at_most(2**12, learning, "atoms", "quantiles")
        within("discount", learning.discount, 0.0, 1.0)
        within("epsilon_start", exploration.epsilon_start, 0.0, 1.0)
        within("epsilon_end", exploration.epsilon_end, 0.0, 1.0)
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
        growth = target.target_period_growth
        if not (growth >= 1.0 and math.isfinite(growth)):
            raise UserError(f"target_period_growth = {growth}: must be a number of at least 1, which is no growth")
        if growth > 1.0 and target.target_period_most_updates < target.target_period_updates:
            raise UserError(
                f"target_period_most_updates = {target.target_period_most_updates}: must be at least "
                f"target_period_updates = {target.target_period_updates}"
            )
        check_together(self.method, target, self.network.target_network)
        _check_spread(target, self.method)
        if not 0.0 <= self.atari.sticky_actions < 1.0:
            raise UserError(f"sticky_actions = {self.atari.sticky_actions}: must be at least 0 and below 1")
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


def _check_spread(target: TargetConfig, method: MethodConfig) -> None:
    """Refuse what a turn in several parts cannot do."""
    spread = target.replicate_spread_updates
    if spread == 1 or target.target != "replicate":
        return
    said = f"replicate_spread_updates = {spread}"
    if spread > target.target_period_updates:
        raise UserError(f"{said}: must be at most target_period_updates = {target.target_period_updates}")
    if target.replicate_updates % spread:
        raise UserError(f"{said}: must divide replicate_updates = {target.replicate_updates}, so that all get as many")
    whole = {
        "target_period_growth": target.target_period_growth > 1.0,
        "replicate_until_gap": target.replicate_until_gap is not None,
        "replicate_start": target.replicate_start != "target",
        "replicate_reset_optimizer": target.replicate_reset_optimizer,
        "optimizer_at_turn": method.optimizer_at_turn != "keep",
        "averaged_networks": method.averaged_networks > 1,
    }
    for name in (name for name, given in whole.items() if given):
        raise UserError(f"{said}: does not go with {name}, which is about whole turns")


def at_least(low: int, settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < low:
            raise UserError(f"{name} = {getattr(settings, name)}: must be at least {low}")


def at_most(high: int, settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) > high:
            raise UserError(f"{name} = {getattr(settings, name)}: must be at most {high}")


def below(high: int, settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) >= high:
            raise UserError(f"{name} = {getattr(settings, name)}: must be below {high}")


def within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UserError(f"{name} = {value}: must be between {low:g} and {high:g}")
