"""What an agent's settings say about its target: which rule, and by which distance it learns."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from lookrep import distances, networks, targets
from lookrep.agents.numbers import Numbers
from lookrep.agents.parts import rule_of
from lookrep.errors import UserError
from lookrep.methods import regularisers

if TYPE_CHECKING:
    from lookrep.agents.agent import Agent


class Inputs(NamedTuple):
    """What a target's turn compares the networks on. With `replicate_actions = "one"` it comes as (inputs, actions)."""

    observation: jax.Array
    key: jax.Array  # of layers with noise, and of drawn fractions: the same for both networks
    legal: jax.Array | None


def rule(agent: "Agent", part: Any) -> Callable[[Numbers], Any]:
    """The target's rule for these numbers; `part` is a user's."""
    settings, method = agent.settings.target, agent.settings.method
    if part is not None:
        own = rule_of(part, agent)
        if isinstance(own, (targets.Averaged, targets.Distilled)):
            several = "averaged" if isinstance(own, targets.Averaged) else "distilled"
            raise UserError(f"target: a rule of several networks changes what agents read: say method='{several}'")
        if getattr(own, "axis_name", None) is not None:
            raise UserError(f"target: axis_name = {own.axis_name!r} is for shard_map: these agents share no gradients")
        if isinstance(own, targets.Replicate) and own.distance is None:
            own = own.with_distance(agent.distance)
        return lambda numbers: own
    name, period = settings.target, _period(agent)
    if name == "hard" and method.averaged_networks > 1:
        return lambda numbers: targets.averaged(period, method.averaged_networks)
    if name == "hard":
        return lambda numbers: targets.hard(period)
    if name == "polyak":
        return lambda numbers: targets.polyak(numbers.tau, settings.polyak_period_updates)
    if name == "frozen":
        return lambda numbers: targets.frozen()
    gap, most = settings.replicate_until_gap, settings.replicate_max_updates

    def replicate(numbers: Numbers) -> Any:
        steps = targets.replicate(
            period,
            numbers.replicate_updates // settings.replicate_spread_updates
            if gap is None
            else targets.until(gap=gap, most_updates=most),
            agent.target_optimizer(numbers),
            _rewarded(agent, numbers) if method.symmetric else agent.distance,
            reset_optimizer=settings.replicate_reset_optimizer,
            start=settings.replicate_start,
        )
        return targets.distilled(steps, method.averaged_networks) if method.averaged_networks > 1 else steps

    return replicate


def checked(what: str, found: Any, before: targets.TargetState | None = None) -> targets.TargetState:
    """What a method of a rule gave; a user's mistake is told here, before JAX tells it."""
    if not isinstance(found, targets.TargetState):
        raise UserError(f"target rule: {what} gives a {type(found).__name__}, must give a lookrep.targets.TargetState")
    if before is not None:
        for (path, old), (_, new) in itertools.zip_longest(_described(before), _described(found), fillvalue=("", "")):
            if old != new:
                raise UserError(f"target rule: after {what}, state{path} is {new or 'gone'}, must be as before: {old}")
    return found


def _described(state: targets.TargetState) -> list[tuple[str, str]]:
    """Where each array is, with its shape and type."""
    return [
        (jax.tree_util.keystr(path), f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}")
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    ]


def distance(agent: "Agent") -> distances.Distance:
    """What a turn of Replicate descends: of the target to the online network, or to the mean of several."""
    method, online = agent.settings.method, agent.online
    learns_mean = method.averaged_networks > 1 and agent.settings.target.target != "hard"
    if learns_mean:
        online = networks.mean_of(agent.online, method.averaged_networks, agent.head.mixture)
    alike = agent.same_shape and not learns_mean
    return distances.build(
        agent.head.distance,
        agent.head.values,
        _outputs(agent, agent.target),
        None if alike else _outputs(agent, online),
        actions=agent.settings.target.replicate_actions,
        legal=lambda inputs: inputs.legal,
    )


def towards_target(agent: "Agent", numbers: Numbers) -> targets.Replicate:
    """Replicate with the roles exchanged: a new online network learns the target's function, on all actions."""
    back = distances.build(
        agent.head.distance,
        agent.head.values,
        _outputs(agent, agent.online),
        _outputs(agent, agent.target),
        legal=lambda inputs: inputs.legal,
    )
    return targets.replicate(1, agent.settings.method.reset_updates, agent.target_optimizer(numbers), back)


def _period(agent: "Agent") -> int | targets.Schedule:
    settings = agent.settings.target
    first, growth = settings.target_period_updates, settings.target_period_growth
    if settings.target == "replicate" and settings.replicate_spread_updates > 1:
        return targets.Schedule(every=first, last=settings.replicate_spread_updates)
    return first if growth == 1.0 else targets.growing(first, growth, settings.target_period_most_updates)


def _rewarded(agent: "Agent", numbers: Numbers) -> distances.Distance:
    """The loss of a target that learns from rewards: its TD loss, bootstrapping from the online network, and κ times
    its squared distance from it in the value of the stored action (SGT2: Park et al., arXiv 2503.16700)."""
    head, target, online = agent.head, _outputs(agent, agent.target), _outputs(agent, agent.online)
    double = agent.settings.learning.double  # then θ chooses, as w does in its own loss

    def loss(target_params: Any, online_params: Any, batch: Any) -> jax.Array:
        inputs, seen = batch
        out = agent.target.apply(agent.compute(target_params), inputs.observation, inputs.key)
        after = inputs._replace(observation=seen.next_observation)
        out_t = online(online_params, after)
        a_t = agent.values(target(target_params, after) if double else out_t, inputs.legal).argmax(axis=-1)
        each = jax.vmap(head.loss)(out.per_action, out.taus, seen.action, seen.reward, seen.discount, out_t, a_t)
        pair = regularisers.Pair(out.per_action, online(online_params, inputs), seen.action, inputs.legal)
        return (seen.weight * (each + numbers.kappa * regularisers.values(head, pair))).mean()

    def gap(target_params: Any, online_params: Any, batch: Any) -> jax.Array:
        apart = head.values(target(target_params, batch[0])) - head.values(online(online_params, batch[0]))
        return abs(apart).mean()

    return distances.Distance(loss, gap, two_networks=not agent.same_shape)


def _outputs(agent: "Agent", network: networks.Network) -> distances.Apply:
    return lambda params, inputs: network.apply(agent.compute(params), inputs.observation, inputs.key).per_action
