"""The words after `lookrep train`, put in order before flags are read: where the environment stands, `1e6` for whole
numbers, misspelt flags, and flags that would have no effect. What they mean is `lookrep.cli.train`'s business."""

import contextlib
import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any

from lookrep.config import RunConfig, setting_groups
from lookrep.config.schema import AgentConfig
from lookrep.errors import UserError, hint

# Flags that only some targets or heads look at.
OF_TARGET = {
    "tau": ("polyak",),
    "polyak_period_updates": ("polyak",),
    "target_period_updates": ("hard", "replicate"),
    "replicate_updates": ("replicate",),
    "replicate_actions": ("replicate",),
    "replicate_batch_size": ("replicate",),
    "replicate_learning_rate": ("replicate",),
    "replicate_adam_epsilon": ("replicate",),
    "replicate_sampler": ("replicate",),
    "replicate_reset_optimizer": ("replicate",),
    "replicate_start": ("replicate",),
    "replicate_until_gap": ("replicate",),
    "replicate_max_updates": ("replicate",),
}
OF_HEAD = {"atoms": ("c51",), "v_min": ("c51",), "v_max": ("c51",), "quantiles": ("qr", "iqn")}
OURS = {"target": ("hard", "polyak", "replicate", "frozen"), "head": ("dqn", "c51", "qr", "iqn")}


def in_order(words: Sequence[str], arguments: type) -> list[str]:
    """The same words with the environment behind `--env`, and whole numbers written out.

    >>> in_order(["--agents", "2", "minatar/breakout", "--steps", "1e6"], RunConfig)
    ['--env', 'minatar/breakout', '--agents', '2', '--steps', '1000000']
    """
    kinds = _kinds(arguments)
    environments: list[str] = []
    ordered: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            environments.append(word)
            continue
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        kind = kinds.get(name)
        if kind is None and flag not in ("-h", "--help") and name.removeprefix("no_") not in kinds:
            flags = [f"--{known.replace('_', '-')}" for known in kinds]
            raise UserError(f"unknown option {flag}: {hint(flag, flags, 'see lookrep train --help')}")
        if kind in (None, bool):
            if left and left[0].lower() in ("yes", "true", "on", "1", "no", "false", "off", "0"):
                raise UserError(f"{flag} takes no value: write {flag}, or --no-{flag.removeprefix('--')} for no")
            ordered.append(word)
            continue
        if not equals:
            if not left or left[0].startswith("--"):
                raise UserError(f"{flag} needs a value")
            value = left.pop(0)
        if name == "env":
            environments.append(value)
        else:
            ordered += [flag, _whole(value) if kind is int else value]
    if len(environments) > 1:
        raise UserError(f"train on one of {', '.join(environments)}: several Atari games are atari/Breakout,Freeway")
    return (["--env", *environments] if environments else []) + ordered


def settings_given(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The settings that flags name, group → field → value, where the value is of the right type: tyro refuses others.

    >>> settings_given(["--double", "--learning-rate", "1e-3", "--batch-size=64", "--agents", "2"])
    {'learning': {'double': True, 'learning_rate': 0.001, 'batch_size': 64}}
    """
    groups, parts = setting_groups(), typing.get_type_hints(AgentConfig)
    found: dict[str, dict[str, Any]] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--no-" if flag[5:].replace("-", "_") in groups else "--").replace("-", "_")
        group = groups.get(name) if flag.startswith("--") else None
        if group is not None:
            kinds, text = _options(typing.get_type_hints(parts[group])[name]), value if equals else following
            with contextlib.suppress(ValueError):
                found.setdefault(group, {})[name] = _read(flag, text, kinds)
    return found


def _read(flag: str, text: str, kinds: tuple[Any, ...]) -> Any:
    if bool in kinds:
        return not flag.startswith("--no-")
    if text == "None" and type(None) in kinds:
        return None
    kind: type = next((kind for kind in (int, float) if kind in kinds), str)
    if kind is str and str not in kinds and not any(text in typing.get_args(choices) for choices in kinds):
        raise ValueError(text)
    return kind(text)


def without_effect(words: Sequence[str], settings: AgentConfig) -> list[str]:
    """A line for each flag that nothing will look at.

    >>> from lookrep.config import preset
    >>> without_effect(["--tau", "0.1"], preset("dqn"))
    ['--tau has no effect with --target hard']
    """
    given = {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in words if word.startswith("--")}
    found = []
    for what, value, table in (
        ("target", settings.target.target, OF_TARGET),
        ("head", settings.learning.head, OF_HEAD),
    ):
        for name, wanted in table.items():
            if name in given and value in OURS[what] and value not in wanted:
                found.append(f"--{name.replace('_', '-')} has no effect with --{what} {value}")
    return found


def _kinds(arguments: type) -> dict[str, Any]:
    """Every flag → bool, int, or anything else."""
    found: dict[str, Any] = {}
    for kind in (arguments, RunConfig, *typing.get_type_hints(AgentConfig).values()):
        hints = typing.get_type_hints(kind, include_extras=False)
        for field in dataclasses.fields(kind):
            options = _options(hints[field.name])
            found[field.name] = next((option for option in (bool, int) if option in options), str)
    return {name: kind for name, kind in found.items() if name in setting_groups() or name not in ("run", "settings")}


def _options(kind: Any) -> tuple[Any, ...]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def _whole(value: str) -> str:
    """`1e6` as 1000000; what is no whole number stays for whoever reads it to refuse."""
    try:
        number = float(value.replace("_", ""))
    except ValueError:
        return value
    plain = value.lstrip("+-").replace("_", "").isdigit()
    return value if plain or not number.is_integer() else str(int(number))
