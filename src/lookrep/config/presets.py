"""Presets: what an agent's name stands for, as data (docs/agents.md lists them).

A preset is a dictionary of changes to the defaults of `lookrep.config.schema`, which suit MinAtar. `ATARI` goes under
it for Atari, and for the agents that are defined there.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from lookrep import methods
from lookrep.config.schema import AgentConfig
from lookrep.errors import UserError

Changes = dict[str, dict[str, Any]]
Given = Mapping[str, Mapping[str, Any]]  # what someone asks for besides: group → field → value

# What Dopamine and the paper use on Atari, where it differs from the defaults. Replicate, if it is the target's rule,
# has the paper's number of steps, ten times as large and with larger batches (docs/agents.md has the evidence).
ATARI: Changes = {
    "network": {"network": "nature:512"},
    "learning": {"clip_rewards": True, "learning_rate": 6.25e-5, "v_min": -10.0, "v_max": 10.0},
    "replay": {"replay_capacity_steps": 1_000_000, "warmup_steps": 20_000},
    "exploration": {"epsilon_decay_steps": 250_000},
    "target": {
        "target_period_updates": 2_000,
        "replicate_updates": 200,
        "replicate_learning_rate": 6.25e-4,
        "replicate_batch_size": 512,
    },
}
RAINBOW: Changes = {"learning": {"head": "c51", "n_steps": 3}, "replay": {"prioritised": True}}
# The authors' public code of 2022 (amazon-science/fast-rl-with-slow-updates, rainbow_our_second_paper.gin).
FORK: Changes = {
    "learning": RAINBOW["learning"] | {"batch_size": 64},
    "replay": RAINBOW["replay"],
    "target": {"target_init": "independent"},
    "atari": {"sticky_actions": 0.0, "life_loss_terminal": True},
}
# The paper's target: steps and batches as large as the online network's.
AS_READ = {"target": "replicate", "replicate_learning_rate": None, "replicate_batch_size": 32}
PRESETS: dict[str, Changes] = {
    "dqn": {},
    "double-dqn": {"learning": {"double": True}},
    "c51": {"learning": {"head": "c51"}},
    "qr-dqn": {"learning": {"head": "qr"}},
    "iqn": {"learning": {"head": "iqn"}},
    "rainbow": RAINBOW,
    "full-rainbow": {
        "learning": {"head": "c51", "n_steps": 3, "double": True},
        "replay": {"prioritised": True},
        "network": {"dueling": True, "noisy": True},
        "exploration": {"epsilon_start": 0.0, "epsilon_end": 0.0},  # the noise explores
    },
    "rainbow-lr": RAINBOW | {"target": {"target": "replicate", "replicate_batch_size": 512}},
    "dopamine-rainbow": RAINBOW,
    "paper-lr": RAINBOW | {"target": AS_READ},
    "fork-rainbow": FORK,
    "fork-lr": FORK | {"target": AS_READ | FORK["target"] | {"replicate_batch_size": 64}},
}
AT_ATARIS_SCALE = ("dopamine-rainbow", "paper-lr", "fork-rainbow", "fork-lr")  # wherever they play
AGENTS = tuple(PRESETS)


def preset(
    agent: str, env: str = "", method: str | methods.Method = "plain", given: Given | None = None
) -> AgentConfig:
    """The settings an agent's and a method's name stand for, at MinAtar's scale or at Atari's; `given` on top."""
    if agent not in PRESETS:
        near = difflib.get_close_matches(agent, PRESETS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(PRESETS)}"
        raise UserError(f"agent '{agent}' is unknown: {hint}")
    base, changes = AgentConfig(), PRESETS[agent]
    at_scale = ATARI if env.startswith("atari/") or agent in AT_ATARIS_SCALE else {}
    fields = {name: at_scale.get(name, {}) | changes.get(name, {}) for name in vars(base)}
    if agent == "rainbow-lr" and not at_scale:  # as in docs/results/minatar.md
        fields["target"] |= {"target_period_updates": 125, "replicate_updates": 12}
    return with_method(_changed(base, fields), method, given)


def with_method(settings: AgentConfig, method: str | methods.Method, given: Given | None = None) -> AgentConfig:
    """These settings with those that a method stands for, and with what is `given` beside its name.

    >>> settings = with_method(AgentConfig(), "paper-replicate", {"target": {"target_period_updates": 50}})
    >>> settings.target.replicate_updates
    5
    """
    chosen = methods.named(method) if isinstance(method, str) else method
    if chosen.name == "plain":
        return _changed(settings, given or {})
    changes = chosen.of(settings, given)
    for group, fields in changes.items():
        known = vars(getattr(settings, group, None) or AgentConfig())
        for field in (field for field in fields if group not in vars(settings) or field not in known):
            raise UserError(f"method '{chosen.name}' sets {group}.{field}, which is no setting")
    return _changed(settings, changes | {"method": {"method": chosen.name} | changes.get("method", {})})


def _changed(settings: AgentConfig, changes: Given) -> AgentConfig:
    parts = {name: dataclasses.replace(getattr(settings, name), **fields) for name, fields in changes.items()}
    return dataclasses.replace(settings, **parts)
