"""Parts of an agent that users bring as objects, and how names and objects become what an agent is made of.

A part is an object here, or a name in the settings: one of ours, or `module:thing`. What came as an object is recorded
in the settings as such (`lookrep.importing.recorded`), so that going on with a run can ask for it again.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import optax

from lookrep import heads, networks
from lookrep.agents.numbers import Numbers
from lookrep.config import AgentConfig
from lookrep.errors import UserError
from lookrep.importing import OBJECT, found, in_short, is_own, recorded
from lookrep.methods import bootstraps, regularisers
from lookrep.networks import own

# Where each part has its name: field of `Parts` → (group, field) of the settings.
PLACES = {
    "network": ("network", "network"),
    "target_network": ("network", "target_network"),
    "head": ("learning", "head"),
    "optimizer": ("learning", "optimizer"),
    "replicate_optimizer": ("target", "replicate_optimizer"),
    "target": ("target", "target"),
    "bootstrap": ("method", "bootstrap"),
    "regulariser": ("method", "regulariser"),
}
Optimizer = Callable[[Numbers], optax.GradientTransformation]


@dataclass(frozen=True)
class Parts:
    """None: what the settings name."""

    network: Any = None
    """a flax module, a function of rngs (nnx) or of key (Equinox), or a pair (init, apply)"""
    target_network: Any = None
    head: heads.Head | None = None
    optimizer: optax.GradientTransformation | None = None
    replicate_optimizer: optax.GradientTransformation | None = None
    target: Any = None
    """a rule (anything with init, turn and every_updates), or a function from an agent to one"""
    bootstrap: Any = None
    """a `lookrep.methods.bootstraps.Mix`: whose outputs are learned from"""
    regulariser: Any = None
    """a `lookrep.methods.regularisers.Regulariser`: a term in the online loss"""

    @property
    def given(self) -> dict[str, Any]:
        return {name: part for name in PLACES if (part := getattr(self, name)) is not None}


def split(settings: AgentConfig, given: dict[str, Any]) -> tuple[AgentConfig, Parts]:
    """Settings that name all parts, and those of the parts that are objects and no names."""
    objects = {name: part for name, part in given.items() if part is not None and not isinstance(part, str)}
    for name, (group, field) in PLACES.items():
        if given.get(name) is not None:
            word = recorded(given[name]) if name in objects else given[name]
            changed = dataclasses.replace(getattr(settings, group), **{field: word})
            settings = dataclasses.replace(settings, **{group: changed})
    return settings, Parts(**objects)


def complete(settings: AgentConfig, parts: Parts) -> Parts:
    """With those parts found that the settings name as `module:thing`."""
    for name, (group, field) in PLACES.items():
        word = getattr(getattr(settings, group), field)
        if getattr(parts, name) is None and is_own(word):
            if word.startswith(OBJECT):
                raise UserError(
                    f"{name} was given as an object ({word.removeprefix(OBJECT)}), which no file can hold: give it "
                    f"again, as in lookrep.load(run, {name}=…)"
                )
            parts = dataclasses.replace(parts, **{name: found(word, name)})
    return parts


def for_playing(settings: AgentConfig, parts: Parts) -> tuple[AgentConfig, Parts]:
    """Without what only learning needs, so that nobody has to bring it to look at trained agents."""
    learning, target = settings.learning, settings.target
    if is_own(learning.optimizer):
        learning = dataclasses.replace(learning, optimizer="adam")
    if is_own(target.target):
        target = dataclasses.replace(target, target="replicate")
    target = dataclasses.replace(target, replicate_optimizer="adam")
    method = dataclasses.replace(settings.method, bootstrap="target", regulariser="none", optimizer_at_turn="keep")
    settings = dataclasses.replace(settings, learning=learning, target=target, method=method)
    unneeded = ("optimizer", "replicate_optimizer", "target", "bootstrap", "regulariser")
    return settings, dataclasses.replace(parts, **dict.fromkeys(unneeded))


def head_of(settings: AgentConfig, part: Any) -> heads.Head:
    learning = settings.learning
    if part is not None:
        made = part if isinstance(part, heads.Head) else _called("head", part)
        if not isinstance(made, heads.Head):
            raise UserError(f"head gives {type(made).__name__}: must be a lookrep.heads.Head")
        return made
    if learning.head == "dqn":
        return heads.value_head()
    if learning.head == "c51":
        return heads.categorical_head(learning.atoms, learning.v_min, learning.v_max)
    return heads.quantile_head(learning.quantiles)


def optimizer_of(part: Any, learning_rate: str, adam_epsilon: str) -> Optimizer:
    """Adam with the numbers of these names, or the user's."""
    if part is None:
        return lambda numbers: optax.adam(getattr(numbers, learning_rate), eps=getattr(numbers, adam_epsilon))
    made = part if isinstance(part, optax.GradientTransformation) else _called("optimizer", part)
    if not isinstance(made, optax.GradientTransformation):
        raise UserError(f"optimizer gives {type(made).__name__}: must be an optax transformation, as optax.adam(1e-3)")
    return lambda numbers: made


def mix_of(settings: AgentConfig, part: Any) -> Any:
    """How the outputs of both networks become those that are bootstrapped from; None where only one is read."""
    if part is None:
        return bootstraps.smaller if settings.method.bootstrap == "smaller" else None
    if not callable(part):
        raise UserError(f"bootstrap = {part!r:.60}: must be a function of (values, target's outputs, online's outputs)")
    return part


def regulariser_of(settings: AgentConfig, part: Any) -> regularisers.Regulariser | None:
    """The term in the online loss; None where there is none."""
    if part is None:
        return regularisers.OF_OUTPUTS.get(settings.method.regulariser)
    if not callable(part):
        raise UserError(f"regulariser = {part!r:.60}: must be a function of (head, pair), see lookrep.methods")
    return part


def rule_of(part: Any, agent: Any) -> Any:
    """A user's target rule; what is no rule is a function from the agent to one."""
    rule = part
    if not _is_rule(rule):
        if not callable(part):
            raise UserError(f"target = {part!r:.60}: must be a rule with init, turn and every_updates")
        try:
            rule = part(agent)
        except Exception as error:
            raise UserError(f"target: a function must take the agent and give a rule ({in_short(error)})") from error
    if not _is_rule(rule):
        raise UserError(f"target gives {type(rule).__name__}: a rule has init, turn and every_updates")
    return rule


def _is_rule(thing: Any) -> bool:
    return not isinstance(thing, type) and all(hasattr(thing, name) for name in ("init", "turn", "every_updates"))


def _called(what: str, part: Any) -> Any:
    if not callable(part):
        raise UserError(f"{what} = {part!r:.60}: neither what is needed nor a function that gives it")
    try:
        return part()
    except Exception as error:
        raise UserError(f"{what}: {getattr(part, '__name__', part)}() fails ({in_short(error)})") from error


def networks_of(
    settings: AgentConfig, parts: Parts, observation_shape: tuple[int, ...], num_actions: int, head: Any
) -> tuple[networks.Network, networks.Network, bool]:
    """Online and target network, and whether they are of one architecture."""
    config = settings.network
    shape = networks.HeadShape(
        num_actions, head.size, config.dueling, config.noisy, settings.learning.head == "iqn", config.layer_norm
    )

    def torso(name: str) -> networks.Torso:
        return networks.Torso.parse(name, observation_shape)

    online_part = parts.network or torso(config.network)
    target_part = online_part
    if config.target_network != "same":
        target_part = parts.target_network or torso(config.target_network)
    online, target = (
        networks.build(part, shape, observation_shape)
        if isinstance(part, networks.Torso)
        else own.network(part, shape, observation_shape)
        for part in (online_part, target_part)
    )
    if config.layer_norm and not all(isinstance(part, networks.Torso) for part in (online_part, target_part)):
        raise UserError("layer_norm: normalises networks of ours, do it in your own")
    same_shape = bool(online_part == target_part)
    copies = settings.target.target in ("hard", "polyak", "frozen")
    if not same_shape and copies:
        raise UserError(
            f"target network '{config.target_network}' differs from '{config.network}': only --target "
            f"replicate can follow across networks, --target {settings.target.target} needs the same"
        )
    if not same_shape and settings.target.replicate_start == "online":
        raise UserError(
            f"replicate_start = 'online' copies: target network '{config.target_network}' cannot copy "
            f"'{config.network}', choose replicate_start = 'target'"
        )
    if settings.method.averaged_networks > 1 and settings.target.target == "hard":
        target = networks.mean_of(target, settings.method.averaged_networks, head.mixture)
    return online, target, same_shape
